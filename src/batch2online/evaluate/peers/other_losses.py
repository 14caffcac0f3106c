"""Peers for losses of numbers that are not squares: refits, stochastic gradients, Passive-Aggressive, River."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn.linear_model import GammaRegressor, HuberRegressor, PoissonRegressor, SGDRegressor, TweedieRegressor

from batch2online.evaluate.peers.libraries import passive_aggressive_regressor
from batch2online.evaluate.peers.refits import FollowTheLeader, Reservoir
from batch2online.methods.least_squares.estimator import OnlineRegression

_TURNS = 1_000
_EVERYTHING = 2**40


def of_loss(loss: str, size: int, quantile: float = 0.5, power: float = 1.5, delta: float = 1.35) -> dict[str, Any]:
    """Names and unfitted learners for a loss; a uniform sample may hold ``size`` rows.

    >>> list(of_loss("gamma", 1000))
    ['refit on all rows at doublings', 'uniform sample of equal size']
    """
    batch = _batch(loss, quantile, power, delta)
    found = {
        "refit on all rows at doublings": FollowTheLeader(batch, growth=2.0),
        "uniform sample of equal size": Reservoir(batch, size=size),
    }
    gradients = _gradients(loss, quantile, delta)
    if gradients is not None:
        found["scikit-learn SGDRegressor"] = gradients
        found["scikit-learn Passive-Aggressive"] = passive_aggressive_regressor()
    river = _river(loss, quantile, delta) if find_spec("river") else None
    return found if river is None else {**found, "River LinearRegression": river}


def _batch(loss: Any, quantile: float, power: float, delta: float) -> Any:
    """Return scikit-learn's estimator; for quantiles, whose solver takes hours, ours with all rows kept."""
    by_name = {
        "huber": lambda: HuberRegressor(epsilon=delta, alpha=0.0, max_iter=_TURNS),
        "poisson": lambda: PoissonRegressor(alpha=0.0, max_iter=_TURNS),
        "gamma": lambda: GammaRegressor(alpha=0.0, max_iter=_TURNS),
        "tweedie": lambda: TweedieRegressor(power=power, alpha=0.0, link="log", max_iter=_TURNS),
    }
    if loss in by_name:
        return by_name[loss]()
    return OnlineRegression(loss=loss, quantile=quantile, coreset_size=_EVERYTHING, random_state=0)


def _gradients(loss: str, quantile: float, delta: float) -> SGDRegressor | None:
    """Return scikit-learn's stochastic gradients of the same loss, None where it has none."""
    if loss == "huber":
        return SGDRegressor(loss="huber", epsilon=delta)
    is_median = loss == "absolute" or (loss == "quantile" and quantile == 0.5)
    return SGDRegressor(loss="epsilon_insensitive", epsilon=0.0) if is_median else None


def _river(loss: str, quantile: float, delta: float) -> Any:
    """Return River's linear model of the same loss, None where it has none."""
    losses, linear = import_module("river.optim.losses"), import_module("river.linear_model")
    by_name = {
        "huber": lambda: losses.Huber(delta),
        "absolute": losses.Absolute,
        "quantile": lambda: losses.Quantile(quantile),
        "poisson": losses.Poisson,
    }
    return linear.LinearRegression(loss=by_name[loss]()) if loss in by_name else None
