"""A state machine: any sequence of learning, merging, forgetting, saving, closing and crashing ends where it should.

After each step the model is bit for bit that of another one, which did the same in memory and in other chunks.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from batch2online import Durable, load
from torture.cases import ESTIMATORS, FOLLOWING, MEMORY, WITH_HISTORY, X, digest, model, small_blocks, targets


class Machine(RuleBasedStateMachine):
    """``durable`` is under test, ``twin`` is what its model should be."""

    @initialize(name=st.sampled_from(sorted(ESTIMATORS)), checkpoint_rows=st.sampled_from((1, 30, 10**6)))
    def start(self, name, checkpoint_rows):
        self.scratch, self.name = tempfile.TemporaryDirectory(dir=MEMORY), name
        self.path, self.checkpoint_rows = Path(self.scratch.name, "model.b2o"), checkpoint_rows
        self.twin, self.ids, self.next_id, self.used = model(name), [], 0, 0
        self.durable = self.opened()

    def opened(self):
        return Durable(self.path, model(self.name), durability="os", checkpoint_rows=self.checkpoint_rows)

    def teardown(self):
        if hasattr(self, "durable"):
            self.durable.close()
            self.scratch.cleanup()

    def fresh(self, n):
        taken = np.arange(self.used, self.used + n) % len(X)
        self.used += n
        return taken

    def note(self, first, n):
        self.ids += range(first, first + n)
        self.next_id = first + n
        self.check()

    @rule(n=st.integers(1, 60), pieces=st.integers(1, 4))
    def add(self, n, pieces):
        taken = self.fresh(n)
        for part in np.array_split(taken, min(pieces, n)):
            self.durable.partial_fit(X[part], targets(self.name, part), key=f"{self.used} {part[0]}")
            self.durable.partial_fit(X[part], targets(self.name, part), key=f"{self.used} {part[0]}")
        self.twin.partial_fit(X[taken], targets(self.name, taken))
        self.note(self.next_id, n)

    @rule()
    def learn_one(self):
        (at,) = taken = self.fresh(1)
        y = targets(self.name, at)
        self.durable.learn_one(X[at].tolist(), y if y is None or isinstance(y, str) else float(y))
        self.twin.partial_fit(X[taken], targets(self.name, taken))
        self.note(self.next_id, 1)

    @precondition(lambda self: getattr(self, "ids", None) and self.name not in FOLLOWING)
    @rule(n=st.integers(1, 40), gap=st.integers(0, 15_000))
    def merge(self, n, gap):
        taken, first = self.fresh(n), self.next_id + gap
        other = model(self.name, first_id=first).partial_fit(X[taken], targets(self.name, taken))
        self.durable.merge(other)
        self.twin.merge(other)
        self.note(first, n)

    @precondition(lambda self: getattr(self, "ids", None) and self.name in WITH_HISTORY)
    @rule(data=st.data())
    def forget(self, data):
        gone = data.draw(st.lists(st.sampled_from(self.ids), max_size=8, unique=True))
        if len(gone) < len(self.ids):
            self.durable.forget(gone)
            self.twin.forget(gone)
            self.ids = sorted(set(self.ids) - set(gone))
            self.check()

    @precondition(lambda self: getattr(self, "ids", None))
    @rule()
    def save(self):
        self.durable.save(self.path.with_name("saved"))
        assert digest(load(self.path.with_name("saved"))) == digest(self.twin)
        self.durable.checkpoint()

    @rule(is_crash=st.booleans())
    def reopen(self, is_crash):
        if is_crash:
            self.durable._session.abandon()
        else:
            self.durable.close()
        self.durable = self.opened()
        self.check()

    def check(self):
        assert digest(self.durable.model) == digest(self.twin)


@small_blocks
def state_machine(count: int, steps: int = 30) -> dict[str, int]:
    """Random sequences of so many steps."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    return {"equal to the model in memory after each step": count}
