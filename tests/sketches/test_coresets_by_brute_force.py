"""What coresets promise, by brute force on small inputs: scores for every power and weight, merging, forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import OnlineClustering, OnlineRegression, coresets, sampling
from batch2online.methods import scores
from batch2online.methods.clustering.sketch import (
    AssignedStatistics,
    MovingSeeds,
    SeedStatistics,
    _limited,
    largest_value,
)
from batch2online.numerics.distances import power
from batch2online.refresh import Geometric
from batch2online.rows import Rows
from batch2online.sketches.base import SketchSettings
from batch2online.sketches.candidates import Candidates

RNG = np.random.default_rng
every_power = pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])


def rows_of(points, weights=None, first=0):
    n = len(points)
    return Rows(points, np.empty((n, 0)), np.ones(n) if weights is None else weights, np.arange(first, first + n))


def plain_scores(points, weights, seeds, k, z):
    """``w (|x - c|^z / cost + 1 / W_c) / (1 + k)``, written out."""
    apart = np.linalg.norm(points[:, None] - seeds, axis=2)
    labels, losses = apart.argmin(axis=1), apart.min(axis=1) ** z
    cost = sum(w * loss for w, loss in zip(weights, losses, strict=True))
    masses = [sum(w for w, label in zip(weights, labels, strict=True) if label == j) for j in range(len(seeds))]
    shares = losses / cost if cost else np.zeros(len(points))
    return np.array([w * (s + 1 / masses[j]) / (1 + k) for w, s, j in zip(weights, shares, labels, strict=True)])


# -- scores under seeds ----------------------------------------------------------------------------------


def seeded_case(seed, weighted):
    rng = RNG(seed)
    points = rng.standard_t(2, size=(60, 2))
    points[50:] += 40.0
    points[59] = 500.0  # a cluster of its own
    seeds = points[[0, 1, 55, 59]]
    return points, rng.uniform(0.1, 3, size=60) if weighted else np.ones(60), seeds


@every_power
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_under_seeds_are_the_formula(z, weighted):
    points, weights, seeds = seeded_case(0, weighted)
    expected = plain_scores(points, weights, seeds, 5, z)
    np.testing.assert_allclose(scores.clustering(points, seeds, 5, z, weights), expected, rtol=1e-9)
    statistics = SeedStatistics.empty(seeds, 5, z)
    for part in (slice(0, 20), slice(20, 60)):
        statistics, _ = statistics.add(rows_of(points[part], weights[part]))
    np.testing.assert_allclose(statistics.scores(rows_of(points, weights)), expected, rtol=1e-9)
    one, other = (
        SeedStatistics.empty(seeds, 5, z).add(rows_of(points[p], weights[p]))[0]
        for p in (
            slice(0, 20),
            slice(20, 60),
        )
    )
    np.testing.assert_allclose(one.merged(other).scores(rows_of(points, weights)), expected, rtol=1e-9)


@every_power
@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_of_scores_hold_whichever_seeds_are_nearest(z, weighted):
    for seed in range(3):
        points, weights, seeds = seeded_case(seed, weighted)
        rows = rows_of(points, weights)
        statistics, _, losses = AssignedStatistics.empty(seeds, 5, z).with_block(rows)
        exact = plain_scores(points, weights, seeds, 5, z)
        np.testing.assert_allclose(statistics.masses.sum(), weights.sum())
        assert (statistics.bounds_of(losses, weights) >= exact * (1 - 1e-12)).all()


def test_where_all_rows_are_seeds_scores_are_those_of_the_masses():
    points = np.repeat([[0.0], [5.0]], [3, 1], axis=0)
    seeds = np.array([[0.0], [5.0]])
    statistics, bounds = SeedStatistics.empty(seeds, 2, 2.0).add(rows_of(points))
    np.testing.assert_allclose(statistics.scores(rows_of(points)), [1 / 9, 1 / 9, 1 / 9, 1 / 3])
    np.testing.assert_allclose(bounds, [1 / 9, 1 / 9, 1 / 9, 1 / 3])


@every_power
def test_a_clustering_coreset_is_the_plain_function_of_all_rows(z):
    """Seeds by the plain race, scores by the formula, inclusion by the words: for weighted rows and several blocks."""
    rng = RNG(1)
    points, weights = rng.standard_t(2, size=(25_000, 2)), rng.uniform(0.2, 3, size=25_000)
    construction = coresets.Clustering(3, z, coreset_size=60, random_state=4)
    for start in range(0, 25_000, 7_000):
        construction.add(points[start : start + 7_000], weights=weights[start : start + 7_000])
    seeds = points[scores.clustering_seeds(points, 3, z, 4, weights)]
    exact = scores.clustering(points, seeds, 3, z, weights)
    words = sampling.words(4, sampling.SAMPLING, range(25_000))
    ids = np.flatnonzero(sampling.inclusion_uniforms(words) <= 60 * exact)
    q = np.minimum(1.0, 60 * exact[ids])
    power = sampling.exponents(q, sampling.rounding_uniforms(words[ids]), construction.epsilon)
    coreset = construction.coreset()
    assert coreset.ids.tolist() == ids.tolist()
    np.testing.assert_allclose(coreset.weights, weights[ids] * (1 + construction.epsilon) ** power)
    assert construction.sketch.prepared(construction.history).sampler.totals.n_rows == 25_000


@every_power
def test_the_second_stage_is_the_plain_function_of_the_first(z):
    """Of the first sample, four times as large, rows by their share of its cost; weights carry those of the first."""
    points = RNG(2).standard_t(2, size=(3_000, 2))
    first = coresets.Clustering(2, z, coreset_size=160, random_state=3).add(points)
    one, seeds = first.coreset(), first.seeds
    two = coresets.Clustering(2, z, stages=2, coreset_size=40, random_state=3).add(points).coreset()
    losses = one.weights * np.linalg.norm(one.points[:, None] - seeds, axis=2).min(axis=1) ** z
    q = np.minimum(1.0, 40 * losses / losses.sum())
    words = sampling.words_of(3, sampling.SECOND_STAGE, one.ids)
    keep = sampling.inclusion_uniforms(words) <= q
    power = sampling.exponents(q[keep], sampling.rounding_uniforms(words[keep]), 0.1)
    expected = dict(zip(one.ids[keep].tolist(), (one.weights[keep] * 1.1**power).tolist(), strict=True))
    found = dict(zip(two.ids.tolist(), two.weights.tolist(), strict=True))
    others = set(found) - set(expected)
    assert {tuple(points[i]) for i in others} == {tuple(seed) for seed in seeds}
    assert {i: found[i] for i in expected} == pytest.approx(expected)
    assert (two.weights >= 0).all()


@pytest.mark.parametrize("z", [1.0, 2.0, 2.01, 3.0, 4.0, 6.0, 30.0])
def test_the_largest_value_has_a_distance_that_is_a_number(z):
    largest = largest_value(z)
    rows, columns = (1e6, 64) if z > 2 else (1e4, 1)
    with np.errstate(over="raise"):
        assert np.isfinite(power(columns * (2 * np.array([largest])) ** 2, z).sum() * rows)
    assert largest >= (1e45 if z <= 6 else 1e8)


@pytest.mark.parametrize("z", [3.0, 4.0])
def test_a_million_of_the_largest_values_have_a_loss(z):
    far = np.array([[-1.0], [1.0]]) * largest_value(z)
    construction = coresets.Clustering(1, z, coreset_size=2, random_state=0)
    weights = np.array([5e5, 5e5])
    assert np.isfinite(construction.add(far, weights=weights).coreset().weights).all()
    model = OnlineClustering(1, z=z, random_state=0).fit(far, sample_weight=weights)
    assert np.isfinite(model.regret_.loss)
    assert np.isfinite(model.regret_.optimum)


# -- bounded memory ----------------------------------------------------------------------------------------


def bounded(rows, weights=None, size=40, step=500):
    construction = coresets.Clustering(3, history="coreset", coreset_size=size, random_state=2)
    for start in range(0, len(rows), step):
        own = None if weights is None else weights[start : start + step]
        construction.add(rows[start : start + step], weights=own)
        yield construction


def test_in_bounded_memory_no_inclusion_probability_rises_and_no_row_returns():
    """Seeds move, and scores with them: the least probability a row ever had counts."""
    rng, known, gone = RNG(3), {}, set()
    drifting = rng.normal(size=(60_000, 2)) * np.linspace(1, 30, 60_000)[:, None]
    last = set()
    for construction in bounded(drifting, step=5_000):
        candidates = construction._stream.state.sketch.sampler.candidates()
        limits = dict(zip(candidates.rows.ids.tolist(), candidates.limits.tolist(), strict=True))
        assert all(limit <= known.get(i, 1.0) for i, limit in limits.items())
        known |= limits
        now = {*construction.coreset().ids.tolist()}
        gone |= last - now
        assert not gone & now
        last = now
    assert any(limit < 1 for limit in known.values())


def moving_seeds(k=3, size=10):
    return MovingSeeds(SketchSettings(0.1, size, 2, (2, 0)), Rows.empty(2, 0), k, 2.0)


def candidates_of(points, weights=None, limits=None):
    n = len(points)
    words = sampling.words(2, sampling.SAMPLING, range(n))
    return Candidates(rows_of(points, weights), words, np.ones(n) if limits is None else limits)


def test_in_bounded_memory_seeds_are_drawn_by_what_rows_stand_for():
    """All but three of the rows stand for next to nothing, by weight or by limit: the seeds are these three."""
    points = RNG(4).normal(size=(400, 2))
    heavy = [17, 190, 333]
    points[heavy] = [[30.0, 0.0], [0.0, 30.0], [-30.0, 0.0]]
    weights, limits = np.full(400, 1e-12), np.ones(400)
    weights[heavy] = 1.0
    for own, limit in ((weights, None), (1e-9 + 0 * weights, np.where(weights == 1, 1e-9, limits))):
        sampler = moving_seeds()
        sampler.reseed(candidates_of(points, own, limit))
        assert {tuple(seed) for seed in sampler.seeds.points} == {tuple(points[i]) for i in heavy}


def test_in_bounded_memory_a_score_that_rises_does_not_raise_a_probability():
    points, limits = RNG(5).normal(size=(40, 2)), RNG(6).uniform(0.01, 1, size=40)
    candidates = candidates_of(points, limits=limits)
    statistics, _ = SeedStatistics.empty(points[:2], 2, 2.0).add(candidates.rows)
    exact = statistics.scores(candidates.rows)
    for constant in (1.0, 10.0, 1e3):
        found = _limited(statistics, candidates, constant)
        expected = np.minimum(limits, constant * exact)
        uniforms = sampling.inclusion_uniforms(candidates.words)
        assert found.rows.ids.tolist() == np.flatnonzero(uniforms <= expected).tolist()
        np.testing.assert_allclose(found.limits, expected[found.rows.ids])
        sampler = moving_seeds()
        sampler.parts, sampler.statistics, sampler.constant = (candidates,), statistics, constant
        rows, weights = sampler.sample()
        assert rows.ids.tolist() == found.rows.ids.tolist()
        assert (np.abs(np.log(weights * found.limits)) <= np.log(1.1) * (1 + 1e-9)).all()


def test_in_bounded_memory_masses_and_cost_are_estimates_for_all_rows():
    """Each kept row stands for 1 / limit rows: the totals are those of 20,000 rows, not of the few that are kept.

    The weight of all rows is estimated from about 400 of them; the bound is ten standard deviations.
    """
    points = RNG(5).normal(size=(20_000, 2))
    *_, construction = bounded(points, size=400, step=10_000)
    sampler = construction.sketch.sampler.thinned()
    total = float(sampler.statistics.masses.sum())
    assert 10_000 < total < 30_000
    spread = float(np.linalg.norm(points[:, None] - sampler.seeds.points, axis=2).min(axis=1) @ np.ones(20_000))
    assert sampler.statistics.cost > spread / 4


# -- coresets by leverage -------------------------------------------------------------------------------


def plain_leverage(columns):
    return np.einsum("ij,jk,ik->i", columns, np.linalg.inv(columns.T @ columns), columns)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("score_targets", [False, True])
def test_leverage_is_of_inputs_alone_or_with_targets(intercept, score_targets):
    rng = RNG(6)
    points, weights = rng.normal(size=(200, 3)), rng.uniform(0.2, 3, size=200)
    targets = rng.standard_t(1, size=200)
    construction = coresets.Leverage(
        intercept=intercept, score_targets=score_targets, coreset_size=60, random_state=1
    ).add(points, targets, weights)
    columns = [np.ones(200)] * intercept + [*points.T] + [targets] * score_targets
    expected = plain_leverage(np.stack(columns, axis=1) * np.sqrt(weights)[:, None])
    now = construction.sketch
    rows = Rows(points, targets[:, None], weights, np.arange(200))
    np.testing.assert_allclose(now.statistics.scores(rows), expected, rtol=1e-8)
    np.testing.assert_allclose(now.constant * len(columns), 60)


@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_leverage_is_the_formula_and_its_sum_is_bounded(intercept):
    rng = RNG(7)
    points, weights = rng.normal(size=(80, 6)) * [9, 5, 3, 1, 1, 1] + 1.0, rng.uniform(0.2, 3, size=80)
    columns = np.column_stack([np.ones(80), points] if intercept else [points]) * np.sqrt(weights)[:, None]
    around = points - np.average(points, axis=0, weights=weights) * intercept
    squares = np.linalg.svd(around * np.sqrt(weights)[:, None], compute_uv=False) ** 2
    penalty = np.array([0.0] * intercept + [squares[2:].sum() / 2] * 6)  # the constant column has none
    inner = np.linalg.inv(columns.T @ columns + np.diag(penalty))
    expected = np.einsum("ij,jk,ik->i", columns, inner, columns)
    construction = coresets.RidgeLeverage(2, intercept=intercept, coreset_size=30, random_state=1)
    construction.add(points, weights=weights)
    found = construction.sketch.statistics.scores(rows_of(points, weights))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(scores.ridge_leverage(columns, 2, intercept=intercept), expected, rtol=1e-8)
    assert found.sum() <= 4 + intercept
    np.testing.assert_allclose(construction.sketch.constant * (4 + intercept), 30)


def test_uniform_sampling_keeps_rows_by_their_share_of_the_weight():
    weights = np.array([1.0, 2.0, 5.0, 2.0])
    construction = coresets.Uniform(coreset_size=2, random_state=0).add(np.zeros((4, 1)), weights=weights)
    other = coresets.Uniform(coreset_size=2, random_state=0, first_id=4).add(np.zeros((4, 1)), weights=10 * weights)
    found = construction.sketch.statistics.scores(rows_of(np.zeros((4, 1)), weights))
    np.testing.assert_allclose(found, [0.1, 0.2, 0.5, 0.2])
    merged = construction.merge(other).sketch.statistics.scores(rows_of(np.zeros((4, 1)), weights))
    np.testing.assert_allclose(merged, weights / 110)


# -- merging and forgetting ------------------------------------------------------------------------------


def share(points, weights, summary):
    return weights * points[:, 0] / summary


def total(points, weights):
    return float(weights @ points[:, 0])


KINDS = {
    "Leverage": lambda **s: coresets.Leverage(**s),
    "RidgeLeverage": lambda **s: coresets.RidgeLeverage(1, **s),
    "Uniform": lambda **s: coresets.Uniform(**s),
    "Sensitivity": lambda **s: coresets.Sensitivity(share, summary=total, total_score=1, **s),
    "Clustering": lambda **s: coresets.Clustering(2, **{n: v for n, v in s.items() if n != "keep_history"}),
}


def shards(kind, **settings):
    rng = RNG(13)
    points, weights = rng.uniform(1, 9, size=(3_000, 2)), rng.uniform(0.5, 2, size=3_000)
    parts = [slice(0, 900), slice(900, 2_200), slice(2_200, 3_000)]
    make = KINDS[kind]
    settings = {"coreset_size": 50, "random_state": 0, "keep_history": True} | settings
    own = [make(first_id=p.start, **settings).add(points[p], weights=weights[p]) for p in parts]
    return own, make(**settings).add(points, weights=weights), points, weights


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [(2, 0, 1), (0, 1, 2)])
def test_merged_shards_know_all_that_one_stream_knows(kind, order):
    own, whole, points, weights = shards(kind)
    merged = own[order[0]].merge(own[order[1]]).merge(own[order[2]])
    assert merged.coreset() == whole.coreset()
    assert (np.diff(merged.coreset().ids) > 0).all()
    assert np.array_equal(merged.coreset().points, points[merged.coreset().ids])
    assert (merged.n_rows, merged.next_id) == (3_000, 3_000)
    assert merged.sketch.totals.weight == pytest.approx(weights.sum())
    assert merged.history.ids().tolist() == list(range(3_000))
    with pytest.raises(ValueError, match="disjoint"):
        merged.merge(own[1])
    merged.add(points[:10])
    assert merged.history.ids()[-1] == 3_009


@pytest.mark.parametrize("kind", KINDS)
def test_forgotten_rows_leave_counts_weight_and_coreset(kind):
    _, whole, points, weights = shards(kind)
    before = whole.coreset().ids
    unwanted = before[::3]
    whole.forget(unwanted)
    keep = np.setdiff1d(np.arange(3_000), unwanted)
    assert whole.n_rows == len(keep)
    assert whole.sketch.totals.weight == pytest.approx(weights[keep].sum())
    assert whole.history.ids().tolist() == keep.tolist()
    assert not set(whole.coreset().ids.tolist()) & set(unwanted.tolist())
    assert np.array_equal(whole.coreset().points, points[whole.coreset().ids])


@pytest.mark.parametrize("kind", KINDS)
def test_a_coreset_does_not_follow_the_arrays_of_its_caller(kind):
    points = RNG(14).uniform(1, 9, size=(10_000, 2))
    given = points.copy()
    construction = KINDS[kind](coreset_size=10**6, random_state=0).add(given)
    given[...] = np.nan
    assert np.array_equal(construction.coreset().points, points)


def test_a_coreset_does_not_follow_rows_that_a_check_has_cut_short():
    """Segments that end at a check, long before the block does, are views of the caller's array."""
    points = RNG(15).uniform(1, 9, size=(2_000, 2))
    given = points.copy()
    model = OnlineRegression(random_state=0, coreset_size=10**6, refresh=Geometric(1.2)).fit(given, points[:, 0])
    online = OnlineRegression(random_state=0, coreset_size=10**6, refresh=Geometric(1.2)).partial_fit(
        given, points[:, 0]
    )
    given[...] = np.nan
    assert np.array_equal(model.coreset_.points, points)
    assert np.array_equal(online.coreset_.points, points)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_are_as_if_absent(kind):
    """They take no id, are not counted and not kept."""
    rng = RNG(18)
    points, weights = rng.uniform(1, 9, size=(500, 2)), rng.uniform(0.5, 2, size=500) * (rng.random(500) < 0.7)
    settings = {"coreset_size": 50, "random_state": 0, "keep_history": True}
    one = KINDS[kind](**settings).add(points, weights=weights)
    other = KINDS[kind](**settings).add(points[weights > 0], weights=weights[weights > 0])
    assert one.coreset() == other.coreset()
    assert len(one.history) == len(other.history) == one.sketch.totals.n_rows == (weights > 0).sum()
    assert np.array_equal(one.history.everything().points, other.history.everything().points)


@pytest.mark.parametrize("kind", ["Leverage", "RidgeLeverage", "Uniform"])
def test_rows_of_large_scores_are_kept_whatever_their_words_and_no_bound_drops_a_row(kind):
    """Among 30,000 rows of five blocks some are a hundred times as important: the coreset is that of exact scores."""
    rng = RNG(15)
    points = rng.normal(size=(30_000, 2))
    points[rng.integers(30_000, size=60)] *= 40
    weights = np.where(rng.random(30_000) < 0.002, 50.0, 1.0)
    construction = KINDS[kind](coreset_size=300, random_state=1).add(points, weights=weights)
    exact = construction.sketch.statistics.scores(rows_of(points, weights))
    words = sampling.words(1, sampling.SAMPLING, range(30_000))
    expected = np.flatnonzero(sampling.inclusion_uniforms(words) <= construction.sketch.constant * exact)
    assert construction.coreset().ids.tolist() == expected.tolist()
