"""What statistics promise: the race of few is the race of all, moments keep their digits, bounds are bounds."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from batch2online.history import History
from batch2online.methods import scores
from batch2online.methods.clustering.race import Race, exponentials
from batch2online.methods.least_squares.moments import Moments
from batch2online.methods.low_rank.moments import RidgeMoments, _by_lanczos, leading, second_moments
from batch2online.numerics.triangular import decoupled_factor, gram_factor, qr_factor
from batch2online.rows import Rows

RNG = np.random.default_rng
FALSE_ALARM = 1e-6


def rows_of(points, targets=None, weights=None, ids=None):
    n = len(points)
    return Rows(
        points,
        np.empty((n, 0)) if targets is None else targets,
        np.ones(n) if weights is None else weights,
        np.arange(n) if ids is None else ids,
    )


# -- the race ----------------------------------------------------------------------------------------------


def raced(rows, k, z, seed, parts=1):
    """Positions of the seeds by the incremental race, its history filled in parts."""
    history, race = History(10**6, rows.points.shape[1], 0), Race(k, z, seed)
    chosen = np.empty(0)
    for part in np.array_split(np.arange(len(rows)), parts):
        history = history.append(rows[part])
        race = race.updated(history)
        chosen = race.run(history)
    return chosen


def plain(rows, k, z, seed):
    return scores.clustering_seeds(rows.points, k, z, seed, rows.weights, rows.ids)


@pytest.mark.parametrize("z", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("margin", [0.51, 0.8, 0.96, 0.999])
def test_a_row_that_wins_by_little_behind_all_that_were_looked_at_first_wins(z, margin):
    """Rows far out have small bounds and are looked at first. One at the origin has the least variable by a margin.

    Its bound is tight: D^z = 1 = P / offset. The ids are chosen for their variables.
    """
    seed, pool = 3, np.arange(100_000)
    drawn = exponentials(seed, pool, np.zeros(len(pool), dtype=np.int64))
    order = np.argsort(drawn)
    far = order[drawn[order] > 0.01][:32]
    winner = order[np.argmin(np.abs(drawn[order] - margin * drawn[far].min()))]
    others = pool[drawn > 0.05][:400]
    ids = np.sort(np.concatenate([far, [winner], others]))
    points = np.where(np.isin(ids, far), 1e3, 0.0)[:, None] * np.where(np.arange(len(ids)) % 2, 1, -1)[:, None]
    rows, place = rows_of(points, ids=ids), int(np.searchsorted(ids, winner))
    assert 0.99 * margin < drawn[winner] / drawn[far].min() < 1
    assert raced(rows, 1, z, seed).tolist() == plain(rows, 1, z, seed).tolist() == [place]


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.covering
@pytest.mark.slow
def test_seeds_of_every_stage_are_those_of_the_plain_race(z, weighted):
    """Hostile shapes: opposite far groups, heavy tails, a mean far from zero, in one part and in several."""
    rng = RNG(int(10 * z))
    groups = [
        rng.standard_t(1, size=(700, 2)),
        np.concatenate([rng.normal(size=(600, 2)), 1e4 + rng.normal(size=(40, 2)), -1e4 + rng.normal(size=(60, 2))]),
        1e3 + rng.normal(size=(900, 1)),
        np.repeat(rng.normal(size=(9, 2)), 90, axis=0) * 100,
    ]
    for points in groups:
        weights = rng.lognormal(sigma=3, size=len(points)) if weighted else None
        rows = rows_of(points, weights=weights)
        for seed in range(2):
            expected = plain(rows, 6, z, seed).tolist()
            assert raced(rows, 6, z, seed).tolist() == expected
            assert raced(rows, 6, z, seed, parts=9).tolist() == expected


def test_a_single_row_that_comes_late_may_win():
    """It weighs more than all before it, and comes alone."""
    for seed in range(5):
        points, weights = RNG(seed).normal(size=(701, 2)), np.append(np.ones(700), 1e6)
        rows, race = rows_of(points, weights=weights), Race(3, 2.0, seed)
        history = History(10**6, 2, 0)
        for part in (slice(0, 700), slice(700, 701)):
            history = history.append(rows[part])
            race = race.updated(history)
            chosen = race.run(history)
        assert chosen.tolist() == plain(rows, 3, 2.0, seed).tolist()
        assert 700 in chosen


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 4.0])
def test_the_factor_of_the_race_is_a_bound(z):
    """D^z(x) <= b (|x - o|^z + a) for points all along the line through the origin and the seed, where it is tight."""
    for reach in (0.1, 1.0, 30.0):
        for offset in (0.01, 1.0, 100.0):
            race = Race(2, z, 0, origin=np.zeros(1), offset=offset)
            factor = race._factor(np.array([[reach]]))
            x = -np.geomspace(1e-8, 1e8, 9_000) * reach
            ratio = np.abs(x - reach) ** z / (np.abs(x) ** z + offset)
            assert ratio.max() <= factor * (1 + 1e-9)
            assert ratio.max() >= factor * 0.9


@pytest.mark.parametrize("z", [1.0, 2.0])
@pytest.mark.slow
def test_all_stages_have_the_law_of_sampling_by_distance(z):
    """Triples of seeds of five weighted points over 600 seeds of the generator: chi-square, false alarms 1e-6."""
    points = np.array([[0.0], [1.0], [3.0], [3.5], [10.0]])
    weights = np.array([1.0, 2.0, 1.0, 4.0, 0.5])
    rows, n = rows_of(points, weights=weights), 600
    found = Counter(tuple(plain(rows, 3, z, seed).tolist()) for seed in range(n))
    expected = {}
    for triple in permutations(range(5), 3):
        chance = 1.0
        for stage, chosen in enumerate(triple):
            before = points[list(triple[:stage])]
            loss = np.abs(points - before.T).min(axis=1) ** z if stage else np.ones(5)
            chance *= weights[chosen] * loss[chosen] / (weights @ loss)
        expected[triple] = n * chance
    assert sum(expected.values()) == pytest.approx(n)
    usual = [triple for triple, count in expected.items() if count >= 5]
    seen = np.array([found[triple] for triple in usual] + [n - sum(found[triple] for triple in usual)])
    counts = np.array([expected[triple] for triple in usual])
    counts = np.append(counts, max(n - counts.sum(), 1e-9))
    statistic = ((seen - counts) ** 2 / counts).sum()
    assert stats.chi2.sf(statistic, len(counts) - 1) > FALSE_ALARM


# -- moments -----------------------------------------------------------------------------------------------


def columns_of(rows, intercept):
    parts = [np.ones((len(rows), 1))] * intercept + [rows.points, rows.targets]
    return np.column_stack(parts) * np.sqrt(rows.weights)[:, None]


def plain_leverage(columns):
    """By QR of columns of norm one, in extended precision where a plain inverse would do as well."""
    unit = columns / np.linalg.norm(columns, axis=0)
    return np.square(np.linalg.qr(unit)[0]).sum(axis=1)


def cut(rows, parts):
    return [rows[part] for part in np.array_split(np.arange(len(rows)), parts)]


def hostile(kind):
    rng = RNG(1)
    points, weights = rng.normal(size=(600, 3)), rng.uniform(0.3, 3, size=600)
    if kind == "a huge row":
        points[450] *= 1e8
    elif kind == "growing":
        points *= np.geomspace(1, 1e9, 600)[:, None]
    elif kind == "turning":
        points[:200, 2] = points[:200, 0] + 1e-7 * points[:200, 1]
    elif kind == "far mean":
        points += [1e6, -3e5, 0.0]
    elif kind == "close columns":
        points[:, 1] = points[:, 0] + 1e-4 * points[:, 1]
    targets = points @ [[1.0], [2.0], [-1.0]] + rng.normal(size=(600, 1))
    return rows_of(points, targets, weights)


KINDS = ["plain", "a huge row", "growing", "turning", "far mean", "close columns"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [False, True])
def test_scores_keep_their_digits_on_hostile_rows_added_or_merged(kind, intercept):
    rows = hostile(kind)
    expected = plain_leverage(columns_of(rows, intercept) - 0.0)
    inputs = plain_leverage(columns_of(rows_of(rows.points, weights=rows.weights), intercept))
    step_by_step = Moments.empty(3, 1, intercept)
    for part in cut(rows, 12):
        step_by_step = step_by_step.add(part)
    parts = [Moments.empty(3, 1, intercept).add(part) for part in cut(rows, 3)]
    merged = parts[0].merged(parts[2]).merged(parts[1])
    for moments in (step_by_step, merged):
        assert moments.rows == 600
        np.testing.assert_allclose(moments.scores(rows), expected, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(moments.scores(rows, with_targets=False), inputs, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [False, True])
def test_bounds_hold_when_given_and_ever_after(kind, intercept):
    rows, moments, given = hostile(kind), Moments.empty(3, 1, intercept), []
    for part in cut(rows, 12):
        moments = moments.add(part)
        bounds = moments.coarse_bounds(part)
        given.append(bounds)
        seen = rows[: moments.rows]
        exact = moments.scores(seen)
        assert (np.concatenate(given) >= exact * (1 - 1e-6)).all()
        assert (moments.bounds(seen) >= exact * (1 - 1e-6)).all()


def test_the_condition_is_looked_at_again_as_rows_come():
    """Bounds from the first rows stay valid and become useless: after many rows they must be close again."""
    rows = hostile("plain")
    moments = Moments.empty(3, 1, False)
    for part in cut(rows, 60):
        moments = moments.add(part)
        bounds = moments.coarse_bounds(part)
    assert bounds.sum() < 6 * moments.scores(part).sum()
    assert moments.reference.rows >= 300


def test_columns_with_a_mean_and_without_are_scored_alike():
    """The regularisation is of what varies: a column 1e8 times its spread away from zero, its twin around zero."""
    rng = RNG(5)
    values = rng.normal(size=(300, 2))
    near = rows_of(values, np.empty((300, 0)))
    far = rows_of(values * 1.0 + [2.0**30, 0.0], np.empty((300, 0)))
    one, other = (Moments.empty(2, 0, True).add(rows) for rows in (near, far))
    np.testing.assert_allclose(one.scores(near), other.scores(far), rtol=1e-5)


def test_a_gram_matrix_without_full_rank_has_a_factor():
    columns = RNG(6).normal(size=(20, 4))
    columns[:, 3] = columns[:, 0] - columns[:, 1]
    gram = columns.T @ columns
    factor = gram_factor(gram)
    assert np.allclose(factor, np.triu(factor))
    np.testing.assert_allclose(factor.T @ factor, gram, rtol=1e-10, atol=1e-10)


def test_orthogonal_parts_are_orthogonal_to_the_last_digits():
    """Columns that nearly depend on each other: one pass of Gram-Schmidt would leave an angle of 1e-8."""
    rng = RNG(7)
    columns = rng.normal(size=(30, 1)) + 1e-8 * rng.normal(size=(30, 5))
    factor, basis = decoupled_factor(columns, np.full(5, 1e-30))
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(basis @ factor, columns, rtol=1e-12)


@pytest.mark.parametrize("rounding", [0.0, 1e-17])
def test_columns_beyond_the_number_of_rows_depend_on_those_before(rounding):
    """Rows of zeros or of rounding below a factor of few rows change nothing."""
    rng = RNG(8)
    few = np.concatenate([rng.normal(size=(3, 6)), rounding * rng.normal(size=(3, 6))])
    factor, basis = decoupled_factor(few, np.full(6, 1e-11))
    assert basis.shape == (3, 6)
    assert not basis[:, 3:].any()
    np.testing.assert_allclose(factor, np.triu(factor))
    np.testing.assert_allclose(factor.diagonal()[3:], 1.0)
    np.testing.assert_allclose(basis[:, :3] @ factor[:3], few[:3], rtol=1e-12)


def test_factors_of_few_rows_have_rows_of_zeros():
    rows = RNG(9).normal(size=(3, 5))
    rows = np.concatenate([rows[:1], np.zeros((2, 5)), rows[1:]])
    factor = qr_factor(rows, np.zeros((5, 5)))
    assert not factor[3:].any()
    np.testing.assert_allclose(factor.T @ factor, rows.T @ rows, atol=1e-13)
    assert not qr_factor(np.zeros((2, 5))).any()


# -- ridge moments -------------------------------------------------------------------------------------------


def plain_ridge(rows, rank, intercept):
    root = np.sqrt(rows.weights)[:, None]
    mean = np.average(rows.points, axis=0, weights=rows.weights) if intercept else 0.0
    columns = (rows.points - mean) * root
    left, sigma, _ = np.linalg.svd(columns / np.abs(columns).max(), full_matrices=False)
    squares = sigma**2
    share = rows.weights / rows.weights.sum() if intercept else 0.0
    return share + np.square(left) @ (squares / (squares + squares[rank:].sum() / rank))


def ridge_rows(kind):
    rng = RNG(8)
    points, weights = rng.normal(size=(400, 5)) * [6, 4, 2, 1, 1] + 2.0, rng.uniform(0.3, 3, size=400)
    if kind == "a huge row":
        points[300] *= 1e9
    elif kind == "growing":
        points *= np.geomspace(1, 1e8, 400)[:, None]
    return rows_of(points, weights=weights)


@pytest.mark.parametrize("kind", ["plain", "a huge row", "growing"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rank", [1, 3])
def test_ridge_scores_and_their_bounds_added_or_merged(kind, intercept, rank):
    rows = ridge_rows(kind)
    expected = plain_ridge(rows, rank, intercept)
    step_by_step, given, exact = RidgeMoments.empty(5, rank, intercept), [], np.empty(0)
    for part in cut(rows, 16):
        step_by_step, bounds = step_by_step.add(part)
        given.append(bounds)
        before, exact = exact, step_by_step.scores(rows[: step_by_step.rows])
        assert (exact[: len(before)] <= before * (1 + 1e-6)).all()  # antitone
        assert (np.concatenate(given) >= exact * (1 - 1e-6)).all()
        assert (step_by_step.bounds(rows[: step_by_step.rows]) >= exact * (1 - 1e-6)).all()
    parts = [RidgeMoments.empty(5, rank, intercept).add(part)[0] for part in cut(rows, 3)]
    merged = parts[1].merged(parts[0]).merged(parts[2])
    for moments in (step_by_step, merged):
        np.testing.assert_allclose(moments.scores(rows), expected, rtol=1e-5, atol=1e-9)
        assert moments.rows == 400
        assert moments.weight == pytest.approx(rows.weights.sum())
        parts_of = second_moments(moments)
        assert parts_of.weight == pytest.approx(rows.weights.sum())
        if kind == "plain":
            mean = np.average(rows.points, axis=0, weights=rows.weights) * intercept
            np.testing.assert_allclose(parts_of.mean, mean, rtol=1e-9, atol=1e-12)
            around = (rows.points - mean) * np.sqrt(rows.weights)[:, None]
            assert parts_of.total == pytest.approx(np.square(around).sum())


@pytest.mark.parametrize("kind", ["plain", "a huge row", "growing"])
@pytest.mark.parametrize("rank", [1, 3])
def test_what_is_left_after_the_leading_directions(kind, rank):
    rows = ridge_rows(kind)
    moments = RidgeMoments.empty(5, rank, False)
    for part in cut(rows, 16):
        moments, _ = moments.add(part)
    sigma = np.linalg.svd(columns_of(rows, False), compute_uv=False)
    left = moments.spectrum.rest * moments.spectrum.scale**2
    np.testing.assert_allclose(left, np.square(sigma[rank:]).sum(), rtol=1e-5)


@pytest.mark.parametrize("kind", ["few directions", "no direction", "repeated", "of low rank", "zero", "falling"])
def test_the_leading_part_of_a_wide_spectrum_is_that_of_the_whole(kind):
    """By the Lanczos method where it is proved that nothing was missed, otherwise as before."""
    rng, d = np.random.default_rng(0), 200
    rows = rng.normal(size=(600, d)) * (0.0 if kind in ("zero", "of low rank") else 1.0)
    rows = rows * np.arange(1.0, d + 1) ** -0.7 if kind == "falling" else rows
    if kind in ("few directions", "of low rank"):
        rows = rows + 3 * rng.normal(size=(600, 3)) @ rng.normal(size=(3, d))
    gram = np.diag(np.where(np.arange(d) < 9, 5.0, 1.0)) if kind == "repeated" else rows.T @ rows
    found, all_values = leading(gram, None, 5), np.linalg.eigvalsh(gram)[::-1]
    tiny = 1e-12 * max(1.0, all_values[0])
    np.testing.assert_allclose(found.values, np.maximum(all_values[:5], 0), rtol=0, atol=tiny)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(5), atol=1e-10)
    residual = gram @ found.vectors - found.vectors * found.values
    np.testing.assert_allclose(residual, 0, atol=1e-10 * max(1.0, all_values[0]))


def test_the_lanczos_method_is_not_believed_when_it_misses_a_value(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 200)) + 3 * rng.normal(size=(400, 4)) @ rng.normal(size=(4, 200))
    gram = rows.T @ rows
    values, vectors = np.linalg.eigh(gram)
    assert _by_lanczos(gram, 4) is not None
    missing = [0, 1, 3, 4]
    monkeypatch.setattr(
        "scipy.sparse.linalg.eigsh",
        lambda *_, **__: (values[::-1][missing][::-1], vectors[:, ::-1][:, missing][:, ::-1]),
    )
    assert _by_lanczos(gram, 4) is None
    np.testing.assert_allclose(leading(gram, None, 4).values, values[::-1][:4], rtol=1e-12)
