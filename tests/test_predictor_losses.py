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
from batch2online.losses import Gamma, HalfSquared, Huber, Logistic, Poisson, Quantile, Tweedie, named

SCALAR = (Gamma(), HalfSquared(), Huber(), Logistic(), Poisson(), Quantile(0.3), Tweedie(1.5), Tweedie(3.0))
N, WIDTH = 400, 4


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, WIDTH)) * [1.0, 20.0, 0.1, 1.0] + [0.0, 50.0, 3.0, 0.0]
    return X, 0.5 * X[:, 0] + 0.02 * X[:, 1] - 1.0


def differences(function, eta, step=1e-6):
    """Central differences of a function of predictors (n, K), for each of them."""
    columns = []
    for k in range(eta.shape[1]):
        shift = np.zeros(eta.shape[1])
        shift[k] = step
        columns.append((function(eta + shift) - function(eta - shift)) / (2 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_derivatives(loss):
    rng = np.random.default_rng(1)
    eta = rng.normal(size=(50, 1))
    y = rng.integers(2, size=50).astype(float) if loss.has_classes else rng.gamma(2.0, size=50)
    np.testing.assert_allclose(differences(lambda e: loss.value(e, y, 0.7), eta), loss.slope(eta, y, 0.7), atol=1e-7)
    np.testing.assert_allclose(
        differences(lambda e: loss.slope(e, y, 0.7)[:, 0], eta), loss.bend(eta, y, 0.7), atol=1e-6
    )


def test_derivatives_of_several_classes():
    rng, loss = np.random.default_rng(2), Logistic()
    eta, y, weights, design = (
        rng.normal(size=(30, 4)),
        rng.integers(4, size=30).astype(float),
        rng.random(30),
        rng.normal(size=(30, 3)),
    )
    np.testing.assert_allclose(differences(lambda e: loss.value(e, y), eta), loss.slope(eta, y), atol=1e-8)
    bends = np.stack([differences(lambda e, k=k: loss.slope(e, y)[:, k], eta) for k in range(4)], axis=1)
    np.testing.assert_allclose(np.einsum("nkk->nk", bends), loss.bend(eta, y), atol=1e-8)
    direction = rng.normal(size=(30, 4))
    np.testing.assert_allclose(np.einsum("nkl,nl->nk", bends, direction), loss.bent(eta, y, 1.0, direction), atol=1e-8)
    whole = np.einsum("n,nkl,np,nq->kplq", weights, bends, design, design).reshape(12, 12)
    np.testing.assert_allclose(loss.hessian(design, weights, eta, y, 1.0), whole, atol=1e-7)


def test_a_name_that_is_no_loss_is_refused():
    with pytest.raises(ValueError, match=r"'logistic', .*got 'hinge'"):
        named("hinge")
    with pytest.raises(ValueError, match=r'loss must be "squared" or "huber".*got'):
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
    assert ours._engine.model.width == pytest.approx(theirs.scale_, rel=1e-4)


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
