"""Eight threads that teach one model while others read it: no row is lost, and a reader sees one version of it.

Coresets are large enough to hold all rows, so the order in which rows came can be read off. A model that learns them
again in this order, alone, must be the same to the last bit, at the end and at every moment that a reader has seen.
"""

from __future__ import annotations

import copy
import os
import pickle
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import batch2online
from torture.interrupted_calls import TARGETS, X, estimators
from torture.interrupts import small_blocks
from torture.subjects import DurableSubject, fast_place, state_of

FIRST, WRITERS, EACH = 16, 8, 6
"""Rows learned before the threads start, writers, and rows of each of them."""


def together(rounds: int = 1, only: Callable[[str], bool] = lambda name: True) -> dict[str, int]:
    """Let all estimators be used so, and durable models; return how many versions were read."""
    found: Counter[str] = Counter()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with small_blocks():
            for name, (make, targets) in estimators().items():
                keeps_all = "window" not in name  # the order is read off a coreset that holds all rows
                for _ in range(rounds if only(name) and keeps_all else 0):
                    found[f"{name}: versions read"] += check(make, targets)
                    found[f"Durable {name}: versions read"] += check(make, targets, is_durable=True)
    finally:
        sys.setswitchinterval(before)
    return dict(found)


def check(make: Callable[..., Any], targets: str, is_durable: bool = False) -> int:
    """Teach and read from all threads at once, then look at everything that was read."""

    def large() -> Any:
        return make(coreset_size=10_000)

    y = TARGETS[targets]
    subject = DurableSubject(large) if is_durable else None
    taught = large() if subject is None else subject.thing
    taught.partial_fit(X[:FIRST], None if y is None else y[:FIRST])
    model = taught if subject is None else subject.thing.model
    seen = run(taught, model, y)
    rows = model.coreset_
    assert sorted(map(tuple, rows.points)) == sorted(map(tuple, X[: FIRST + WRITERS * EACH])), "rows were lost"
    replay = Replay(large(), rows, [X.tolist().index(point) for point in rows.points.tolist()], y)
    for at, state in sorted([*seen, (model.n_seen_, state_of(model))]):
        assert state == replay.state_at(at), f"what was read at {at} rows is no version of the model"
    if subject is not None:
        subject.end()
    return len(seen)


class Replay:
    """A model that learns the same rows in the same order, alone."""

    def __init__(self, model: Any, rows: Any, order: list[int], y: Any) -> None:
        assert (rows.ids == np.arange(len(rows.ids))).all()
        self.model, self.order, self.y, self.at = model, order, y, 0

    def state_at(self, n: int) -> bytes:
        some = self.order[self.at : n]
        if some:
            self.model.partial_fit(X[some], None if self.y is None else self.y[some])
        self.at = n
        return state_of(self.model)


def run(taught: Any, model: Any, y: Any) -> list[tuple[int, bytes]]:
    """Return the row counts and states of all copies that were made meanwhile."""
    failures: list[BaseException] = []
    seen: list[tuple[int, bytes]] = []
    is_over = threading.Event()

    def guarded(act: Callable[[], object]) -> threading.Thread:
        def target() -> None:
            try:
                act()
            except BaseException as error:
                failures.append(error)

        return threading.Thread(target=target)

    def write(first: int) -> None:
        part = slice(first + 2, first + EACH)
        for at in (first, first + 1):
            taught.learn_one(X[at].tolist(), None if y is None else y[at].item())
        taught.partial_fit(X[part], None if y is None else y[part])

    def read(look: Callable[[Any], Any]) -> None:
        while True:
            stop = is_over.is_set()
            result = look(model)
            if result is not None:
                seen.append((result.n_seen_, state_of(result)))
            if stop:
                return

    writers = [guarded(lambda first=FIRST + EACH * w: write(first)) for w in range(WRITERS)]
    readers = [guarded(lambda look=look: read(look)) for look in READERS]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    for thread in readers:
        thread.join()
    if failures:
        raise failures[0]
    return seen


# -- what readers do ----------------------------------------------------------------------------------------


def look_at_coreset(model: Any) -> None:
    coreset = model.coreset_
    assert (coreset.ids == np.arange(len(coreset.ids))).all(), "rows are missing"
    assert len(coreset.ids) == len(coreset.points) == len(coreset.weights)


def look_at_regret(model: Any) -> None:
    regret = model.regret_
    assert regret.rows >= FIRST
    assert np.isfinite(regret.loss)


def look_at_predictions(model: Any) -> None:
    assert np.isfinite(model.transform(X[:3]) if hasattr(model, "transform") else model._stream.current.loss).all()


def saved(model: Any) -> Any:
    handle, name = tempfile.mkstemp(suffix=".b2o", dir=fast_place())
    os.close(handle)
    try:
        model.save(name)
        return batch2online.load(name, trusted=True)
    finally:
        Path(name).unlink()


def pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


READERS: tuple[Callable[[Any], Any], ...] = (
    look_at_coreset,
    look_at_regret,
    look_at_predictions,
    saved,
    copy.deepcopy,
    pickled,
)
