"""Online Lewis weights: scores that fall, bound sensitivities, and react to few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from batch2online import coresets, evaluate, theory
from batch2online.checks import small_blocks
from batch2online.methods import scores
from batch2online.methods.least_squares.moments import Moments
from batch2online.methods.linear_losses.lewis_sketch import LewisStatistics
from batch2online.rows import Rows

RNG = np.random.default_rng
POWERS = (1.0, 1.5, 2.0, 3.0, 4.0)
ROUNDING = 1e-6


def rows_of(n, d=3, seed=0):
    rng = RNG(seed)
    return rng.standard_t(2.5, size=(n, d)) * [1.0, 5.0, 0.2][:d]


def as_rows(points, ids=None, weights=None):
    n = len(points)
    ids = np.arange(n) if ids is None else ids
    return Rows(points, np.empty((n, 0)), np.ones(n) if weights is None else weights, ids)


def added(points, p, blocks, hole=None):
    """Statistics after each block, and the weights at arrival, NaN in the hole."""
    statistics, every, own = LewisStatistics(Moments.empty(points.shape[1], 0, False), p), [], []
    for start, stop in blocks:
        ids = np.array([i for i in range(start, stop) if i != hole])
        statistics, weights = statistics.add(as_rows(points[ids], ids))
        every.append(statistics)
        own.append(np.insert(weights, hole - start, np.nan) if hole is not None and start <= hole < stop else weights)
    return every, np.concatenate(own)


BLOCKS = [(0, 40), (40, 70), (70, 120)]


@pytest.mark.parametrize("p", POWERS)
def test_scores_never_rise_and_are_at_most_the_weights_at_arrival(p):
    points = rows_of(120)
    statistics, own = added(points, p, BLOCKS)
    before = np.full(120, np.inf)
    for each, (_, stop) in zip(statistics, BLOCKS, strict=True):
        now = each.scores(as_rows(points[:stop]))
        assert (now <= before[:stop] * (1 + ROUNDING)).all()
        assert (now <= own[:stop] * (1 + ROUNDING)).all()
        before[:stop] = now
    assert own.max() <= 1 + 1e-3


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
def test_weights_of_the_first_block_are_lewis_weights(p):
    points = rows_of(200)
    _, own = added(points, p, [(0, 200)])
    np.testing.assert_allclose(own, scores.lewis(points, p), rtol=1e-3)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_scores_bound_the_share_of_a_row_in_the_loss(p):
    """sup |a x|^p / |A x|_p^p over models from many directions, those of high shares among them."""
    points = rows_of(120)
    bound = added(points, p, BLOCKS)[0][-1].scores(as_rows(points))
    rng, largest = RNG(1), np.zeros(120)
    starts = np.concatenate([rng.normal(size=(300, 3)), np.linalg.pinv(points).T])
    for x in starts:
        losses = np.abs(points @ x) ** p
        largest = np.maximum(largest, losses / losses.sum())
    assert (largest <= bound * (1 + ROUNDING)).all()
    assert largest.max() > 0.3 * bound.max()


@pytest.mark.parametrize("p", [3.0, 4.0])
def test_beyond_two_they_do_up_to_the_sum_of_weights(p):
    points = rows_of(120)
    statistics, own = added(points, p, BLOCKS)
    bound = own.sum() ** (p / 2 - 1) * statistics[-1].scores(as_rows(points))
    for x in np.concatenate([RNG(1).normal(size=(300, 3)), np.linalg.pinv(points).T]):
        losses = np.abs(points @ x) ** p
        assert (losses / losses.sum() <= bound * (1 + ROUNDING)).all()


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_lemma_13_a_hole_raises_scores_by_its_weight_at_most(p):
    points = rows_of(60)
    blocks = [(0, 20), (20, 40), (40, 60)]
    statistics, own = added(points, p, blocks)
    before = statistics[-1].scores(as_rows(points))
    assert own.sum() > before.sum()
    for hole in range(60):
        after = added(points, p, blocks, hole)[0][-1].scores(as_rows(points))
        ratios = np.delete(after / before, hole)
        assert (ratios >= 1 - 1e-3).all()
        assert (ratios * (1 - own[hole]) <= 1 + 1e-3).all()


@pytest.mark.slow
def test_the_measured_sensitivity_is_below_the_bound_and_falls_like_one_over_n():
    settings = {"coreset_size": 20, "epsilon": 0.5}
    with small_blocks(50):
        found = {}
        for n in (400, 1_600):
            X = RNG(2).normal(size=(n, 2))
            found[n] = evaluate.average_sensitivity(coresets.LewisWeights(1.0, **settings), X, trials=150)
            builder = coresets.LewisWeights(1.0, random_state=0, keep_history=True, **settings).add(X)
            own = added(X, 1.0, [(start, start + 50) for start in range(0, n, 50)])[1]
            total = builder.scores_of_all().sum()
            bound = theory.online_lewis_sensitivity(n, builder.sketch.constant, total, own.sum(), 0.5)
            assert found[n].low <= bound
            assert theory.online_lewis_sensitivity(10**9, 2.0, 3.0, 5.0, 0.5) == pytest.approx(256e-9)
    assert found[1_600].high < found[400].mean
    assert found[400].mean < 0.5


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_in_random_order_scores_sum_to_two_over_p_times_the_columns(p):
    with small_blocks(100):
        builder = coresets.LewisWeights(p, coreset_size=300, random_state=0, keep_history=True)
        builder.add(RNG(0).normal(size=(10_000, 3)))
    assert builder.scores_of_all().sum() == pytest.approx(3 * 2 / p, rel=0.05)
    assert len(builder.coreset()) <= 300 + 6 * 300**0.5


def test_for_p_of_two_it_is_leverage():
    X = rows_of(5_000)
    settings = {"coreset_size": 200, "random_state": 3}
    with small_blocks(500):
        assert coresets.LewisWeights(2.0, **settings).add(X).coreset() == coresets.Leverage(**settings).add(X).coreset()


@pytest.mark.parametrize("p", [1.0, 3.0])
def test_results_depend_on_blocks_of_ids_and_not_on_chunks_or_refits(p):
    X = rows_of(3_000)
    with small_blocks(400):
        make = lambda: coresets.LewisWeights(p, coreset_size=150, random_state=1)  # noqa: E731
        whole, pieces = make().add(X), make()
        for start in range(0, len(X), 130):
            pieces.add(X[start : start + 130])
            pieces.coreset()
        sketch = make().new_sketch(3, 0)
        for start, stop in ((0, 150), (150, 400), (400, 401), (401, 800), (800, 1_000)):  # as a stream cuts at refits
            sketch = sketch.update(as_rows(X[start:stop], np.arange(start, stop)))
        assert whole.coreset() == pieces.coreset()
        assert sketch.coreset() == make().add(X[:1_000]).coreset()


def test_weights_of_rows_are_counts_and_scale_nothing():
    X = rows_of(600)
    counts = RNG(0).integers(1, 4, size=600).astype(float)
    one, many = (added_weighted(X, counts * factor) for factor in (1.0, 16.0))
    np.testing.assert_allclose(one, many, rtol=1e-6)
    repeated = np.repeat(X, counts.astype(int), axis=0)
    each = added(repeated, 1.0, [(0, len(repeated))])[1]
    np.testing.assert_allclose(np.bincount(np.repeat(np.arange(600), counts.astype(int)), each), one, rtol=1e-2)


def added_weighted(points, weights):
    empty = LewisStatistics(Moments.empty(points.shape[1], 0, False), 1.0)
    return empty.add(as_rows(points, weights=weights))[1]


def test_decay_scales_the_open_block_too():
    X = rows_of(900)
    with small_blocks(400):
        sketch = coresets.LewisWeights(1.0, coreset_size=100, random_state=1).new_sketch(3, 0)
        sketch = sketch.update(as_rows(X[:400])).update(as_rows(X[400:600], np.arange(400, 600)))
        scaled = sketch.scale(0.25)
        assert (scaled.open.weights == 0.25).all()
        assert np.array_equal(scaled.coreset().ids, sketch.coreset().ids)
        np.testing.assert_allclose(scaled.coreset().weights, sketch.coreset().weights / 4)


def test_merged_shards_keep_scores_below_weights():
    X = rows_of(2_000)
    with small_blocks(500):
        shards = [
            coresets.LewisWeights(1.0, coreset_size=200, random_state=0, first_id=a).add(X[a : a + 1_000])
            for a in (0, 1_000)
        ]
        alone = [shard.sketch._sealed().statistics for shard in shards]
        merged = shards[0].merge(shards[1]).sketch
    both = merged.scores(as_rows(X))
    for part, statistics in enumerate(alone):
        rows = as_rows(X[1_000 * part : 1_000 * (part + 1)])
        assert (both[1_000 * part : 1_000 * (part + 1)] <= statistics.scores(rows) * (1 + ROUNDING)).all()
    assert abs(merged.coreset().weights.sum() / 2_000 - 1) < 0.3


@pytest.mark.parametrize("p", [0.5, 4.1, "1", True, np.nan])
def test_other_powers_are_refused(p):
    with pytest.raises(ValueError, match="p must be between 1 and 4"):
        coresets.LewisWeights(p)


def test_a_forged_sketch_is_refused():
    sketch = coresets.LewisWeights(1.0, random_state=0).add(rows_of(50)).sketch
    other = replace(sketch.statistics, p=2.0)
    broken = sketch._copy()
    broken.statistics = other
    with pytest.raises(ValueError, match="moments"):
        broken.validate()
