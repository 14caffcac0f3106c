"""Scores and costs from incremental statistics, against arithmetic of 60 digits and plain sums."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from batch2online.coresets import Leverage
from batch2online.methods import scores
from batch2online.methods.least_squares.moments import RIDGE, Moments
from batch2online.methods.least_squares.problem import LeastSquares, LinearModel, least_squares
from batch2online.rows import Rows
from batch2online.sketches.base import Snapshot
from rank_deficient import hostile_stream, largest_rise
from streams import stream

TOLERANCE = 1e-6


def exact_leverage(points, intercept):
    with mpmath.workdps(60):
        exact = np.vectorize(mpmath.mpf, otypes=[object])(with_ones(points, intercept))
        gram = exact.T @ exact
        squares = gram.diagonal().copy()
        if intercept:
            squares[1:] -= gram[0, 1:] ** 2 / gram[0, 0]
        gram += mpmath.mpf(RIDGE) * np.diag(squares)
        inverse = np.array((mpmath.matrix(gram.tolist()) ** -1).tolist(), dtype=object)
        return ((exact @ inverse) * exact).sum(axis=1).astype(np.float64)


def with_condition(condition, n, p, rng):
    """A matrix of known singular values, from 1 down to 1 / condition."""
    left, _ = np.linalg.qr(rng.normal(size=(n, p)))
    right, _ = np.linalg.qr(rng.normal(size=(p, p)))
    return left * np.geomspace(1, 1 / condition, p) @ right.T


def rows_of(points, targets=None, start=0):
    targets = np.empty((len(points), 0)) if targets is None else targets.reshape(len(points), -1)
    return Rows(points, targets, np.ones(len(points)), np.arange(start, start + len(points)))


def incremental_leverage(points, intercept, pieces=9):
    sketch = Leverage(intercept=intercept, random_state=0).new_sketch(points.shape[1], 0)
    for places in np.array_split(np.arange(len(points)), pieces):
        sketch = sketch.update(rows_of(points[places], start=places[0]))
    return sketch.statistics.scores(rows_of(points))


def with_ones(points, intercept):
    return np.column_stack([np.ones((len(points), int(intercept))), points])


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=0)


# -- accuracy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("condition", [1e0, 1e2, 1e4, 1e6, 1e8])
def test_scores_are_accurate_up_to_condition_1e8(condition, intercept):
    points = with_condition(condition, 300, 5, np.random.default_rng(0))
    expected = exact_leverage(points, intercept)
    assert_close(scores.leverage(with_ones(points, intercept), intercept=intercept), expected)
    assert_close(incremental_leverage(points, intercept), expected)


@pytest.mark.parametrize("direction", [1, -1], ids=["growing", "shrinking"])
@pytest.mark.parametrize("span", [1e3, 1e6, 1e9])
def test_scores_are_accurate_when_rows_grow_or_shrink_along_the_stream(span, direction):
    points = np.random.default_rng(1).normal(size=(300, 4)) * np.geomspace(1, span, 300)[::direction, None]
    expected = exact_leverage(points, True)
    assert_close(scores.leverage(with_ones(points, True), intercept=True), expected)
    assert_close(incremental_leverage(points, True), expected)


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e4, 1e8])
def test_scores_are_accurate_when_a_column_wakes_up(size):
    points = np.random.default_rng(2).normal(size=(300, 4))
    points[:, 2] *= size
    points[:180, 2] = 0.0
    assert_close(incremental_leverage(points, True), exact_leverage(points, True))


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-10])
def test_scores_of_nearly_equal_columns_are_the_same_from_scratch_and_step_by_step(gap, mean):
    rng = np.random.default_rng(3)
    column = mean + rng.normal(size=300)
    points = np.column_stack([column, column + gap * rng.normal(size=300)])
    expected = exact_leverage(points, True)
    np.testing.assert_allclose(scores.leverage(with_ones(points, True), intercept=True), expected, rtol=1e-3)
    np.testing.assert_allclose(incremental_leverage(points, True), expected, rtol=1e-3)


def test_coordinates_do_not_outlive_the_rows_they_were_made_for():
    """Hour of day is a linear function of time until the first midnight, and is not afterwards."""
    X, y = stream("timestamps", 23_000)
    merged = None
    for start, stop in pairwise([0, 4000, 9000, 13_000, 20_000, 23_000]):
        moments, rows = Moments.empty(4, 1, intercept=True), slice(start, stop)
        for piece in np.array_split(np.arange(start, stop), 40):
            moments = moments.add(rows_of(X[piece], y[piece]))
        expected = scores.leverage(with_ones(np.column_stack([X, y]), True)[rows], intercept=True)
        assert_close(moments.scores(rows_of(X[rows], y[rows])), expected)
        merged = moments if merged is None else merged.merged(moments)
    expected = scores.leverage(with_ones(np.column_stack([X, y]), True), intercept=True)
    assert_close(merged.scores(rows_of(X, y)), expected)


@pytest.mark.parametrize("condition", [1e0, 1e4, 1e8])
def test_merged_statistics_give_accurate_scores(condition):
    points = with_condition(condition, 300, 5, np.random.default_rng(4))
    merged = Leverage(intercept=True, random_state=0)
    for k in (3, 0, 4, 1, 2):
        shard = Leverage(intercept=True, random_state=0, first_id=60 * k)
        merged.merge(shard.add(points[60 * k : 60 * (k + 1)]))
    assert_close(merged.sketch.statistics.scores(rows_of(points)), exact_leverage(points, True))


# -- order ---------------------------------------------------------------------------------------------


@st.composite
def awkward_rows(draw, deficient=False):
    """Random rows with columns of any scale, some nearly or fully dependent, some zero at first, one row large."""
    n, d = draw(st.integers(40, 200)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.normal(size=(n, d)) + draw(st.sampled_from([0.0, 10.0, 1e4]))
    if draw(st.booleans()):
        points[: draw(st.integers(0, n)), 0] = 0.0
    if deficient:
        points = points[rng.integers(1 + n // 4, size=n)]
        points[:, -1] = points[:, 0] - 2 * points[:, d // 2]
    elif draw(st.booleans()):
        points[:, -1] = points[:, 0] + draw(st.sampled_from([1e-2, 1e-5])) * rng.normal(size=n)
    elif draw(st.booleans()):
        points[rng.integers(n)] *= 1e6
    return points * 10.0 ** rng.integers(-60, 60, size=d)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("intercept", [True, False])
def test_bounds_of_many_columns_are_the_scores_at_the_check(intercept, n_targets):
    rng = np.random.default_rng(n_targets)
    points, targets = rng.normal(size=(400, 90)) @ rng.normal(size=(90, 90)), rng.normal(size=(400, n_targets))
    for weights in (np.ones(400), rng.uniform(1, 2, size=400)):
        rows = Rows(points, targets, weights, np.arange(400))
        moments = Moments.empty(90, n_targets, intercept).add(rows)
        assert moments.is_plain
        np.testing.assert_allclose(moments.bounds(rows), moments.scores(rows), rtol=1e-8)
        few, every = moments.scores(rows[np.arange(20)]), moments.scores(rows)  # by a solve, and by the inverse
        np.testing.assert_allclose(few, every[:20], rtol=1e-8)


def assert_falling_below_bounds(points, cuts, intercept, slack):
    moments = Moments.empty(points.shape[1], 0, intercept)
    earlier = bounds = np.empty(0)
    for start, stop in pairwise([0, *cuts, len(points)]):
        new = rows_of(points[start:stop], start=start)
        moments = moments.add(new)
        now = moments.scores(rows_of(points[:stop]))
        bounds = np.concatenate([bounds, moments.coarse_bounds(new)])
        assert (now[:start] <= earlier * (1 + slack)).all()
        assert (now <= bounds * (1 + slack)).all()
        earlier = now


@given(points=awkward_rows(), intercept=st.booleans(), step=st.integers(1, 40))
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_a_score_never_rises_and_never_exceeds_its_early_bound(points, intercept, step):
    assert_falling_below_bounds(points, range(20, len(points), step), intercept, slack=TOLERANCE)


@given(points=awkward_rows(deficient=True), intercept=st.booleans(), step=st.integers(1, 40))
@settings(max_examples=100, deadline=None, derandomize=True)
@pytest.mark.slow
def test_rounding_hardly_raises_scores_of_rows_without_full_rank(points, intercept, step):
    assert_falling_below_bounds(points, range(30, len(points), step), intercept, slack=TOLERANCE)


def test_fewer_distinct_rows_than_columns_are_kept_all_the_same():
    """Six rows, four of them distinct, of five columns far from zero: rounding could take the place of directions."""
    distinct = [
        [1.0001024943191352, 9999307897954.717, 1.000062939331829e-45, 1.0000328583693568e-28, -1.0000233843445227e-26],
        [0.999936079010193, 9999648187135.633, 1.0001608294230935e-45, 1.000069057243726e-28, -1.0003855798359943e-26],
        [0.0, 9998930663419.791, 9.999242742493194e-46, 1.00007686581313e-28, -1.9998485484986385e-26],
        [0.0, 9999607380741.004, 1.0001387728944527e-45, 9.999082549039564e-29, -2.0002775457889054e-26],
    ]
    points = np.array(distinct)[[0, 0, 1, 1, 2, 3]]
    moments = Moments.empty(5, 0, intercept=True)
    for start in (0, 3):
        moments = moments.add(rows_of(points[start : start + 3], start=start))
    found = moments.scores(rows_of(points))
    assert (found >= np.array([0.5, 0.5, 0.5, 0.5, 1.0, 1.0]) * (1 - TOLERANCE)).all()  # none is too small
    np.testing.assert_allclose(found, [0.5, 0.5, 0.5, 0.5, 1.0, 1.0], rtol=1e-4)
    assert (Leverage(random_state=0).add(points).coreset().weights == 1).all()


@pytest.mark.parametrize("seed", [2896, 875, 3763, 528, 2224])
def test_coordinates_of_other_rows_do_not_spoil_scores_of_rows_without_full_rank(seed):
    """Streams on which scores doubled while blocks that break the guards were absorbed in whitened coordinates."""
    assert largest_rise(*hostile_stream(seed)) < 1e-5


@given(points=awkward_rows(), intercept=st.booleans())
@settings(max_examples=50, deadline=None)
def test_scores_lie_between_zero_and_one_and_sum_to_the_columns_at_most(points, intercept):
    for score in (
        incremental_leverage(points, intercept),
        scores.leverage(with_ones(points, intercept), intercept=intercept),
    ):
        assert (score >= 0).all()
        assert (score <= 1 + TOLERANCE).all()
        assert score.sum() <= (points.shape[1] + intercept) * (1 + TOLERANCE)


# -- costs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "name", ["gaussian", "heavy_tailed", "constant_column", "large_means", "one_hot", "multi_output"]
)
def test_costs_and_optimum_are_those_of_all_rows(name, intercept):
    X, y = stream(name, 12_000)
    targets = y.reshape(len(y), -1)
    construction = Leverage(intercept=intercept, random_state=0)
    for start in range(0, len(X), 700):
        construction.add(X[start : start + 700], y[start : start + 700])
    data, problem = Snapshot(construction.sketch), LeastSquares(exact=True)
    digits = 1e-7 if name == "one_hot" else 1e-9  # dependent columns leave half of the digits

    center = (lambda a: a - a.mean(axis=0)) if intercept else np.asarray
    best, *_ = np.linalg.lstsq(center(X), center(targets))
    optimum = np.square(center(targets) - center(X) @ best).sum()
    assert problem.optimum(data, None) == pytest.approx(optimum, rel=digits)

    rng = np.random.default_rng(5)
    fitted = problem.fit(data, None).model
    coefficients = rng.normal(size=fitted.coefficients.shape)
    other = LinearModel(coefficients, rng.normal(size=targets.shape[1]) if intercept else np.zeros(targets.shape[1]))
    for model in (
        fitted,
        other,
        problem.initial_model(targets[0] if intercept else None, X.shape[1], targets.shape[1]),
    ):
        plain = np.square(targets - X @ model.coefficients.T - model.intercepts).sum()
        assert problem.cost(model, data) == pytest.approx(plain, rel=digits)
    scales = np.linalg.norm(center(X), axis=0)
    plain = LinearRegression(fit_intercept=intercept).fit(X / np.where(scales > 0, scales, 1.0), targets)
    least = np.square(targets - plain.predict(X / np.where(scales > 0, scales, 1.0))).sum()
    assert problem.cost(fitted, data) == pytest.approx(least, rel=digits)
    assert (least < 1.001 * optimum) == (name != "large_means" or intercept)  # else an offset makes columns collinear

    moved = (X @ (coefficients - fitted.coefficients).T + other.intercepts - fitted.intercepts).ravel()
    root_mean_square = np.sqrt(moved @ moved / len(X))
    assert problem.difference(fitted, other, data)["magnitude"] == pytest.approx(root_mean_square, rel=digits)


def test_the_exact_solution_is_that_of_least_squares():
    X, y = stream("gaussian", 12_000)
    moments = Moments.empty(5, 1, intercept=True)
    for start in range(0, len(X), 5000):
        moments = moments.add(rows_of(X[start : start + 5000], y[start : start + 5000], start))
    model = least_squares(moments)
    best, *_ = np.linalg.lstsq(with_ones(X, True), y)
    np.testing.assert_allclose([model.intercepts[0], *model.coefficients[0]], best, rtol=1e-9, atol=1e-12)


def test_equal_rows_of_different_weights_share_the_leverage_of_the_constant():
    """The division by the roots of the weights must not make noise of them that counts as a direction of its own."""
    values = [float.fromhex(value) for value in ("0x1.65535fbd033b2p+91", "0x1.87c72efc025f5p+29", "-0x1.12ebc5p-1")]
    weights = np.array([0.25, 3.7, 1.3])
    rows = np.sqrt(weights)[:, None] * np.array([[1.0, *values]] * 3)
    np.testing.assert_allclose(scores.leverage(rows, intercept=True), weights / weights.sum(), rtol=1e-12)


@pytest.mark.parametrize("tiny", [1e-300, 1e-308, 1e-310, 1e-320])
def test_columns_near_the_end_of_the_range_have_scores(tiny):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[:20, 2] *= tiny
    construction = Leverage(random_state=0, coreset_size=10)
    assert len(construction.add(rows[:1]).coreset()) == 1
    assert len(construction.add(rows[1:20]).coreset()) > 2
    assert np.isfinite(construction.add(rows[20:]).coreset().weights).all()
