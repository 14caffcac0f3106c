"""The law and the quality of clustering coresets: unbiased weights, expected sizes, two stages, bounded memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import state_bytes as storage
from batch2online import coresets, sampling
from batch2online.coresets import Clustering, Everything, Uniform
from batch2online.methods import scores
from batch2online.methods.clustering import solver
from batch2online.numerics.distances import nearest
from batch2online.sketches.base import Coreset

FALSE_ALARM = 1e-6


def mixture(n, seed=0, k=4):
    """Clusters of very different sizes and widths."""
    rng = np.random.default_rng(seed)
    which = rng.choice(k, size=n, p=0.5 ** np.arange(1, k + 1) / (1 - 0.5**k))
    return rng.normal(size=(n, 2)) * (1.0 + which[:, None]) + 12.0 * which[:, None]


def is_plausible(total, expected, variance, largest):
    """Bernstein's inequality for a sum of independent terms within ``largest`` of their means."""
    log = math.log(2 / FALSE_ALARM)
    return abs(total - expected) <= math.sqrt(2 * variance * log) + largest * log / 3


# -- few rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, 2.0, 0.5])
def test_few_rows_are_kept_as_any_seeds_would_keep_them(weights):
    """No seeds are drawn for them; up to 20 rows are few here."""
    for n in range(1, 60):
        built = Clustering(3, coreset_size=80, random_state=n)
        built.add(mixture(n, seed=n), weights=None if weights is None else np.full(n, weights))
        rows, expected = built.sketch._with_seeds(built.history).sampler.sample()
        found = built.coreset()
        assert built.sketch._keeps_every_row == (n <= 19 and weights is None)
        assert np.array_equal(found.ids, rows.ids)
        assert np.array_equal(found.weights, expected)
        assert np.array_equal(found.points, mixture(n, seed=n)[found.ids])


# -- scores --------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.booleans())
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_scores_sum_to_one_and_bound_the_share_of_a_row_in_any_cost(seed, k, z, weighted):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(50, 2))
    weights = rng.uniform(0.1, 5, size=50) if weighted else np.ones(50)
    seeds = points[scores.clustering_seeds(points, k, z, seed, weights)]
    score = scores.clustering(points, seeds, k, z, weights)
    assert score.sum() == pytest.approx(1.0)
    # |x - c|^z <= 2^(z-1) (|x - s|^z + |s - c|^z), and the same once more for the rows of the seed's cluster
    ratio = solver.cost(points, weights, seeds, z) / solver.cost(
        points, weights, solver.solve(points, weights, k, z, 0), z
    )
    centers = rng.normal(size=(k, 2))
    share = weights * solver.losses(points, centers, z) / solver.cost(points, weights, centers, z)
    assert (share <= 4**z * max(1.0, ratio) * (1 + k) * score).all()


@pytest.mark.parametrize("bias", [1.0, 1.05])
@pytest.mark.slow
def test_total_weights_are_unbiased_and_sizes_as_expected(bias):
    """A planted bias of 5 % in the weights is found."""
    X, size, seeds = mixture(2_000), 800, 60
    total = counted = expected_size = weight_variance = size_variance = largest = 0.0
    for seed in range(seeds):
        built = Clustering(4, coreset_size=size, random_state=seed).add(X)
        score = scores.clustering(X, built.seeds, 4, 2.0)
        q = sampling.probabilities(score, size)
        sample = built.coreset()
        total += bias * sample.weights.sum()
        counted += len(sample)
        expected_size += q.sum()
        size_variance += (q * (1 - q)).sum()
        weight_variance += ((1 + built.epsilon) / q - 1).sum()
        largest = max(largest, (1 + built.epsilon) / q.min())
    assert expected_size <= seeds * size
    assert is_plausible(counted, expected_size, size_variance, 1.0)
    assert is_plausible(total, seeds * len(X), weight_variance, largest) == (bias == 1.0)


# -- two stages ----------------------------------------------------------------------------------------


def two_stages(X, seed, size=150, k=4):
    """The coreset of two stages, and the same with the weights of the paper as printed, which lack the factor u."""
    built = Clustering(k, stages=2, coreset_size=size, random_state=seed).add(X)
    first = Clustering(k, coreset_size=4 * size, random_state=seed).add(X).coreset()
    second, seeds = built.coreset(), built.seeds
    u = dict(zip(first.ids.tolist(), first.weights, strict=True))
    is_seed = (second.points[:, None] == seeds).all(axis=2).any(axis=1)
    printed = np.where(is_seed, 0.0, second.weights / [u.get(i, 1.0) for i in second.ids.tolist()])
    labels, first_labels = nearest(second.points, seeds)[0], nearest(first.points, seeds)[0]
    missing = np.bincount(first_labels, first.weights, k) - np.bincount(labels, printed, k)
    printed[is_seed] = missing[labels[is_seed]]
    return second, Coreset(second.points, None, np.maximum(printed, 0.0), second.ids), printed[is_seed]


def test_the_second_stage_must_carry_the_weights_of_the_first():
    """Cost errors without the factor u, which the paper's Algorithm 7 omits, are several times those with it."""
    X = mixture(30_000)
    centers = [solver.solve(X[seed::60], np.ones(500), 4, 2.0, seed) for seed in range(4)]
    corrected, printed = [], []
    for seed in range(12):
        ours, theirs, _ = two_stages(X, seed)
        for own in centers:
            full = solver.cost(X, np.ones(len(X)), own, 2.0)
            corrected.append(abs(solver.cost(ours.points, ours.weights, own, 2.0) / full - 1))
            printed.append(abs(solver.cost(theirs.points, theirs.weights, own, 2.0) / full - 1))
    assert np.median(corrected) < 0.12
    assert np.median(printed) > 0.3
    assert np.median(printed) > 4 * np.median(corrected)


def test_seeds_stand_for_the_weight_that_is_missing_and_never_for_less_than_nothing():
    X, clipped = mixture(20_000), 0
    for seed in range(12):
        built = Clustering(4, stages=2, coreset_size=60, random_state=seed).add(X)
        first = Clustering(4, coreset_size=240, random_state=seed).add(X).coreset()
        second, seeds = built.coreset(), built.seeds
        assert (second.weights >= 0).all()
        assert (np.diff(second.ids) > 0).all()
        is_seed = (second.points[:, None] == seeds).all(axis=2).any(axis=1)
        labels, first_labels = nearest(second.points, seeds)[0], nearest(first.points, seeds)[0]
        mass = np.bincount(first_labels, first.weights, 4)
        sampled = np.bincount(labels[~is_seed], second.weights[~is_seed], 4)
        assert is_seed.sum() == 4
        np.testing.assert_allclose(second.weights[is_seed], np.maximum(mass - sampled, 0)[labels[is_seed]], atol=1e-6)
        clipped += (second.weights[is_seed] == 0).sum()
    assert clipped > 0


# -- bounded memory ------------------------------------------------------------------------------------


def test_memory_without_a_history_does_not_grow_with_the_rows():
    X = mixture(200_000)
    built, sizes = Clustering(4, history="coreset", coreset_size=300, random_state=0), []
    for start in range(0, len(X), 10_000):
        built.add(X[start : start + 10_000])
        sizes.append(len(storage.serialise(built)))
        assert sum(map(len, built.sketch.sampler.parts)) <= 5 * 300
    assert max(sizes[10:]) < 1.5 * max(sizes[:10])
    assert np.mean(sizes[10:]) < 1.2 * np.mean(sizes[:10])


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.slow
def test_weights_without_a_history_are_unbiased(shards):
    """Over 60 seeds the mean total weight is within five standard errors of the number of rows (false alarms 1e-6)."""
    n, totals = 4_000, []
    for seed in range(60):
        parts = [
            Clustering(4, history="coreset", coreset_size=200, random_state=seed, first_id=first_id).add(rows)
            for first_id, rows in ((8_000, mixture(n, seed)), (28_000, mixture(n, seed) + 50.0))[:shards]
        ]
        for other in parts[1:]:
            parts[0].merge(other)
        totals.append(parts[0].coreset().weights.sum() / (n * shards))
    error = np.std(totals) / math.sqrt(len(totals))
    assert error < 0.02
    assert abs(np.mean(totals) - 1) < 5 * error


@pytest.mark.parametrize("sizes", [(20_000, 50), (50, 20_000), (50, 50)])
def test_large_and_small_shards_without_a_history_merge(sizes):
    X = mixture(sum(sizes))
    one, other = (
        Clustering(3, history="coreset", coreset_size=200, random_state=0, first_id=a).add(X[a:b])
        for a, b in ((0, sizes[0]), (sizes[0], sum(sizes)))
    )
    merged = one.merge(other).coreset()
    assert merged.weights.sum() == pytest.approx(len(X), rel=0.5)
    assert (np.diff(merged.ids) > 0).all()


def test_a_coreset_without_a_history_is_nearly_as_good():
    X = mixture(60_000)
    with_history, without = (
        np.median(
            [
                coresets.error(
                    Clustering(4, history=history, coreset_size=1_000, random_state=seed).add(X).coreset(),
                    X[::10],
                    k=4,
                    weights=np.full(6_000, 10.0),
                    solutions=4,
                )
                for seed in range(5)
            ]
        )
        for history in ("memory", "coreset")
    )
    assert without < 2 * with_history + 0.05


# -- the measured error --------------------------------------------------------------------------------


def test_all_rows_have_no_error():
    X = mixture(3_000)
    found = coresets.errors(Everything(random_state=0).add(X).coreset(), X, k=3, solutions=8)
    assert {kind: len(values) for kind, values in found.items()} == {"solved": 1, "seeded": 8, "random": 8, "moved": 2}
    assert max(np.abs(values).max() for values in found.values()) < 1e-9


def test_a_coreset_that_misses_a_small_far_cluster_is_found():
    X = mixture(20_000)
    X[:20] += 1e4
    good = Clustering(4, coreset_size=2_000, random_state=0).add(X).coreset()
    bad = Uniform(coreset_size=2_000, random_state=0).add(X[20:]).coreset()
    assert coresets.error(good, X, k=4, solutions=4) < 0.2
    assert coresets.error(bad, X, k=4, solutions=4) > 0.9
