"""Constructions: settings, counts, and rows that agree with each other."""

from __future__ import annotations

import math
from itertools import chain, pairwise
from typing import Any

import numpy as np

from batch2online.decay import ForwardDecay
from batch2online.engine.invariants.rows import check_ascending, check_width
from batch2online.history import History
from batch2online.methods.any_estimator.sensitivity import Score, Sensitivity, Summary
from batch2online.methods.any_estimator.sketch import FixedScores, Piloted
from batch2online.methods.clustering.race import Race
from batch2online.methods.clustering.sketch import (
    AssignedStatistics,
    Clustering,
    FixedSeeds,
    MovingSeeds,
    Seeded,
    SeedStatistics,
)
from batch2online.methods.least_squares.sketch import Leverage, LeverageStatistics
from batch2online.methods.linear_losses.expansion_state import ScorePerWeight
from batch2online.methods.linear_losses.sketch import Anchored
from batch2online.methods.low_rank.moments import RidgeMoments
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.rows import Queue, Rows, block_rows
from batch2online.schema import check_of, require
from batch2online.sketches.antitone import Antitone
from batch2online.sketches.base import Construction
from batch2online.sketches.candidates import Candidates
from batch2online.sketches.everything import Everything, Nothing
from batch2online.sketches.exact_sums import ExactGram
from batch2online.sketches.uniform import TotalWeight, Uniform
from batch2online.storage.model_file import HistoryPlace
from batch2online.validation import LARGEST_ID

_STATISTICS: dict[type, tuple[type, ...]] = {
    Anchored: (ScorePerWeight,),
    Everything: (Nothing,),
    Leverage: (LeverageStatistics,),
    Piloted: (FixedScores,),
    RidgeLeverage: (RidgeMoments,),
    Uniform: (TotalWeight,),
    Sensitivity: (Nothing, Summary),
    FixedSeeds: (AssignedStatistics,),
    MovingSeeds: (SeedStatistics,),
}


@check_of(
    Construction,
    {
        "epsilon": float,
        "coreset_size": float | str | None,
        "seed": int,
        "next_id": int,
        "intervals": list[tuple[int, int]],
        "n_rows": int,
        "weight": float,
        "typical_weight": float,
        "shape": tuple[int, int] | None,
        "block": int,
        "keep_history": bool,
        "history": History | HistoryPlace | None,
        "flat_targets": bool,
        "decay": ForwardDecay | None,
        "queue": Queue,
    },
    optional=("queue", "typical_weight", "decay"),  # schema 1 has none, nor files of version 0.2 the second
)
def check_construction(construction: Construction) -> None:
    require(0 < construction.epsilon < 1 and 0 <= construction.seed < 2**64, "epsilon and seed are within bounds.")
    ends = list(chain.from_iterable(construction.intervals))
    require(all(one < other for one, other in pairwise(ends)), "intervals of ids ascend.")
    require(min(ends, default=0) >= 0 and max(ends, default=0) <= construction.next_id, "ids are below the next one.")
    require(construction.next_id <= LARGEST_ID + 1, f"ids are at most {LARGEST_ID}.")
    require(construction.n_rows >= 0 <= construction.weight, "counts are not negative.")
    require(0 < construction.typical_weight < math.inf, "rows have a weight.")
    if construction.shape is None:
        require(not construction.n_rows and construction.history is None, "an empty construction has seen no rows.")
        return
    width, n_targets = construction.shape
    require(width >= 1 and n_targets >= 0 < construction.block, "rows have columns.")
    require(n_targets == 1 or not construction.flat_targets, "flat targets have one column.")
    queue = construction.queue
    require((queue.width, queue.columns) == (width, width + n_targets), "the queue is as wide as the rows.")
    largest = construction.largest
    require((abs(queue.rows(0).points) <= largest).all(), f"magnitudes are at most {largest:g}.")
    if not isinstance(construction, Seeded):
        _check_counts(construction, width, n_targets)


def _check_counts(construction: Construction, width: int, n_targets: int) -> None:
    """Check constructions that number their rows themselves."""
    require(construction.block == block_rows(width + n_targets), "a block is as large as it must be.")
    seen = sum(stop - start for start, stop in construction.intervals)
    require(construction.n_rows <= seen, "rows have different ids.")
    history = construction.history
    require((history is not None) == construction.keep_history, "a history is kept where it is asked for.")
    if history is not None:
        shape = (history.block, history.width, history.n_targets)
        require(shape == (construction.block, width, n_targets), "a history is as wide as its rows.")
        n_rows = history.rows if isinstance(history, HistoryPlace) else len(history)
        require(n_rows == construction.n_rows, "a history holds all rows.")
        if isinstance(history, History):
            check_width(history, width, n_targets, construction.largest)
            require(all(rows.ids[-1] < construction.next_id for rows in history), "ids are below the next one.")


@check_of(
    Antitone,
    {
        "statistics": Any,
        "constant": float,
        "expected_size": float,
        "parts": list[Candidates],
        "n_unthinned": int,
        "tail": list[Rows],
        "sums": ExactGram | None,
    },
    optional=("tail", "sums"),  # the first is of schema 1, the second of shards
)
def check_antitone(construction: Antitone) -> None:
    if construction.shape is None:
        require(construction.statistics is None, "an empty construction knows nothing.")
        require(not construction.parts, "an empty construction has seen no rows.")
        return
    statistics = type(construction.statistics)
    require(statistics in _STATISTICS.get(type(construction), (statistics,)), "statistics fit.")
    require(0 < construction.constant < math.inf and construction.expected_size > 0, "sizes are positive.")
    require(construction.parts, "a construction has its candidates.")
    require(construction.n_unthinned >= 0, "counts are not negative.")
    parts = [part.rows for part in construction.parts]
    check_ascending(parts)
    targets = None if isinstance(construction, Seeded | Anchored | Piloted) else construction.shape[1]
    check_width(parts, construction.shape[0], targets, np.inf)
    require(len({len(rows.targets.T) for rows in parts if len(rows)}) <= 1, "rows have as many targets as all others.")


@check_of(
    Leverage, {"intercept": bool, "score_targets": bool, "columns": tuple[int, ...] | None}, optional=("columns",)
)
def check_leverage(construction: Leverage) -> None:
    if construction.shape is not None:
        moments, columns = construction.statistics.moments, construction.columns
        width, n_targets = construction.shape
        require(columns is None or all(0 <= column < width for column in columns), "columns are those of the rows.")
        require(construction.statistics.columns == columns, "moments are those of the columns.")
        shape = (width if columns is None else len(columns), n_targets)
        is_like = (moments.width, moments.n_targets) == shape and moments.intercept == construction.intercept
        require(is_like, "moments fit the rows.")
        require(moments.rows == construction.n_rows, "moments are those of all rows.")
        require(construction.statistics.with_targets == construction.score_targets, "targets are scored or not.")


@check_of(RidgeLeverage, {"rank": int, "intercept": bool})
def check_ridge_leverage(construction: RidgeLeverage) -> None:
    require(construction.rank >= 1, "a rank is at least 1.")
    if construction.shape is not None:
        moments = construction.statistics
        settings = (construction.shape[0], construction.intercept, construction.rank)
        require((moments.width, moments.intercept, moments.rank) == settings, "moments fit the rows.")
        require(moments.rows == construction.n_rows, "moments are those of all rows.")


@check_of(Uniform)
def check_uniform(construction: Uniform) -> None:
    if construction.shape is not None:
        require((construction.statistics.total > 0) == (construction.n_rows > 0), "rows weigh something.")


@check_of(Sensitivity, {"score": Score, "summary": Score | None, "total_score": float | None})
def check_sensitivity(construction: Sensitivity) -> None:
    total = construction.total_score
    require(total is None or 0 < total < math.inf, "a total score is positive.")
    require(construction.summary is None or total is not None, "a summary needs a total score.")
    require(construction.summary is not None or construction.keep_history, "without a summary rows are kept.")
    if construction.shape is not None:
        kind = Nothing if construction.summary is None else Summary
        require(type(construction.statistics) is kind, "statistics fit.")


@check_of(Seeded, {"seeds": Rows, "k": int, "z": float})
def check_seeded(sampler: Seeded) -> None:
    require(sampler.history is None and sampler.shape is not None, "a sampler keeps no history.")
    statistics = sampler.statistics
    require((statistics.k, statistics.z) == (sampler.k, sampler.z), "statistics have the same settings.")
    require(np.array_equal(statistics.seeds, sampler.seeds.points), "statistics have the same seeds.")


@check_of(FixedSeeds)
def check_fixed_seeds(sampler: FixedSeeds) -> None:
    require(sampler.shape == (3, 0), "fixed seeds keep three numbers of a row.")
    for part in sampler.parts:
        losses, labels, positions = part.rows.points.T
        require(_are_indices(labels, len(sampler.seeds)), "rows are nearest to one of the seeds.")
        require((losses >= 0).all() and _are_indices(positions, sampler.n_rows), "rows have their positions.")


@check_of(MovingSeeds)
def check_moving_seeds(sampler: MovingSeeds) -> None:
    require(sampler.shape is not None and sampler.shape[1] == 0, "clusters have no targets.")


@check_of(Everything)
def check_everything(construction: Everything) -> None:
    require(construction.n_rows >= sum(map(len, construction.parts)), "all rows are kept, and no others.")


def _are_indices(values: Any, stop: int) -> bool:
    return bool(((values >= 0) & (values < stop) & (values == np.floor(values))).all())


@check_of(
    Clustering,
    {
        "k": int,
        "z": float,
        "stages": int,
        "history_place": str,
        "race": Race,
        "sampler": Seeded | None,
        "raced_rows": int,
        "sampled_rows": int,
    },
)
def check_clustering(construction: Clustering) -> None:
    k, z, race, sampler = construction.k, construction.z, construction.race, construction.sampler
    require(k >= 1 <= z < math.inf and construction.stages in (1, 2), "k and z are at least 1, stages 1 or 2.")
    require((race.k, race.z, race.seed) == (k, z, construction.seed), "a race has the same settings.")
    rows = (construction.sampled_rows, construction.raced_rows, construction.n_rows)
    require(0 <= rows[0] <= rows[1] <= rows[2] and race.rows == rows[1], "rows have raced before they are sampled.")
    require(construction.keep_history == (construction.history_place != "coreset"), "rows are kept or not.")
    if construction.shape is None:
        require(sampler is None, "an empty construction has seen no rows.")
        return
    width = construction.shape[0]
    require(race.origin is None or race.origin.shape == (width,), "a race is as wide as its rows.")
    kind = FixedSeeds if construction.keep_history else MovingSeeds
    require(type(sampler) is kind if construction.raced_rows or kind is MovingSeeds else sampler is None, "rows wait.")
    if sampler is not None:
        settings = (sampler.k, sampler.z, sampler.seed, sampler.epsilon, sampler.block)
        require(settings == (k, z, construction.seed, construction.epsilon, construction.block), "settings agree.")
        require(sampler.seeds.points.shape[1] == width, "seeds are as wide as the rows.")
        require(len(sampler.seeds) <= k, "there are at most k seeds.")
        sampled = construction.sampled_rows if kind is FixedSeeds else construction.n_rows
        require(sampler.n_rows == sampled, "a sampler has seen all rows.")
        require(kind is FixedSeeds or sampler.shape == (width, 0), "a sampler is as wide as the rows.")
