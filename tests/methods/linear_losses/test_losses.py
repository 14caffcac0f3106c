"""Losses of a linear predictor: derivatives against differences, models against scikit-learn's, odd data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from sklearn.metrics import log_loss, mean_pinball_loss, mean_tweedie_deviance

from batch2online import OnlineClassifier, OnlineRegression
from batch2online.methods.linear_losses.grams import curvature_sum
from batch2online.methods.losses import (
    Gamma,
    HalfSquared,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Tweedie,
    predictor_loss,
    weighted_quantile,
)

SCALAR = (
    *(Gamma(), HalfSquared(), Huber(), Logistic(), Poisson(), Tweedie(1.5), Tweedie(3.0)),
    *(Quantile(0.3), Quantile(0.5, factor=2.0)),
)
N, SCALE = 400, 4


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, SCALE)) * [1.0, 20.0, 0.1, 1.0] + [0.0, 50.0, 3.0, 0.0]
    return X, 0.5 * X[:, 0] + 0.02 * X[:, 1] - 1.0


def differences(function, eta, step=1e-6):
    """Central differences of a function of predictors (n, K), for each of them."""
    columns = []
    for k in range(eta.shape[1]):
        shift = np.zeros(eta.shape[1])
        shift[k] = step
        columns.append((function(eta + shift) - function(eta - shift)) / (2 * step))
    return np.stack(columns, axis=1)


def targets_for(loss, rng, n):
    return rng.integers(2, size=n).astype(float) if loss.has_classes else rng.gamma(2.0, size=n)


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_derivatives(loss):
    rng = np.random.default_rng(1)
    eta, y = rng.normal(size=(50, 1)), targets_for(loss, rng, 50)
    values, gradient, hessian = loss.local(eta, y, 0.7)
    np.testing.assert_allclose(loss.value(eta, y, 0.7), values, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(differences(lambda e: loss.value(e, y, 0.7), eta), gradient, atol=1e-7)
    np.testing.assert_allclose(differences(lambda e: loss.local(e, y, 0.7)[1][:, 0], eta), hessian, atol=1e-6)


def test_derivatives_of_several_classes():
    rng, loss = np.random.default_rng(2), Logistic()
    eta, y = rng.normal(size=(30, 4)), rng.integers(4, size=30).astype(float)
    weights, design, direction = rng.random(30), rng.normal(size=(30, 3)), rng.normal(size=(30, 4))
    values, gradient, hessian = loss.local(eta, y)
    np.testing.assert_allclose(loss.value(eta, y), values, rtol=1e-12)
    np.testing.assert_allclose(differences(lambda e: loss.value(e, y), eta), gradient, atol=1e-8)
    bends = np.stack([differences(lambda e, k=k: loss.local(e, y)[1][:, k], eta) for k in range(4)], axis=1)
    np.testing.assert_allclose(np.einsum("nkk->nk", bends), hessian, atol=1e-8)
    along = np.einsum("nkl,nl->nk", bends, direction)
    np.testing.assert_allclose(loss.hessian_product(eta, hessian, direction), along, atol=1e-8)
    whole = np.einsum("n,nkl,np,nq->kplq", weights, bends, design, design).reshape(12, 12)
    np.testing.assert_allclose(curvature_sum(loss, design, weights, eta, hessian), whole, atol=1e-7)


@pytest.mark.parametrize(
    ("loss", "power"), [(Poisson(), 1), (Tweedie(1.5), 1.5), (Gamma(), 2), (Tweedie(3.0), 3), (HalfSquared(), 0)]
)
def test_a_deviance_is_half_that_of_scikit_learn(loss, power):
    rng = np.random.default_rng(4)
    y, eta = rng.gamma(2.0, size=50), rng.normal(size=(50, 1))
    own = [mean_tweedie_deviance([each], [mean], power=power) / 2 for each, mean in zip(y, loss.mean(eta), strict=True)]
    np.testing.assert_allclose(loss.value(eta, y), own, atol=1e-12)
    np.testing.assert_allclose(loss.value(loss.predictor(y), y), 0, atol=1e-12)


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_a_constant_model_minimises_the_weighted_loss(loss):
    rng = np.random.default_rng(5)
    y, times = targets_for(loss, rng, 90), rng.integers(1, 9, size=90)
    weights = times.astype(float)
    constant = loss.constant(y, weights, 2)
    np.testing.assert_allclose(constant, loss.constant(np.repeat(y, times), np.ones(times.sum()), 2))
    if isinstance(loss, Huber):  # its scale is not known yet: the median, for any scale that is small
        loss = Quantile(0.5)

    def cost(eta):
        return weights @ loss.value(np.full((90, 1), eta), y, 1.0 if not isinstance(loss, Quantile) else 0.0)

    smoothing = 0.02 if loss.has_classes else 0.0  # half a row in each class
    lowest = cost(constant[0])
    assert all(lowest <= cost(constant[0] + shift) for shift in (-0.3, -0.1, smoothing + 1e-3, 0.1, 0.3))


@pytest.mark.parametrize("loss", [loss for loss in SCALAR if not loss.has_classes], ids=repr)
def test_predictors_and_predictions_belong_to_each_other(loss):
    eta = np.linspace(-3, 3, 7)[:, None]
    np.testing.assert_allclose(loss.predictor(loss.mean(eta)), eta, atol=1e-12)


def test_the_scale_of_huber_minimises_the_weighted_loss():
    rng, loss = np.random.default_rng(7), Huber()
    y, eta, weights = rng.standard_t(3, size=80), rng.normal(size=(80, 1)), rng.random(80)
    best = loss.scale_of(eta, y, weights)
    costs = [weights @ loss.value(eta, y, best * factor) for factor in (1.0, 0.98, 0.995, 1.005, 1.02)]
    assert costs[0] == min(costs)
    alone = np.array([loss.value(eta, y, scale) for scale in np.geomspace(1e-3, 1e2, 2_000)]).min(axis=0)
    np.testing.assert_allclose(loss.without_scale(eta, y), alone, rtol=1e-4)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.73])
def test_a_weighted_quantile_is_that_of_repeated_values(quantile):
    rng = np.random.default_rng(8)
    values, times = rng.normal(size=41), rng.integers(1, 7, size=41)
    expected = np.quantile(np.repeat(values, times), quantile, method="inverted_cdf")
    assert weighted_quantile(values, 0.5 * times, quantile) == expected


def test_the_first_target_out_of_range_is_named():
    for loss, targets, message in (
        (Poisson(), [0.0, 2.0, -1.0, -5.0], "0 or more for the Poisson loss, got -1 at row 2"),
        (Gamma(), [1.0, 0.0, -5.0], "above 0 for the gamma loss, got 0 at row 1"),
        (Tweedie(1.5), [0.0, -1.0, -5.0], "0 or more for the Tweedie loss, got -1 at row 1"),
        (Tweedie(3.0), [1.0, 0.0, -5.0], "above 0 for the Tweedie loss, got 0 at row 1"),
    ):
        with pytest.raises(ValueError, match=message):
            loss.check(np.array(targets))
        loss.check(np.array(targets[:1]))


def test_a_name_that_is_no_loss_is_refused():
    with pytest.raises(ValueError, match=r"'logistic', .*got 'hinge'"):
        predictor_loss("hinge")
    with pytest.raises(ValueError, match=r'loss must be "squared", "huber", .*got'):
        OnlineRegression(loss="logistic").fit([[1.0]], [1.0])


# -- scikit-learn -------------------------------------------------------------------------------------


def deviance(power):
    return lambda model, X, y: mean_tweedie_deviance(y, model.predict(X), power=power) / 2


def residuals(model, X, y):
    return np.mean(np.square(y - model.predict(X))) / 2


def penalty(model, alpha, l1_ratio):
    return alpha * (l1_ratio * np.abs(model.coef_).sum() + (1 - l1_ratio) / 2 * np.square(model.coef_).sum())


EXACT = {"tol": 1e-9, "max_iter": 20_000}
NEWTON = EXACT | {"solver": "newton-cholesky"}
REGRESSIONS = {
    "poisson": (PoissonRegressor(alpha=0.1, **NEWTON), {"loss": "poisson", "alpha": 0.1}, deviance(1), np.floor),
    "gamma": (GammaRegressor(alpha=0.1, **NEWTON), {"loss": "gamma", "alpha": 0.1}, deviance(2), np.abs),
    "tweedie": (
        TweedieRegressor(power=1.5, alpha=0.0, **NEWTON),
        {"loss": "tweedie", "power": 1.5},
        deviance(1.5),
        np.floor,
    ),
    "squared tweedie": (
        TweedieRegressor(alpha=0.2, **NEWTON),
        {"loss": "tweedie", "power": 0, "alpha": 0.2},
        residuals,
    ),
    "elastic net": (ElasticNet(alpha=0.1, tol=1e-9), {"alpha": 0.1, "l1_ratio": 0.5}, residuals),
    "median": (
        QuantileRegressor(alpha=0.0),
        {"loss": "absolute"},
        lambda model, X, y: mean_pinball_loss(y, model.predict(X)),
    ),
    "quantile": (
        QuantileRegressor(quantile=0.9, alpha=0.02),
        {"loss": "quantile", "quantile": 0.9, "alpha": 0.02, "l1_ratio": 1.0},
        lambda model, X, y: mean_pinball_loss(y, model.predict(X), alpha=0.9),
    ),
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_fit_costs_what_that_of_scikit_learn_costs(name, rows):
    theirs, settings, loss, *made = REGRESSIONS[name]
    X, eta = rows
    rng = np.random.default_rng(3)
    y = made[0](rng.gamma(2.0, np.exp(eta)) + 1e-6) if made else eta + rng.standard_t(2, size=N)
    theirs.fit(X, y)
    ours = OnlineRegression(random_state=0, **settings).fit(X, y)
    added = settings.get("alpha", 0.0), settings.get("l1_ratio", 0.0)
    costs = [loss(model, X, y) + penalty(model, *added) for model in (ours, theirs)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)
    assert ours.error_ == 0


def test_a_huber_fit_is_that_of_scikit_learn(rows):
    X, eta = rows
    y = 1e3 * (eta + np.random.default_rng(4).standard_t(2, size=N))
    theirs, ours = HuberRegressor(alpha=0.0, **EXACT).fit(X, y), OnlineRegression(loss="huber").fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-3, atol=1)
    assert ours._stream.model.scale == pytest.approx(theirs.scale_, rel=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("alpha", [None, 0.01])
def test_a_classifier_is_that_of_scikit_learn(n_classes, alpha, rows):
    X, eta = rows
    y = np.digitize(eta + np.random.default_rng(6).logistic(size=N), [0.0, 1.5][: n_classes - 1])
    theirs = LogisticRegression(C=1.0 if alpha is None else 1 / (alpha * N), tol=1e-9, max_iter=5_000).fit(X, y)
    ours = OnlineClassifier(alpha=alpha, random_state=0).fit(X, y)
    assert log_loss(y, ours.predict_proba(X)) == pytest.approx(log_loss(y, theirs.predict_proba(X)), rel=1e-4)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)


# -- odd data -----------------------------------------------------------------------------------------

POSITIVE = ("poisson", "gamma", "tweedie")


@pytest.mark.parametrize("loss", [*POSITIVE, "huber", "absolute", "quantile"])
def test_more_columns_than_rows_give_a_finite_model(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 30)), rng.normal(size=20)
    model = OnlineRegression(loss=loss, random_state=0).fit(X, np.exp(y) if loss in POSITIVE else y)
    assert np.isfinite(model.coef_).all()
    assert np.abs(model.coef_).max() < 100


def test_constant_targets_are_predicted():
    X = np.random.default_rng(0).normal(size=(40, 3))
    for loss in ("huber", "absolute", "gamma"):
        model = OnlineRegression(loss=loss, random_state=0).fit(X, np.full(40, 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-6)
    assert OnlineRegression(loss="poisson", random_state=0).fit(X, np.zeros(40)).predict(X).max() < 1e-6


@pytest.mark.parametrize("loss", POSITIVE)
def test_targets_out_of_range_are_named(loss):
    X, y = np.ones((5, 2)), np.ones(5)
    model = OnlineRegression(loss=loss).partial_fit(X, y)
    y[3] = -2.0
    with pytest.raises(ValueError, match="got -2 at row 3"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="got -2 at row 0"):
        model.learn_one([1.0, 1.0], -2.0)
    assert model.n_seen_ == 5


def test_separable_classes_give_a_finite_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    for y in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])):
        model = OnlineClassifier(alpha=0.0, random_state=0).fit(X, y)
        assert np.isfinite(model.coef_).all()
        assert model.score(X, y) == 1


def test_columns_far_from_zero_are_no_trouble():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * [1e-9, 1e9, 1.0]
    y = X[:, 0] * 1e9 + rng.logistic(size=300) > 0
    away = X + np.array([1e-3, 1e15, 1e6])
    near, far = (OnlineClassifier(alpha=0.0, random_state=0).fit(rows, y) for rows in (X, away))
    costs = [log_loss(y, model.predict_proba(rows)) for model, rows in ((near, X), (far, away))]
    assert costs[1] == pytest.approx(costs[0], rel=1e-3)
