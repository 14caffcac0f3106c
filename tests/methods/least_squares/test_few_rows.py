"""Ridge regressions of the first rows of a stream, least squares of ``fit``, ``merge`` and ``forget``."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from batch2online import OnlineRegression, load
from batch2online.methods.least_squares.few_rows import FewRows
from batch2online.methods.least_squares.moments import Moments
from batch2online.methods.least_squares.problem import LinearModel, _deviation
from batch2online.methods.least_squares.solver import Tridiagonal, least_squares, ridge
from batch2online.refresh import Geometric
from batch2online.rows import Rows

WIDTH = 6


def few(n=40, noise=1.0, seed=0, n_targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, WIDTH)) * [1, 2, 3, 0.1, 10, 1] + rng.normal(size=WIDTH)
    y = X @ rng.normal(size=(WIDTH, n_targets)) + noise * rng.normal(size=(n, n_targets))
    return X, y[:, 0] if n_targets == 1 else y


def moments_of(X, y, weights=None, intercept=True):
    n = len(X)
    rows = Rows(X, y.reshape(n, -1), np.ones(n) if weights is None else weights, np.arange(n))
    return Moments.of(rows, intercept)


def by_hand(X, y, intercept=True):
    """Return the likeliest ridge regression of the grid, by the density of all targets."""
    n, d = X.shape
    means = X.mean(axis=0) * intercept
    unit = (X - means) / np.sqrt(np.square(X - means).mean(axis=0))
    values = y - y.mean() * intercept
    freedom, best = n - intercept, (np.inf, 0.0)
    for size in 2.0 ** np.arange(-12, 9):
        covariance = np.eye(n) + unit @ unit.T / (size * d)
        misfit = values @ np.linalg.solve(covariance, values)
        best = min(best, (freedom * np.log(misfit) + np.linalg.slogdet(covariance)[1] + np.log(size) ** 2, size * d))
    return Ridge(alpha=best[1], fit_intercept=False).fit(unit, values).predict(unit) + y.mean() * intercept


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [4, 12, 40, 200])
@pytest.mark.parametrize("noise", [0.01, 1.0, 100.0])
def test_the_penalty_is_the_likeliest_of_the_grid(n, noise, intercept):
    X, y = few(n, noise)
    coefficients, intercepts = ridge(moments_of(X, y, intercept=intercept), n)
    assert X @ coefficients[0] + intercepts[0] == pytest.approx(by_hand(X, y, intercept), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("n", [3, 12, 60])
def test_models_move_with_columns_and_targets(n):
    X, y = few(n)
    scale, offset = np.array([1e-3, 7.0, 1e6, 1.0, -2.0, 0.3]), 1e3
    plain = ridge(moments_of(X, y), n)
    moved = ridge(moments_of(X * scale + offset, 5 * y - offset), n)
    prediction = (X * scale + offset) @ moved.coefficients[0] + moved.intercepts[0]
    assert prediction == pytest.approx(5 * (X @ plain.coefficients[0] + plain.intercepts[0]) - offset, rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_targets_and_columns_give_the_mean(value):
    X, _ = few()
    X[:, 2] = 7.0
    coefficients, intercepts = ridge(moments_of(X, np.full(len(X), value)), len(X))
    assert coefficients == pytest.approx(np.zeros((1, WIDTH)), abs=1e-12)
    assert intercepts == pytest.approx([value])


def test_strong_signals_are_hardly_shrunk_and_weak_ones_are():
    X, y = few(noise=0.01)
    assert ridge(moments_of(X, y), 40).coefficients == pytest.approx(
        least_squares(moments_of(X, y)).coefficients, rel=0.02
    )
    X, y = few(noise=1e4)
    fitted = [
        float(np.std(X @ solution.coefficients[0]))
        for solution in (ridge(moments_of(X, y), 40), least_squares(moments_of(X, y)))
    ]
    assert fitted[0] < 0.8 * fitted[1]


def test_streams_have_ridge_regressions_and_batches_least_squares():
    X, y = few(80)
    batch = LinearRegression().fit(X, y)
    stream = OnlineRegression(random_state=0, keep_history=True).partial_fit(X, y)
    own = ridge(moments_of(X, y), 80)
    assert stream.coef_ == pytest.approx(own.coefficients[0])
    assert stream.coef_ != pytest.approx(batch.coef_, rel=1e-4)
    assert OnlineRegression(random_state=0).fit(X, y).coef_ == pytest.approx(batch.coef_)
    assert stream.forget([3]).coef_ == pytest.approx(
        LinearRegression().fit(*(np.delete(part, 3, 0) for part in (X, y))).coef_
    )
    parts = [OnlineRegression(random_state=0, first_id=a).partial_fit(X[a:b], y[a:b]) for a, b in ((0, 30), (30, 80))]
    assert parts[0].merge(parts[1]).coef_ == pytest.approx(batch.coef_)


@pytest.mark.parametrize("settings", [{"refresh": Geometric(2.0)}, {"solve": "coreset", "coreset_size": 1000}])
def test_a_policy_that_is_given_and_the_coreset_have_least_squares(settings):
    X, y = few(21)  # the first check without ridge regression
    model = OnlineRegression(random_state=0, **settings).partial_fit(X, y)
    assert model.coef_ == pytest.approx(LinearRegression().fit(X, y).coef_)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_models_come_at_row_ten_and_at_doublings(n_targets):
    X, y = few(500, n_targets=n_targets)
    model = OnlineRegression(random_state=0).partial_fit(X[:9], y[:9])
    assert not model.has_model_
    model.partial_fit(X[9:], y[9:])
    assert [event.at for event in model.changes_][:5] == [20, 40, 80, 160, 320]


def test_few_rows_are_predicted_better_than_by_least_squares():
    losses = []
    for seed in range(10):
        X, y = few(200, noise=10.0, seed=seed)
        models = (
            OnlineRegression(random_state=0, refresh=policy).partial_fit(X, y) for policy in (None, Geometric(2.0))
        )
        losses.append([model.regret_.loss for model in models])
    own, others = np.sum(losses, axis=0)
    assert own < 0.98 * others


def wide(n, weights=None, intercept=True):
    """Return n rows of eight columns, one constant and one the sum of two others, and what is kept of them."""
    rng = np.random.default_rng(n)
    X = 50 + rng.normal(size=(n, 8)) * np.arange(1, 9)
    X[:, 3], X[:, 5] = 7.0, X[:, 0] + X[:, 1]
    rows = Rows(X, 1e3 + rng.normal(size=(n, 2)), np.ones(n) if weights is None else weights, np.arange(n))
    few = FewRows.none(8, 2, intercept)
    for start in range(0, n, 3):
        few = few.add(rows[start : start + 3])
    return rows, few


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [1, 2, 7, 9])
def test_few_rows_say_what_their_moments_say(n, intercept):
    rows, few = wide(n, np.linspace(1, 4, n), intercept)
    assert isinstance(few, FewRows)
    whole, offset = Moments.empty(8, 2, intercept).add(rows), 1e3
    model = LinearModel(np.random.default_rng(0).normal(size=(2, 8)), np.array([offset, offset]) * intercept)
    costs = [float(np.square(each.shifted_factor @ _deviation(model, each)).sum()) for each in (few, whole)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-9)
    assert few.input_spreads == pytest.approx(whole.input_spreads, rel=1e-6, abs=1e-6)
    if n > 1:
        for one, other in zip(ridge(few, n), ridge(whole, n), strict=True):
            assert one == pytest.approx(other, rel=1e-6, abs=1e-9)
    assert few.whole.scores(rows) == pytest.approx(whole.scores(rows))


def test_as_many_rows_as_columns_become_moments():
    rows, few = wide(10)
    more = few.add(rows[:1])
    assert isinstance(more, Moments)
    assert more.rows == 11
    assert FewRows.none(8, 2, True).add(Rows.concatenate([rows, rows[:1]])).gram.tolist() == more.gram.tolist()


def test_what_is_held_of_few_rows_is_a_copy_that_can_be_stored(tmp_path):
    X = np.random.default_rng(0).normal(size=(15, 20))
    model = OnlineRegression(random_state=0).partial_fit(X, X[:, 0])
    model.save(tmp_path / "few.b2o")
    X[:] = 0.0
    again = load(tmp_path / "few.b2o")
    more = np.random.default_rng(1).normal(size=(50, 20))
    for each in (model, again):
        each.partial_fit(more, more[:, 0])
    assert again.coef_.tolist() == model.coef_.tolist()
    assert np.abs(model.coef_[0]) > 0.5


@pytest.mark.parametrize("n", [1, 2, 3, 70])
def test_a_tridiagonal_form_solves_as_the_matrix_does(n):
    rng = np.random.default_rng(n)
    root, columns = rng.normal(size=(n, n)), rng.normal(size=(n, 3))
    matrix, form = root @ root.T, Tridiagonal.of(root @ root.T)
    penalties = np.array([0.5, 3.0])
    solutions, logarithms = form.solved(form.rotated(columns), penalties)
    for penalty, solution, logarithm in zip(penalties, solutions, logarithms, strict=True):
        shifted = matrix + penalty * np.eye(n)
        assert form.rotated_back(solution) == pytest.approx(np.linalg.solve(shifted, columns))
        assert logarithm == pytest.approx(np.linalg.slogdet(shifted)[1])
