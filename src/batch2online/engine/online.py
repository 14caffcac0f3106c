"""Algorithm 1 of the paper as an engine: coreset construction + batch solver + refresh policy.

The engine knows nothing of any particular problem. Rows are scored under the model in force, then added to the
construction; at the row counts that the policy names, the solver runs on the coreset and the policy decides whether
the model is replaced. Rows are cut at these counts and at the ends of blocks of ids, never where a caller's chunk
happens to end, so that models, changes and losses are the same for any chunking. Between cuts rows only wait in the
construction's queue.

An engine is a value. What learns, merges or forgets returns another engine and leaves this one as it is, so an error
anywhere leaves everything as it was. Only :meth:`Online.learn_one` writes to its own queue, a row at a time. All
engines that come from one share its lock, for whoever puts the next one in the place of the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.drift.order_monitor import Monitor
from batch2online.drift.order_verdict import OrderVerdict
from batch2online.engine.contest import Contest
from batch2online.engine.following import Following
from batch2online.engine.joining import Joining
from batch2online.engine.looks import Looks
from batch2online.engine.scoring import scored, summed, total
from batch2online.engine.stored import StoredEngine
from batch2online.engine.unscored import Unscored
from batch2online.engine.window import Window
from batch2online.numerics.threads import one_thread
from batch2online.problem import Problem, check_joined
from batch2online.record import Averages, Handful, Record
from batch2online.refresh import Policy
from batch2online.refresh.benefit import Pace
from batch2online.results import ChangeEvent, Costs, Counts, Regret, regret_of
from batch2online.rows import Rows, all_ones, ones
from batch2online.schema import storable
from batch2online.sketches.base import Construction, Coreset
from batch2online.validation import LARGEST_ID
from batch2online.warm_up import WarmUp

Given = tuple[FloatArray, FloatArray, FloatArray]
"""Points, targets and weights of validated rows."""


@storable
class Online(Joining, Following, Looks, StoredEngine):
    """A batch problem turned into an online learner, at one moment.

    Parameters
    ----------
    problem, construction, policy
        What a model is and how to solve for one; where rows go, empty; when to solve again.
    width, n_targets : int
        Columns of the rows, and of what belongs to them.
    flat_targets : bool
        Whether targets come as (n,).
    """

    _known: tuple[int, Regret, Record | None] | None = None  # at so many rows seen
    _room = 0  # rows that may wait, at most; not known yet
    recorder: Callable[[FloatArray, FloatArray, FloatArray], None] | None = None
    """What is told of all rows that are learned, for whoever keeps them."""

    def __init__(
        self,
        problem: Problem,
        construction: Construction,
        policy: Policy,
        width: int,
        n_targets: int,
        flat_targets: bool = False,
    ) -> None:
        if not isinstance(policy, Policy):
            named = f": pass {policy.__name__}(...)" if isinstance(policy, type) else ""
            raise TypeError(f"refresh must be a policy of batch2online.refresh or None, got {policy!r}{named}.")
        check_joined(problem, construction)
        self.problem, self.construction = problem, construction
        self.policy = policy.starting_at(problem.first_refresh(width, n_targets))
        self.width, self.n_targets = int(width), int(n_targets)
        self.lock = RLock()
        construction.begin(self.width, self.n_targets, flat_targets)
        self.window: Window | None = None
        self.contest: Contest | None = None
        self._start_over()

    def _start_over(self) -> None:
        assert self.policy.start is not None
        self.model: Any = self.problem.initial(None, self.width, self.n_targets)
        self.is_solved = False
        self.warm_up: WarmUp | None = None  # it has seen nothing, or is over
        self.changes: tuple[ChangeEvent, ...] = ()
        self.change_counts: Counts = ()
        self.next_refresh = int(self.policy.start)
        self.idle_solves = 0
        self.pace: Pace | None = None
        self.costs = Costs()
        self.solved_then: tuple[float, float, float, float] | None = None
        self.n_learned = 0
        self.loss = 0.0
        self.second_loss = 0.0
        self.unscored = Unscored()
        self.record: Record | None = None  # it begins with the first row that is scored
        self.last_coreset: tuple[Any, ...] | None = None
        self.monitor: Monitor | None = Monitor.new(self.width, self.n_targets)

    def copy(self) -> Online:
        """Return an independent engine in the same state."""
        twin: Online = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _known=None)
        twin.construction = self.construction.copy()
        twin.contest = None if self.contest is None else self.contest.copy()
        return twin

    @property
    def n_changes(self) -> int:
        """How often the model has changed."""
        return sum(count for _, count in self.change_counts)

    @property
    def n_seen(self) -> int:
        """Rows learned, and rows that wait."""
        return self.n_learned + len(self.construction.queue)

    def learned_at_once(self, points: FloatArray, targets: FloatArray, weights: FloatArray) -> Online:
        """Return the engine after these rows: itself, unless they complete a block or a refresh is due."""
        construction = self.construction
        if len(construction.queue) + len(points) >= self._room:
            return self.learned([(points, targets, weights)])
        if self.recorder is not None:
            self.recorder(points, targets, weights)
        construction.queue = construction.queue.with_rows(points, targets, weights)
        return self

    def learned(self, pieces: Iterable[Given], problem: Problem | None = None) -> Online:
        """Return the engine after these validated rows of positive weight, and with this problem where one is given."""
        new = self.copy()
        if problem is not None:
            for engine in (new, *new.rivals):
                engine.problem = problem
        with one_thread(self.width):
            for points, targets, weights in pieces:
                if self.recorder is not None:
                    self.recorder(points, targets, weights)
                new.construction.check_ids_left(len(points))
                new.construction.feed(points, targets, weights, new.rows_to_cut, new._process)
        new._room = new.rows_to_cut()
        return new

    def wrote_one(self, values: Sequence[float], target: tuple[float, ...]) -> bool:
        """Add a validated row to the queue itself if it only has to wait there; whether that was done."""
        if self.recorder is not None:
            return False
        return self.construction.queue.wrote_one(values, target, self._room)

    def learn_one(self, values: Sequence[float], target: tuple[float, ...]) -> Online:
        """Return the engine after one validated row: itself, unless the row completes a block or a refresh is due."""
        if self.wrote_one(values, target):
            return self
        row = np.array(values, dtype=np.float64)[None]
        return self.learned([(row, np.array(target, dtype=np.float64).reshape(1, -1), ones(1))])

    def rows_to_cut(self) -> int:
        """Return how many rows may wait: up to the next refresh or the end of the block."""
        construction = self.construction
        ids_left = LARGEST_ID + 1 - construction.next_id
        return int(min(self._rows_to_look(), construction.rows_to_block_end(), ids_left))

    def _rows_to_look(self) -> float:
        """Return how many rows there are to the next look of any half-life, or to the next verdict on them."""
        looks: int = min([self.next_refresh, *(rival.next_refresh for rival in self.rivals)])
        return min(looks - self.n_learned, self._rows_to_verdict())

    def _process(self, rows: Rows, owned: bool = False) -> None:
        """Score a segment under the model in force, learn it, and refresh where one is due."""
        self._score(rows)
        self.construction.absorb(rows, owned)
        self._count(len(rows))
        if self.contest is not None:
            for rival in self.contest.rivals:
                rival._process(rows)
            self._compete(rows)

    def _count(self, n: int) -> None:
        self.n_learned += n
        if self.n_learned == self.next_refresh:
            self._slide()
            if not self._may_wait():
                self.construction.settle_on_schedule()
                self._look()
            self.next_refresh = self._soon(self.policy.following(self.n_learned, self.idle_solves))

    def _advance(self, at: int) -> None:
        """Weigh rows relative to those near this id from now on."""
        factor = self.construction.advance(at)
        if factor != 1:
            self.loss *= factor
            self.second_loss *= factor
            self.unscored = self.unscored.scaled(factor)
            self.warm_up = None if self.warm_up is None else self.warm_up.scaled(factor)

    def _score(self, rows: Rows) -> None:
        self._advance(int(rows.ids[0]))
        if self.monitor is not None:
            self.monitor = self.monitor.noting(self.problem.numbers(rows), self.construction.seed)
        weighted = self.construction.weighted(rows)
        if self.is_solved and self._only_sums_count and weighted is rows and all_ones(rows.weights):
            totals = summed(self.problem, self.model, rows)
            loss, second_loss = totals.loss, totals.second
            self.record = (self.record or Record()).after(rows, totals)
        else:
            known = None if self.is_solved else self.warm_up or self.problem.warm_up()
            losses, second, self.warm_up = scored(self.problem, self.model, known, weighted)
            loss, second_loss = total(losses, weighted.weights), total(second, weighted.weights)
            if known is not None and not known.scores:
                self.unscored = self.unscored.after(weighted)
            elif self.monitor is not None:  # no rival
                self._note(rows, losses, second)
            self._remember(rows, losses, second)
            self._heed(rows, losses)
        self.loss += loss
        self.second_loss += second_loss
        if self.warm_up is not None:
            self.model = self.problem.initial(self.warm_up.answer, self.width, self.n_targets)

    def forget_order(self) -> None:
        """Be an engine whose rows came as a set: there is no loss of theirs, no change, and nothing to watch."""
        self.changes, self.change_counts, self.warm_up, self.last_coreset = (), (), None, None
        self.loss = self.second_loss = math.nan
        self.record, self.unscored = None, Unscored()
        self.monitor = Monitor.new(self.width, self.n_targets, skipped=self.n_learned)
        self._known = None

    def whole(self) -> Online:
        """Return the engine as files hold it: of a shard, the ordinary one that it stands for."""
        return self

    # -- reading ------------------------------------------------------------------------------------

    @one_thread()
    def caught_up(self) -> Online:
        """Return the engine with no row waiting any more."""
        if not len(self.construction.queue):
            return self
        twin = self.copy()
        twin.construction = self.construction.for_reading()
        twin.construction.flush(twin._process)
        return twin

    @property
    def present_model(self) -> Any:
        """The model; before the first one, the simplest that all rows seen give, those that wait included."""
        queue = self.construction.queue
        if self.is_solved or not len(queue):
            return self.model
        waiting = self.construction.weighted(queue.rows(self.construction.next_id))
        known = self.warm_up or self.problem.warm_up()
        answer = known.scored(waiting.points, waiting.targets, waiting.weights)[1].answer
        return self.problem.initial(answer, self.width, self.n_targets)

    @one_thread()
    def coreset(self) -> Coreset:
        """Return the coreset of all rows seen."""
        return (self.caught_up() if self.construction.wants_sizes else self).construction.coreset()

    def regret(self) -> Regret:
        """Return the loss and the hindsight optimum on all rows seen."""
        return self._judged_now()[1]

    def averages(self) -> Averages | None:
        """Return what all rows scored have cost, each with the weight that it was given; None where there are none."""
        _, regret, record = self._judged_now()
        if record is None or regret.reason:
            return None
        if not record.span:
            return record.averages(regret.total, regret.resolution)
        total = math.nan
        if record.spread is not None:
            total = record.spread.total(around_zero=not getattr(self.construction, "intercept", True))
        share = record.weight / regret.weight if regret.weight > 0 else 1.0
        return record.averages(total, regret.resolution * share)

    def recent_averages(self) -> Averages | None:
        """Return the same of the last rows, where old ones are let go."""
        _, regret, record = self._judged_now()
        return None if record is None or regret.reason else record.of_recent()

    def handful(self) -> Handful | None:
        """Return the few rows that hold most of the loss, if there are such."""
        averages, record = self.averages(), self._judged_now()[2]
        return None if averages is None or record is None else record.handful(averages.resolution)

    @one_thread()
    def _judged_now(self) -> tuple[int, Regret, Record | None]:
        """Return rows seen, regret and record; asked again before others come, the same."""
        known = self._known
        if known is None or known[0] != self.n_seen:
            now = self.caught_up()
            known = self._known = (now.n_seen, regret_of(now.loss, now.second_loss, now), now.record)
        return known

    def order(self) -> OrderVerdict:
        """Return whether the rows seen look as if they came in random order."""
        monitor = self.caught_up().monitor
        assert monitor is not None
        within = "the window" if self.window is not None else "a half-life"
        is_following = self.window or self.contest or self.construction.decay
        return replace(monitor.verdict(), within=within if is_following else None)
