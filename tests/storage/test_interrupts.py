"""Interrupts at any line, and many threads at once, in short form; ``make torture`` has every line."""

from itertools import count

import pytest

from batch2online import OnlineRegression, estimator
from batch2online.history import History
from batch2online.storage.errors import StoreError
from batch2online.storage.session import Session
from batch2online.storage.tree import CheckpointError
from torture import interrupts, writers


def is_call(*names):
    return lambda call: call.name in names


@pytest.mark.parametrize(
    ("family", "share", "every"), [("estimators", 18, 100), ("constructions", 8, 20), ("durable models", 100, 15)]
)
@pytest.mark.few(1)
def test_an_interrupt_leaves_all_as_it_was_or_the_call_done(family, share, every):
    number = count()
    outcomes = interrupts.every_line(
        [family], (KeyboardInterrupt,), every=every, only=lambda call: next(number) % share == 0
    )
    assert sum(n for outcome, n in outcomes.items() if "as it was" in outcome) > 10


def test_no_memory_at_some_line_leaves_all_as_it_was_or_the_call_done():
    calls = is_call("OnlineRegression: learn_one makes a refresh due", "Durable LogisticRegression: merge")
    assert sum(interrupts.every_line(errors=(MemoryError,), every=60, only=calls).values()) > 5


def test_closing_can_be_interrupted_anywhere():
    outcomes = interrupts.every_line(
        ["durable models"], (KeyboardInterrupt,), every=20, only=is_call("Durable OnlineRegression: close")
    )
    assert sum(outcomes.values()) > 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that open() had just opened
def test_signals_leave_all_as_it_was_or_the_call_done():
    calls = is_call(
        "OnlineRegression: partial_fit", "Clustering, coreset: add", "Durable OnlineLowRank: learn_one waits"
    )
    outcomes = interrupts.signals(8, only=calls)
    assert sum(outcomes.values()) == 24
    assert sum(n for outcome, n in outcomes.items() if "undisturbed" not in outcome) > 0


def test_eight_writers_and_six_readers_lose_nothing():
    chosen = {"OnlineClustering in a folder"}
    assert min(writers.together(only=lambda name: name in chosen).values()) >= 3  # each reader of versions reads one


# -- planted defects ------------------------------------------------------------------------------------------


def test_rows_learned_in_two_steps_are_caught(monkeypatch):
    whole = estimator.OnlineEstimator.partial_fit

    def in_two_steps(self, X, y=None, sample_weight=None):
        whole(self, X[:6], y[:6])
        return whole(self, X[6:], y[6:])

    monkeypatch.setattr(OnlineRegression, "partial_fit", in_two_steps)
    with pytest.raises(AssertionError, match="a third state"):
        interrupts.every_line(["estimators"], every=15, only=is_call("OnlineRegression: partial_fit"))


def test_a_lock_that_is_not_given_back_is_caught(monkeypatch):
    def careless(self, ids):
        self._stream.lock.acquire()
        self._stream = self._stream.forget(ids)
        self._stream.lock.release()
        return self

    monkeypatch.setattr(OnlineRegression, "forget", careless)
    with pytest.raises(AssertionError, match="lock"):
        interrupts.every_line(["estimators"], every=15, only=is_call("OnlineRegression: forget"))


def test_a_model_that_is_ahead_of_its_file_is_caught(monkeypatch):
    monkeypatch.setattr(Session, "has_committed", lambda self, before: True)
    with pytest.raises((AssertionError, StoreError), match=r"another state in the file|changed past its Durable"):
        interrupts.every_line(["durable models"], every=2, only=is_call("Durable OnlineRegression: learn_one waits"))


def test_a_list_that_two_threads_go_on_with_is_caught(monkeypatch):
    def careless(self, n, rows):
        if len(self._segments) == self._count:
            self._segments.append((len(self) + n, rows))
        self._count += 1

    monkeypatch.setattr(History, "add_segment", careless)
    with pytest.raises((AssertionError, IndexError, CheckpointError)):
        writers.together(only=lambda name: name == "OnlineRegression")
