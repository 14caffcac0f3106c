"""Rows that are translated and scaled: linear models translate and scale with them, as far as numbers have digits.

Rows are multiples of 2^-18 and offsets are integers, so that translating a row rounds nothing. A model holds
coefficients c and an intercept b in doubles of unit roundoff u = 2^-53; so a prediction of p columns is off by at most
(p + 2) u (sum_j |x_j c_j| + |b|): one u for the rounding of c and b each, and p + 1 operations for each term. No more
than that is allowed, on either side.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from batch2online import BatchToOnline, OnlineClassifier, OnlineRegression, coresets
from batch2online.methods.linear_losses.expansion import Expanded, ExpandedRows, Expansion
from batch2online.methods.losses import Poisson

N, P, CHUNK = 1_500, 4, 170
ROUNDOFF = 2.0**-53
OFFSETS = [1e3, 1e6, 1e9]
UNITS = {"the same units": np.ones(P), "other units": 2.0 ** np.array([-18.0, -3.0, 5.0, 17.0])}
SIGNS = np.array([1.0, -1.0, 1.0, -1.0])


def in_steps(values):
    return np.round(values * 2.0**18) / 2.0**18


RNG = np.random.default_rng(0)
X = in_steps(RNG.normal(size=(N, P)))
F = X @ [1.0, -2.0, 0.5, 0.0]
Y = in_steps(F + RNG.normal(size=N))
COUNTS = RNG.poisson(np.exp(0.4 * F)).astype(np.float64)
LABELS = np.digitize(F + RNG.logistic(size=N), [-1.0, 1.0])


def of_rows(offset, units):
    return (X + offset * SIGNS) * units


def learned(model, points, targets, *, at_once=False):
    if at_once:
        return model.fit(points, targets)
    for start in range(0, N, CHUNK):
        model.partial_fit(points[start : start + CHUNK], targets[start : start + CHUNK])
    return model


def predictors(model, points):
    coefficients, intercepts = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    bound = (P + 2) * ROUNDOFF * (np.abs(points) @ np.abs(coefficients.T) + np.abs(intercepts))
    return points @ coefficients.T + intercepts, bound


def agree(model, points, other, *, origin=0.0, unit=1.0):
    """Whether predictors, counted from an origin in a unit, are those of another model of the plain rows."""
    own, bound = predictors(model, points)
    plain, other_bound = predictors(other, X)
    assert (np.abs((own - origin) / unit - plain) <= bound / unit + ROUNDOFF * np.abs(origin) + other_bound).all()
    np.testing.assert_array_equal(model.coreset_.ids, other.coreset_.ids)
    assert model.n_changes_ == other.n_changes_


LOCATED = {
    "least squares": {},
    "on the coreset": {"solve": "coreset", "coreset_size": 200},
    "half-life": {"half_life": 400},
    "window": {"window": 500},
    "huber": {"loss": "huber"},
    "huber, thinned": {"loss": "huber", "coreset_size": 300},
    "quantile": {"loss": "quantile", "quantile": 0.7},
    "quantile, thinned": {"loss": "quantile", "quantile": 0.7, "coreset_size": 300},
    "absolute": {"loss": "absolute", "coreset_size": 600},
}


@pytest.mark.parametrize("at_once", [True, False], ids=["fit", "partial_fit"])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", LOCATED)
@pytest.mark.few(4)
def test_losses_of_residuals_move_with_rows_and_targets(name, units, at_once):
    plain = learned(OnlineRegression(random_state=0, **LOCATED[name]), X, Y, at_once=at_once)
    for offset in OFFSETS:
        points = of_rows(offset, UNITS[units])
        moved = learned(OnlineRegression(random_state=0, **LOCATED[name]), points, 4 * Y + offset, at_once=at_once)
        agree(moved, points, plain, origin=offset, unit=4.0)


LINKED = {
    "poisson": (lambda: OnlineRegression(loss="poisson", random_state=0), COUNTS),
    "poisson, thinned": (lambda: OnlineRegression(loss="poisson", coreset_size=300, random_state=0), COUNTS),
    "gamma": (lambda: OnlineRegression(loss="gamma", random_state=0), COUNTS + 1),
    "tweedie": (lambda: OnlineRegression(loss="tweedie", random_state=0), COUNTS),
    "logistic": (lambda: OnlineClassifier(alpha=0.0, random_state=0), LABELS > 0),
    "logistic, thinned": (lambda: OnlineClassifier(alpha=0.0, coreset_size=300, random_state=0), LABELS > 0),
    "softmax": (lambda: OnlineClassifier(alpha=0.0, random_state=0), LABELS),
    "softmax, thinned": (lambda: OnlineClassifier(alpha=0.0, coreset_size=300, random_state=0), LABELS),
    "balanced": (lambda: OnlineClassifier(alpha=0.0, class_weight="balanced", random_state=0), LABELS),
}


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", LINKED)
@pytest.mark.few(4)
def test_losses_of_predictors_move_with_rows(name, units):
    make, targets = LINKED[name]
    plain = learned(make(), X, targets)
    for offset in OFFSETS:
        points = of_rows(offset, UNITS[units])
        agree(learned(make(), points, targets), points, plain)


PENALTIES = {"ridge": (0.0, 4.0), "lasso": (1.0, 2.0)}


@pytest.mark.parametrize("at_once", [True, False], ids=["fit", "partial_fit"])
@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_move_with_rows_and_scale_with_alpha(name, at_once):
    """Rows of half the unit have half the coefficients, and the penalty of these is a half or a quarter."""
    l1_ratio, factor = PENALTIES[name]
    plain = learned(OnlineRegression(alpha=0.1, l1_ratio=l1_ratio, random_state=0), X, Y, at_once=at_once)
    for offset in OFFSETS:
        points = of_rows(offset, 2.0)
        model = OnlineRegression(alpha=0.1 * factor, l1_ratio=l1_ratio, random_state=0)
        agree(learned(model, points, Y + offset, at_once=at_once), points, plain, origin=offset)


@pytest.mark.slow
def test_an_elastic_net_and_penalised_classes_move_with_rows():
    for make, targets, origin in (
        (lambda: OnlineRegression(alpha=0.1, l1_ratio=0.5, random_state=0), Y, 1.0),
        (lambda: OnlineClassifier(random_state=0), LABELS, 0.0),
        (lambda: OnlineClassifier(alpha=0.01, l1_ratio=0.5, random_state=0), LABELS, 0.0),
    ):
        plain = learned(make(), X, targets)
        for offset in OFFSETS:
            points = of_rows(offset, 1.0)
            moved = learned(make(), points, targets + origin * offset if origin else targets)
            agree(moved, points, plain, origin=origin * offset)


# -- any estimator ----------------------------------------------------------------------------------------------


SCALED = {
    "ridge": (lambda: make_pipeline(StandardScaler(), Ridge()), Y, "predict"),
    "logistic": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), LABELS, "predict_proba"),
}
SAMPLES = {
    "piloted": lambda: None,
    "uniform": lambda: coresets.Uniform(coreset_size=300, random_state=0),
    "leverage": lambda: coresets.Leverage(intercept=True, coreset_size=300, random_state=0),
}


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(("name", "sample"), [*product(SCALED, ["piloted", "uniform"]), ("ridge", "leverage")])
@pytest.mark.few(2)
def test_a_weighted_fit_of_scaled_columns_moves_with_rows(name, sample, units):
    """The scaler rounds means of size ``offset``: no more than u ``offset`` for each of the columns and rows summed."""
    make, targets, answer = SCALED[name]
    size = {"coreset_size": 300} if sample == "piloted" else {}
    plain, *moved = (
        learned(BatchToOnline(make(), coreset=SAMPLES[sample](), random_state=0, **size), points, targets)
        for points in (X, *(of_rows(offset, UNITS[units]) for offset in OFFSETS))
    )
    expected = getattr(plain, answer)(X)
    for offset, model in zip(OFFSETS, moved, strict=True):
        np.testing.assert_array_equal(model.coreset_.ids, plain.coreset_.ids)
        found = getattr(model, answer)(of_rows(offset, UNITS[units]))
        slopes = 4 * P  # of predictions by columns of spread one
        np.testing.assert_allclose(found, expected, rtol=0, atol=slopes * np.log2(N) * ROUNDOFF * offset)


def test_least_squares_of_scikit_learn_moves_with_rows_and_targets():
    plain = learned(BatchToOnline(LinearRegression(), coreset_size=300, random_state=0), X, Y)
    for offset in OFFSETS:
        points = of_rows(offset, 1.0)
        moved = learned(BatchToOnline(LinearRegression(), coreset_size=300, random_state=0), points, Y + offset)
        np.testing.assert_array_equal(moved.coreset_.ids, plain.coreset_.ids)
        tolerance = 4 * P * np.log2(N) * ROUNDOFF * offset
        np.testing.assert_allclose(moved.predict(points) - offset, plain.predict(X), rtol=0, atol=tolerance)


# -- origins ----------------------------------------------------------------------------------------------------


def test_sums_of_expansions_are_the_same_function_from_any_origin():
    rng = np.random.default_rng(1)
    half = rng.normal(size=(3, 3))
    constants, linear = rng.normal(size=1), rng.normal(size=(1, 1, 3))
    rows, theta = ExpandedRows(*np.zeros((4, 1, 1)), 1.0), rng.normal(size=(1, 3))
    for matrix in (np.zeros((1, 0, 0)), (half @ half.T)[None]):
        sums = Expansion(constants, linear, matrix, np.zeros(0))
        moved, expected = (
            Expanded(*each.total(), Poisson(), rows, (rows.y, rows.eta, rows.eta)).of_all(at)
            for each, at in ((sums.translated(2.5), theta), (sums, theta + np.array([[2.5, 0.0, 0.0]])))
        )
        assert moved[0] == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(moved[1], expected[1], rtol=1e-12)


@pytest.mark.parametrize("settings", [{"loss": "huber"}, {"loss": "quantile"}, {"alpha": 0.1}], ids=str)
@pytest.mark.parametrize("size", [5_000, 700])
@pytest.mark.covering
def test_shards_with_targets_far_apart_merge(settings, size):
    """Each counts its targets from their own median; a column tells the shards apart."""
    rows = np.column_stack([X, np.arange(N) >= N // 2])
    targets = Y + 1e4 * rows[:, -1]
    whole = OnlineRegression(coreset_size=size, random_state=0, **settings).fit(rows, targets)
    parts = [
        OnlineRegression(coreset_size=size, random_state=0, first_id=a, **settings).fit(rows[a:b], targets[a:b])
        for a, b in ((0, N // 2), (N // 2, N))
    ]
    merged = parts[0].merge(parts[1])
    far_apart = np.abs(merged.predict(rows) - whole.predict(rows))
    if size > N:  # all rows are kept
        assert far_apart.max() < 1e-4
    else:
        assert np.sqrt(np.mean(far_apart**2)) < 0.5
