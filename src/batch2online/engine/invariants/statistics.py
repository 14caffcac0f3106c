"""Statistics of rows: sizes that agree, numbers that can be worked with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batch2online.engine.invariants.rows import is_finite
from batch2online.methods.any_estimator.sensitivity import LewisScore, Summary
from batch2online.methods.clustering.race import Leaders, Race, Winner
from batch2online.methods.clustering.sketch import SeedStatistics
from batch2online.methods.least_squares.moments import Moments
from batch2online.methods.least_squares.score_bounds import Reference
from batch2online.methods.least_squares.sketch import LeverageStatistics
from batch2online.methods.low_rank.moments import RidgeMoments, RidgeReference, Spectrum
from batch2online.schema import check_of, require
from batch2online.sketches.exact_sums import ExactGram
from batch2online.sketches.uniform import TotalWeight

_LARGEST_STATED = 256
_NEARLY = 1e-6
_FAR_LIMB = 256
"""Limbs from one, up or down, within which sums of products of doubles are."""


def has_shape(array: Any, *shape: int) -> bool:
    return bool(array.shape == shape)


def is_semidefinite(gram: Any) -> bool:
    """Whether a matrix is symmetric, and no direction has a negative square but for rounding."""
    diagonal = gram.diagonal()
    if not (diagonal >= 0).all():
        return False
    norms = np.where(diagonal > 0, np.sqrt(diagonal), 1.0)
    with np.errstate(over="ignore", under="ignore"):
        correlations = gram / norms / norms[:, None]
    if not ((np.abs(correlations) <= 1 + _NEARLY) & (np.abs(correlations - correlations.T) <= _NEARLY)).all():
        return False
    return bool(np.linalg.eigvalsh(correlations)[0] >= -_NEARLY)


@check_of(Reference)
def check_reference(reference: Reference) -> None:
    p = len(reference.own) if reference.own.ndim == 1 else -1
    directions = reference.directions
    require(reference.limits.shape == reference.scales.shape == (p,), "a reference has a bound for each column.")
    require(directions.ndim == 2 and len(directions) == p >= directions.shape[1], "directions are as wide as rows.")
    require(is_finite(reference.scales, directions) and not np.isnan(reference.limits).any(), "bounds are numbers.")
    require((reference.limits >= 0).all() and (reference.scales >= 0).all(), "bounds are not negative.")
    require(reference.rows > 0, "a reference is one of rows.")


@check_of(Moments)
def check_moments(moments: Moments) -> None:
    require(moments.width >= 0 <= moments.n_targets, "rows have columns.")
    p = moments.width + moments.n_targets + moments.intercept
    require(has_shape(moments.shift, p) and has_shape(moments.gram, p, p), "moments are as wide as their rows.")
    require(is_finite(moments.shift, moments.gram), "moments are finite.")
    require(is_semidefinite(moments.gram), "no square is negative.")
    require((moments.transform is None) == (moments.untransform is None), "a transform has an inverse.")
    for matrix in (moments.transform, moments.untransform):
        if matrix is not None:
            require(has_shape(matrix, p, p) and is_finite(matrix), "a transform is as wide as the rows.")
            require(matrix.diagonal().all() and not np.tril(matrix, -1).any(), "a transform is upper triangular.")
    known = 0 if moments.reference is None else moments.reference.rows
    require(0 <= known <= moments.rows and (moments.rows == 0) == (known == 0), "a reference is that of the rows.")
    require(moments.reference is None or has_shape(moments.reference.own, p), "a reference is as wide as the rows.")


@check_of(LeverageStatistics)
def check_leverage(statistics: LeverageStatistics) -> None:
    """Its moments are checked by themselves."""


@check_of(Spectrum)
def check_spectrum(spectrum: Spectrum) -> None:
    k = len(spectrum.values) if spectrum.values.ndim == 1 else -1
    require(spectrum.vectors.ndim == 2 and spectrum.vectors.shape[1] == k, "each value has a vector.")
    require(is_finite(spectrum.values, spectrum.vectors, spectrum.rest), "a spectrum is finite.")
    require((spectrum.values >= 0).all() and spectrum.rest >= 0 < spectrum.scale < math.inf, "squares are positive.")


@check_of(RidgeReference)
def check_ridge_reference(reference: RidgeReference) -> None:
    r = len(reference.reductions) if reference.reductions.ndim == 1 else -1
    require(reference.directions.ndim == 2 and reference.directions.shape[1] == r, "each direction has a reduction.")
    require(is_finite(reference.directions, reference.reductions, reference.ridge), "bounds are finite.")
    require(reference.ridge >= 0 and (reference.reductions >= 0).all(), "bounds are not negative.")
    require(0 < reference.scale < math.inf and reference.limit >= 0 < reference.rows, "bounds are those of rows.")


@check_of(RidgeMoments)
def check_ridge_moments(moments: RidgeMoments) -> None:
    d, p = moments.width, moments.width + moments.intercept
    require(moments.width >= 1 <= moments.rank and moments.rows >= 0 <= moments.weight, "counts are not negative.")
    known = [matrix for matrix in (moments.gram, moments.factor) if matrix is not None]
    require(len(known) == (moments.rows > 0), "moments are kept as a Gram matrix or as its factor.")
    require(all(has_shape(matrix, p, p) and is_finite(matrix) for matrix in known), "moments are as wide as rows.")
    require(moments.gram is None or is_semidefinite(moments.gram), "no square is negative.")
    reference = moments.reference
    require((reference is None) == (moments.rows == 0), "rows have a reference.")
    if reference is not None:
        require(reference.rows <= moments.rows, "a reference is that of the rows.")
        require(has_shape(reference.directions, d, min(moments.rank, d)), "a reference is as wide as the rows.")
        require(not moments.intercept or reference.weight > 0, "rows that a reference knows weigh something.")
    few = moments.of_few
    require(few is None or (moments.gram is not None and has_shape(few.vectors, d, moments.rank)), "so is a spectrum.")
    centers = (moments.shift, None if reference is None else reference.center)
    for center in centers:
        require(
            (center is not None) == (moments.intercept and moments.rows > 0), "rows next to a constant have a mean."
        )
        require(center is None or (has_shape(center, d) and is_finite(center)), "a mean is as wide as the rows.")


@check_of(TotalWeight)
def check_total_weight(statistics: TotalWeight) -> None:
    require(0 <= statistics.total < math.inf, "a weight is finite and not negative.")


@check_of(LewisScore)
def check_lewis_score(score: LewisScore) -> None:
    require(1 <= score.p <= 2, "p is between 1 and 2.")


@check_of(Summary)
def check_summary(summary: Summary) -> None:
    require(summary.total is None or type(summary.total) is np.ndarray, "a sum over rows is an array.")


@check_of(SeedStatistics)
def check_seed_statistics(statistics: SeedStatistics) -> None:
    seeds, masses = statistics.seeds, statistics.masses
    require(seeds.ndim == 2 and len(seeds) <= statistics.k, "there are at most k seeds.")
    require(has_shape(masses, len(seeds)) and is_finite(seeds, masses), "each seed has a finite mass.")
    require((masses >= 0).all() and statistics.cost >= 0, "costs and masses are not negative.")
    require(1 <= statistics.z < math.inf, "z is a finite number of at least 1.")


@check_of(Leaders)
def check_leaders(leaders: Leaders) -> None:
    n = len(leaders.positions) if leaders.positions.ndim == 1 else -1
    require(leaders.bound_keys.shape == leaders.variables.shape == (n,) and n <= _LARGEST_STATED, "leaders are few.")
    require(is_finite(leaders.bound_keys, leaders.variables), "leaders have finite keys.")
    require((np.diff(leaders.bound_keys) >= 0).all(), "leaders are in ascending order.")
    require((leaders.bound_keys >= 0).all() and (leaders.variables >= 0).all(), "keys are not negative.")


@check_of(Winner)
def check_winner(winner: Winner) -> None:
    require(not math.isnan(winner.key), "a winner has a key.")


@check_of(Race)
def check_race(race: Race) -> None:
    require(race.k >= 1 <= race.z < math.inf and 0 < race.offset < math.inf, "a race has stages.")
    require(0 <= race.seed < 2**64 and race.rows >= 0, "a race has a seed and rows.")
    stages = 0 if race.origin is None else race.k
    require((race.origin is None) == (race.rows == 0), "a race begins with its first rows.")
    require(race.origin is None or (race.origin.ndim == 1 and is_finite(race.origin)), "the origin is a point.")
    require(len(race.leaders) == len(race.winners) == stages, "each stage has its leaders.")
    for leaders in race.leaders:
        require(len(leaders.positions) > 0, "some row leads.")
        require(((leaders.positions >= 0) & (leaders.positions < race.rows)).all(), "leaders are among the rows.")
    for winner in filter(None, race.winners):
        require(-1 <= winner.position < winner.rows <= race.rows, "winners are among the rows.")
        require(len(winner.before) < race.k and all(0 <= seed < race.rows for seed in winner.before), "so are seeds.")


@check_of(ExactGram)
def check_exact_gram(sums: ExactGram) -> None:
    pairs = sums.width * (sums.width + 1) // 2
    require(sums.width >= 1 and sums.limbs.ndim == 2 and sums.limbs.shape[1] == pairs, "sums are those of columns.")
    require(abs(sums.low) <= _FAR_LIMB and len(sums.limbs) <= 2 * _FAR_LIMB, "sums are of numbers that a double holds.")
    require(((sums.limbs[:-1] >= 0) & (sums.limbs[:-1] < 2**32)).all(), "limbs have 32 bits.")
    require((np.abs(sums.limbs[-1:]) <= 2**31).all(), "the highest limb has 32 bits as well.")
