"""A state machine: any sequence of learning, merging, forgetting, saving and crashing ends where it should.

After each step the model is bit for bit that of another one, which did the same without saving or crashing and in
other chunks, and its coreset is that of a construction which saw the same rows in one go.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression, load
from batch2online.persistence.checkpoint import serialise
from batch2online.persistence.durable import Durable
from batch2online.refresh import Geometric
from torture.faults import Unsynced

WIDTH = 3
SHARED = {"coreset_size": 25, "keep_history": True, "random_state": 5}
MAKERS = {
    "regression": lambda **given: OnlineRegression(**SHARED, **given),
    "low rank": lambda **given: OnlineLowRank(2, **SHARED, **given),
    "clustering": lambda **given: OnlineClustering(3, **SHARED, **given),
}
POLICIES = (None, Geometric(1.3))
ROWS = np.random.default_rng(0).normal(size=(5000, WIDTH)) * [1, 3, 10] + [0, 5, 0]
TARGETS = ROWS @ [1.0, -1.0, 2.0] + np.random.default_rng(1).normal(size=5000)


def state(model) -> bytes:
    return serialise(model._state()) if "_engine" in vars(model) else b""


class Machine(RuleBasedStateMachine):
    """``model`` is under test, ``twin`` is what it should be; ``shards`` are the rows of each run of ids."""

    @initialize(kind=st.sampled_from(sorted(MAKERS)), policy=st.sampled_from(POLICIES), is_durable=st.booleans())
    def start(self, kind, policy, is_durable):
        self.make = lambda **given: MAKERS[kind](refresh=policy, **given)
        self.folder = Path(tempfile.mkdtemp(dir=self.scratch.name))
        self.is_durable, self.opened = is_durable, None
        self.model, self.twin = self.make(), self.make()
        self.shards: list[tuple[int, np.ndarray]] = []  # first id, indices into ROWS
        self.forgotten: list[int] = []
        self.next_id = self.used = 0
        self.saved = None
        if is_durable:
            self.opened = Durable(self.folder, self.make(), checkpoint_rows=50, files=Unsynced())

    @property
    def real(self):
        return self.model if self.opened is None else self.opened

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()

    def teardown(self):
        if getattr(self, "opened", None) is not None:
            self.opened.close()
        self.scratch.cleanup()

    # -- steps --------------------------------------------------------------------------------------------

    def fresh(self, n):
        taken = np.arange(self.used, self.used + n) % len(ROWS)
        self.used += n
        return taken

    def note(self, taken):
        self.shards.append((self.next_id, taken))
        self.next_id += len(taken)

    @rule(n=st.integers(1, 60), pieces=st.integers(1, 4))
    def add(self, n, pieces):
        taken = self.fresh(n)
        for part in np.array_split(taken, min(pieces, n)):
            self.real.partial_fit(ROWS[part], TARGETS[part])
        self.twin.partial_fit(ROWS[taken], TARGETS[taken])
        self.note(taken)
        self.check()

    @rule()
    def learn_one(self):
        taken = self.fresh(1)
        self.real.learn_one(ROWS[taken[0]].tolist(), float(TARGETS[taken[0]]))
        self.twin.partial_fit(ROWS[taken], TARGETS[taken])
        self.note(taken)
        self.check()

    @precondition(lambda self: getattr(self, "shards", None))
    @rule(n=st.integers(1, 40), gap=st.integers(0, 15_000))
    def merge(self, n, gap):
        taken, first = self.fresh(n), self.next_id + gap
        other = self.make(first_id=first).partial_fit(ROWS[taken], TARGETS[taken])
        before = state(other)
        self.real.merge(other)
        self.twin.merge(other)
        assert state(other) == before
        self.shards.append((first, taken))
        self.next_id = first + n
        self.check()

    @precondition(lambda self: getattr(self, "shards", None))
    @rule(data=st.data())
    def forget(self, data):
        live = self.live_ids()
        ids = data.draw(st.lists(st.sampled_from(live), max_size=8, unique=True)) if live else []
        self.real.forget(ids)
        self.twin.forget(ids)
        self.forgotten += ids
        self.check()

    @precondition(lambda self: getattr(self, "shards", None))
    @rule()
    def save(self):
        if self.is_durable:
            self.opened.checkpoint()
        else:
            self.model.save(self.folder / "model.npz")
            remembered = ("shards", "forgotten", "next_id")
            self.saved = {name: copy.copy(getattr(self, name)) for name in remembered}, copy.deepcopy(self.twin)
        self.check()

    @precondition(lambda self: getattr(self, "is_durable", False) or getattr(self, "saved", None))
    @rule()
    def crash(self):
        """A durable model loses nothing; another one is again what it was when it was saved."""
        if self.is_durable:
            self.opened._release()
            self.opened = Durable(self.folder, self.make(), checkpoint_rows=50, files=Unsynced())
        else:
            self.model = load(self.folder / "model.npz")
            remembered, twin = self.saved
            self.twin = copy.deepcopy(twin)
            for name, value in remembered.items():
                setattr(self, name, copy.copy(value))
        self.check()

    @precondition(lambda self: getattr(self, "shards", None))
    @rule()
    def predict(self):
        now = self.opened.model if self.is_durable else self.model
        method = "transform" if isinstance(now, OnlineLowRank) else "predict"
        assert np.array_equal(getattr(now, method)(ROWS[:20]), getattr(self.twin, method)(ROWS[:20]))

    # -- what must hold after each step -------------------------------------------------------------------

    def live_ids(self):
        ids = [first + i for first, taken in self.shards for i in range(len(taken))]
        return sorted(set(ids) - set(self.forgotten))

    def check(self):
        now = self.opened.model if self.is_durable else self.model
        assert state(now) == state(self.twin)
        if self.shards:
            self.check_coreset(now)

    def check_coreset(self, now):
        actual, expected = now.coreset_, self.from_scratch(now)
        assert np.array_equal(actual.ids, expected.ids)
        assert np.array_equal(actual.weights, expected.weights)
        assert np.isfinite(actual.points).all()

    def from_scratch(self, now):
        """The coreset of the same rows, each run of ids seen at once, all merged once, all forgotten once."""
        needs_targets = now._needs_targets
        parts = []
        for first, taken in self.joined_shards():
            estimator = self.make(first_id=first)
            estimator.n_features_in_ = WIDTH
            part = estimator._new_engine(int(needs_targets)).construction
            parts.append(part.add(ROWS[taken], TARGETS[taken] if needs_targets else None))
        whole = parts[0]
        for part in parts[1:]:
            whole.merge(part)
        return whole.forget(self.forgotten).coreset()

    def joined_shards(self):
        joined: list[tuple[int, np.ndarray]] = []
        for first, taken in self.shards:
            if joined and joined[-1][0] + len(joined[-1][1]) == first:
                joined[-1] = joined[-1][0], np.concatenate([joined[-1][1], taken])
            else:
                joined.append((first, taken))
        return joined
