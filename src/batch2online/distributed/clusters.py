"""Clustering with all rows in the memory of a cluster: seeds, coreset and centers of one machine.

The exponential race takes k rounds. In each, every partition names its own winner against the seeds so far, and the
best of these is the next seed. One pass for scores and candidates follows, one more for the sums of clusters where
models are exact. Partitions begin at multiples of 10,000 ids, so that rows are summed in the same blocks as on one
machine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from batch2online import sampling
from batch2online._types import BoolArray, FloatArray
from batch2online.decay import ForwardDecay, weighted_history
from batch2online.history import History
from batch2online.methods.clustering import problem
from batch2online.methods.clustering.race import Race, RowSearch, distances, exponentials, race_keys
from batch2online.methods.clustering.sketch import (
    AssignedStatistics,
    ClusteringSketch,
    FixedSeeds,
    MovingSeeds,
    SeedStatistics,
)
from batch2online.numerics.distances import Sums
from batch2online.rows import Rows
from batch2online.sampling import kept as are_kept
from batch2online.sampling import probabilities
from batch2online.sketches.base import SketchTotals
from batch2online.sketches.candidates import Candidates

ALIGNED = 10_000
"""Rows are cut at multiples of this: every size of a block divides it."""


@dataclass(frozen=True)
class Entrants:
    """The rows of an aligned partition, and what is known of their race."""

    history: History
    decay: ForwardDecay | None
    race: Race

    @property
    def past(self) -> Any:
        """The rows with the weights that they have under decay."""
        return weighted_history(self.history, self.decay)


class Sampled(NamedTuple):
    """What a pass over the rows of a partition gives: of each block its share of the statistics, and candidates."""

    blocks: list[tuple[float, FloatArray, SketchTotals]]  # cost, masses, totals
    candidates: Candidates  # rows of three columns: loss, seed, position
    rows: Rows  # the same in full


@dataclass(frozen=True)
class BlockStatistics(AssignedStatistics):
    """Statistics that remember the share of each block, so that all shares can be added in the order of ids."""

    blocks: tuple[tuple[float, FloatArray], ...] = ()

    def with_block(self, rows: Rows) -> tuple[BlockStatistics, BoolArray, FloatArray]:
        alone, is_nearest, losses = AssignedStatistics.empty(self.seeds, self.k, self.z).with_block(rows)
        blocks = (*self.blocks, (alone.cost, alone.masses))
        new = replace(self, cost=self.cost + alone.cost, masses=self.masses + alone.masses, blocks=blocks)
        return new, is_nearest, losses


# -- what workers do ----------------------------------------------------------------------------------


def cut(shard: Any, start: int, stop: int) -> Rows:
    """Return the rows of a shard with ids in this range."""
    rows: Rows = shard._stream.flushed().history.everything()
    return rows[(rows.ids >= start) & (rows.ids < stop)]


def shell_of(shards: list[Any]) -> Any:
    """Return an estimator that has seen the same kind of rows, and holds none of them."""
    shell = copy.copy(shards[0])
    stream = shell._stream.flushed()
    shell._stream = replace(
        stream.map(lambda state: replace(state, sketch=state.sketch.empty())), history=stream.history.emptied()
    )
    return shell


def entered(pieces: list[Rows], shell: Any, last_id: int) -> Entrants:
    """Return rows prepared for the race of seeds."""
    sketch, decay = shell._stream.sketch, shell._stream.learner.decay
    rows = Rows.concatenate([piece for piece in pieces if len(piece)])
    history = History(sketch.settings.block, rows.points.shape[1], rows.targets.shape[1])
    for first in range(int(rows.ids[0]) // history.block, int(rows.ids[-1]) // history.block + 1):
        block = rows[rows.ids // history.block == first]
        if len(block):
            history = history.append(block)
    decay = None if decay is None else decay.moved_to(last_id)[0]
    entrants = Entrants(history, decay, Race(sketch.k, sketch.z, sketch.settings.seed))
    return replace(entrants, race=entrants.race.updated(entrants.past))


def winner(entrants: Entrants, stage: int, seeds: Rows) -> Rows | None:
    """Return the row that wins this stage against the seeds, among these rows."""
    race, past = entrants.race, entrants.past
    search = RowSearch(past, race.k, race.z, race.seed)
    _, position = race.winner(stage, tuple(seeds.ids.tolist()), seeds.points, search)
    return None if position < 0 else past.at(np.array([position]))


def sampled(entrants: Entrants, sketch: ClusteringSketch, seeds: Rows) -> Sampled:
    """Return what these rows add to the statistics, and those of them that may be in the coreset."""
    sampler: FixedSeeds = sketch._new_sampler(FixedSeeds, seeds, width=3)  # type: ignore[assignment]
    sampler.statistics = BlockStatistics.empty(seeds.points, sketch.k, sketch.z)
    position, totals = 0, []
    for rows in entrants.past.blocks():
        sampler = sampler.with_block(rows, position)
        totals.append(SketchTotals.of(rows))
        position += len(rows)
    sampler = sampler.thinned()
    candidates = sampler._candidates()
    in_full = entrants.past.at(candidates.rows.points[:, 2].astype(np.int64))
    shares = zip(sampler.statistics.blocks, totals, strict=True)
    return Sampled([(*own, of_block) for own, of_block in shares], candidates, in_full)


def block_sums(entrants: Entrants, centers: FloatArray, origin: FloatArray) -> list[Sums]:
    """Return the sums of the clusters of these centers, relative to an origin, for each block."""
    return list(problem.block_sums(entrants.past.blocks(), centers, origin))


# -- what the client does -------------------------------------------------------------------------------


class Rounds:
    """The rounds over rows that stay in the memory of a cluster."""

    def __init__(self, shell: Any, each: Callable[..., tuple[Any, ...]], ids: tuple[int, int]) -> None:
        """Take an estimator without rows, a function that runs work on the entrants of each partition, and the ids."""
        self.shell, self.each, self.ids = shell, each, ids
        self.sketch: ClusteringSketch = shell._stream.sketch
        if self.sketch.settings.is_adaptive:
            raise ValueError('epsilon="auto" needs all rows in one place: set a number to find clusters on a cluster.')

    def fitted(self) -> Any:
        """Return an estimator of all rows, with a model solved on them."""
        shell, sketch, last_id = self.shell, self.sampled(), self.ids[1] - 1
        stream = shell._stream
        decay = None if stream.learner.decay is None else stream.learner.decay.moved_to(last_id)[0]
        state = replace(stream.learner, sketch=sketch, n_learned=sketch.totals.n_rows, last_id=last_id, decay=decay)
        stream = replace(stream, learner=state, buffer_id=last_id + 1, id_ranges=[self.ids], history=None)
        stream = stream.whole(rows=self)
        shell._stream = stream
        if isinstance(stream.problem, problem.ClusteringProblem):
            shell._stream = stream.append([], replace(stream.problem, exact=False))  # rows are not at hand any more
        return shell

    def seeds(self) -> Rows:
        """Return the seeds, in the order in which they are drawn."""
        sketch, seed = self.sketch, self.sketch.settings.seed
        seeds = Rows.empty(*sketch.settings.shape)
        for stage in range(sketch.k):
            found = [row for row in self.each(winner, stage, seeds) if row is not None]
            if not found:
                break
            rows = Rows.concatenate(found)
            variables = exponentials(seed, rows.ids, np.full(len(rows), stage))
            keys = race_keys(variables, rows.weights, distances(rows.points, seeds.points, sketch.z))
            first = int(np.lexsort((rows.ids, keys))[0])
            seeds = Rows.concatenate([seeds, rows[first : first + 1]])
        return seeds

    def sampled(self) -> ClusteringSketch:
        """Return a sketch that keeps no more than the coreset of all rows."""
        seeds, old = self.seeds(), self.sketch
        parts: tuple[Sampled, ...] = self.each(sampled, old, seeds)
        new = ClusteringSketch(old.settings, old.k, old.z, old.stages, reads_history=False)
        cost, masses = 0.0, np.zeros(len(seeds))
        for own_cost, own_masses, totals in (block for part in parts for block in part.blocks):
            cost, masses = cost + own_cost, masses + own_masses
            new.totals = new.totals.merge(totals)
        statistics = AssignedStatistics(seeds.points, new.k, new.z, cost, masses)
        new.sampler = _bounded(new, seeds, statistics, parts)
        return new

    def block_sums(self, centers: FloatArray, origin: FloatArray) -> Iterator[Sums]:
        """Return the sums of the clusters of all rows, relative to an origin, a block at a time."""
        return (sums for part in self.each(block_sums, centers, origin) for sums in part)


def _bounded(sketch: ClusteringSketch, seeds: Rows, known: AssignedStatistics, parts: tuple[Sampled, ...]) -> Any:
    """Return a sampler that holds the coreset alone, each row with its inclusion probability."""
    sampler = sketch._new_sampler(MovingSeeds, seeds, sketch.settings.shape[0])
    sampler.statistics = SeedStatistics(known.seeds, known.k, known.z, known.cost, known.masses)
    joined = Candidates.joined([part.candidates for part in parts])
    rows = Rows.concatenate([part.rows for part in parts])
    q = probabilities(known.scores(joined.rows), sampler.constant)
    keep = are_kept(sampling.inclusion_uniforms(joined.words), q)
    sampler.parts = (Candidates(rows[keep], joined.words[keep], q[keep]),)
    sampler.totals = sketch.totals
    return sampler
