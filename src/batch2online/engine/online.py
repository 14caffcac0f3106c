"""Algorithm 1 of the paper as an engine: coreset construction + batch solver + refresh policy.

The engine knows nothing of any particular problem. Rows are scored under the model in force, then
added to the construction; at the row counts that the policy names, the solver runs on the coreset and
the policy decides whether the model is replaced. Rows are cut at these counts and at multiples of a
block, never where a caller's chunk happens to end, so that models, changes and losses are the same
for any chunking. Between cuts rows only wait in a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.core.buffer import Buffer
from batch2online.core.coreset import Coreset
from batch2online.core.memory import Memory
from batch2online.core.registry import storable
from batch2online.core.rows import all_ones
from batch2online.core.validation import LARGEST_ID
from batch2online.coresets.construction import Construction
from batch2online.engine.changes import ChangeEvent
from batch2online.engine.regret import Regret
from batch2online.linalg.threads import one_thread_for
from batch2online.problems.problem import Problem as Problem
from batch2online.problems.problem import check_joined
from batch2online.refresh import Policy


@storable
class Online:
    """A batch problem turned into an online learner."""

    _memory: Memory | None = None  # made when needed

    def __init__(
        self, problem: Problem, construction: Construction, policy: Policy, width: int, n_targets: int
    ) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"refresh must be a policy of batch2online.refresh or None, got {policy!r}.")
        check_joined(problem, construction)
        self.problem: Any = problem
        self.construction: Any = construction
        self.policy = policy.starting_at(problem.first_refresh(width, n_targets))
        assert self.policy.start is not None
        self.model: Any = problem.initial(np.zeros(width), n_targets)
        self.is_solved = False
        self.changes: tuple[ChangeEvent, ...] = ()
        self.next_refresh = int(self.policy.start)
        self.n_learned = 0
        self.loss = 0.0
        self.unsquared_loss = 0.0
        self.timeline: tuple[tuple[int, Any], ...] | None = () if construction.keep_history else None
        self.last_coreset: tuple[Any, ...] | None = None
        self.width, self.n_targets = int(width), int(n_targets)
        construction.extend(np.empty((0, width)), np.empty((0, n_targets)), np.empty(0))
        self.block: int = construction.block
        self.buffer = self._new_buffer()
        self._measure_room()

    @property
    def n_seen(self) -> int:
        return self.n_learned + self.buffer.count

    # -- learning -----------------------------------------------------------------------------------

    def learn(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        """Take in validated rows of positive weight; an error leaves the learner as it was."""
        if self.buffer.count + len(points) < self.room:
            self.buffer.append(points, targets, weights)
            return
        with self.transaction(), one_thread_for(self.width):
            self._learn_in_pieces(points, targets, weights)

    def _learn_in_pieces(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        start = 0
        while start < len(points):
            waiting = self.buffer.count
            piece = slice(start, min(start + self.room - waiting, len(points)))
            start = piece.stop
            complete = waiting + piece.stop - piece.start == self.room
            if complete and waiting == 0:
                self._process_at_once(points[piece], targets[piece], weights[piece])
                continue
            self.buffer.append(points[piece], targets[piece], weights[piece])
            if complete:
                self._process_waiting()

    def _process_at_once(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        """Process rows of a caller, without a wait but in memory that the history keeps."""
        memory = self._memory_of_history()
        if memory is None:
            self._process(points, targets, weights)
            return
        own = memory.rows(len(points))
        own[...] = points
        self._process(own, targets, weights if all_ones(weights) else weights.copy(), owned=True)

    def learn_one(self, values: Sequence[float], target: Sequence[float]) -> None:
        """Take in one validated row: an append, unless it completes a block or a refresh is due."""
        if self.buffer.append_one(values, target) == self.room:
            self._process_last()

    def _process_last(self) -> None:
        """Process the waiting rows; if that fails, the last of them has not come."""
        self.buffer.count -= 1
        with self.transaction(), one_thread_for(self.width):
            self.buffer.count += 1
            self._process_waiting()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Whatever goes wrong inside, even an interrupt, leaves the learner as it was before."""
        saved, waiting = self.__dict__ | {"construction": self.construction.copy()}, self.buffer.count
        try:
            yield
        except BaseException:
            self.__dict__.update(saved)
            self.buffer.truncate(waiting)
            self._measure_room()
            raise

    def _measure_room(self) -> None:
        """How many rows may wait: up to the next refresh or the end of the block; the buffer makes room for as many."""
        ids_left = LARGEST_ID + 1 - self.construction.next_id  # one row more is processed at once, and refused
        self.room = min(self.next_refresh - self.n_learned, self.block - self.n_learned % self.block, ids_left + 1)
        self.buffer.capacity = self.room

    def _process_waiting(self) -> None:
        if self.buffer.count:
            rows = self.buffer.rows()
            self.buffer = self._new_buffer()
            self._process(*rows, owned=True)

    def _new_buffer(self) -> Buffer:
        return Buffer(self.width, self.n_targets, self.block, self._memory_of_history())

    def _memory_of_history(self) -> Memory | None:
        """Where rows wait that the history will keep in memory, just as they are."""
        history = self.construction.history
        if self._memory is None and self.n_targets == 0 and history is not None and history.is_in_memory:
            self._memory = Memory(self.width)
        return self._memory

    def _process(self, points: FloatArray, targets: FloatArray, weights: FloatArray, owned: bool = False) -> None:
        """Score a segment under the model in force, learn it, and refresh where one is due.

        Rows that are ``owned`` belong to nobody else and may be kept.
        """
        if self.n_learned == 0 and not self.is_solved:
            self.model = self.problem.initial(points[0], self.n_targets)
        if self.timeline is not None and not (self.timeline and self._is_model(self.timeline[-1][1])):
            self.timeline = (*self.timeline, (self.construction.next_id, self.model))
        self._add_losses(self.model, points, targets, weights)
        self.construction.extend(points, targets, weights, owned)
        self.n_learned += len(points)
        if self.n_learned == self.next_refresh:
            self.construction.settle()
            self._look()
            self.next_refresh = self.policy.following(self.n_learned)
        self._measure_room()

    def _is_model(self, other: Any) -> bool:
        return other is self.model or bool(self.problem.same(other, self.model))

    def _add_losses(self, model: Any, points: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        with np.errstate(over="ignore"):
            losses, unsquared = self.problem.losses(model, points, targets)
            if not all_ones(weights):
                losses, unsquared = losses * weights, unsquared * weights
            self.loss += float(losses.sum())
            self.unsquared_loss += float(unsquared.sum())

    # -- refreshing ---------------------------------------------------------------------------------

    def _look(self) -> None:
        """A scheduled refresh: solve unless that cannot change anything, replace unless good enough."""
        problem, construction, at = self.problem, self.construction, self.n_learned
        if not self.is_solved:
            self._replace_first()
            return
        if self.policy.only_on_change and not self._coreset_changed():
            return
        before = problem.cost(self.model, construction)
        allowance = self.policy.allowance(construction.seed, at)
        if allowance and before <= allowance * problem.lower_bound(construction):
            return
        new = problem.solve(construction, self.model)
        after = problem.cost(new, construction)
        if allowance and before <= allowance * after:
            return
        self._replace(new, "scheduled", before, after, allowed=allowance - 1 if allowance else None)

    def _replace_first(self) -> None:
        self.model = self.problem.solve(self.construction, None)
        self.is_solved = True
        if self.policy.only_on_change:
            self._coreset_changed()

    def _replace(self, new: Any, kind: str, before: float, after: float, **details: Any) -> None:
        if self.problem.same(self.model, new):
            return
        difference = self.problem.difference(self.model, new, self.construction)
        costs: dict[str, Any] = {"cost_before": before, "cost_after": after}
        event = ChangeEvent(at=self.n_learned, kind=kind, **costs, **difference, **details)
        self.model, self.changes = new, (*self.changes, event)

    def _coreset_changed(self) -> bool:
        coreset = self.construction.coreset()
        old, self.last_coreset = self.last_coreset, (coreset.ids, coreset.weights)
        return old is None or not all(map(np.array_equal, old, self.last_coreset))

    def refresh(self, kind: str, **details: Any) -> None:
        """Solve now, on all rows seen, and take the new model whatever the old one costs."""
        self._process_waiting()
        self.construction.settle()
        if self.is_solved and self.n_learned:
            before = self.problem.cost(self.model, self.construction)
            new = self.problem.solve(self.construction, self.model)
            self._replace(new, kind, before, self.problem.cost(new, self.construction), **details)
        elif self.n_learned:
            self._replace_first()
        self.next_refresh = self.policy.after(self.n_learned)
        self._measure_room()

    # -- merging, forgetting, reading ---------------------------------------------------------------

    def merge(self, other: Online) -> None:
        """Take in what another learner has seen, and solve anew on all of it."""
        theirs = other.caught_up()
        with self.transaction():
            self._process_waiting()
            self.construction._join(theirs.construction)
            self.n_learned += theirs.n_learned
            self.loss += theirs.loss
            self.unsquared_loss += theirs.unsquared_loss
            if self.timeline is not None and theirs.timeline is not None:
                self.timeline = tuple(sorted((*self.timeline, *theirs.timeline), key=itemgetter(0)))
            self.refresh("merged", rows=theirs.n_learned)
        self.construction.clean_up()

    def forget(self, ids: Any) -> None:
        """Become what it would be without these rows, and solve anew."""
        with self.transaction():
            self._process_waiting()
            before = self.construction.n_rows
            self.construction._forget(ids)
            self.n_learned = self.construction.n_rows
            self._forget_losses()
            if self.n_learned == 0:
                self.model, self.is_solved = self.problem.initial(np.zeros(self.width), self.n_targets), False
            self.refresh("forgotten", rows=before - self.n_learned)
        self.construction.clean_up()

    def _forget_losses(self) -> None:
        """Sum the losses of the remaining rows, each under the model that was in force when it came."""
        assert self.timeline is not None
        self.loss = self.unsquared_loss = 0.0
        starts = [first for first, _ in self.timeline]
        for rows in self.construction.history:
            era = np.searchsorted(starts, rows.ids, side="right") - 1
            for index in np.unique(era):
                own = rows[era == index]
                self._add_losses(self.timeline[index][1], own.points, own.targets, own.weights)

    def caught_up(self) -> Online:
        """A copy in which no row waits any more; this learner stays as it is."""
        twin: Online = object.__new__(Online)
        twin.__dict__.update(self.__dict__)
        twin.construction = self.construction.copy()
        twin._process_waiting()
        twin.construction.seal()
        return twin

    def discard(self) -> None:
        """Remove what this learner has put on disk: it has failed in its first call."""
        self.construction.discard()

    def trimmed(self) -> Online:
        """A copy whose buffers end with the rows that wait: what a checkpoint holds."""
        twin: Online = object.__new__(Online)
        twin.__dict__.update(self.__dict__)
        twin.buffer = self.buffer.trimmed()
        return twin

    def first_row(self) -> FloatArray:
        """The first of the rows that wait, zero if there is none."""
        return np.array(self.buffer.values[0, : self.width]) if self.buffer.count else np.zeros(self.width)

    def coreset(self) -> Coreset:
        coreset: Coreset = self.caught_up().construction.coreset()
        return coreset

    def regret(self) -> Regret:
        """Loss and hindsight optimum on all rows seen."""
        now = self.caught_up()
        return Regret(now.loss, self.problem.optimum(now.construction, now.model), now.n_learned, now.unsquared_loss)
