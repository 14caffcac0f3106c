"""Losses of a linear predictor, with their first and second derivatives."""

from batch2online.methods.linear_losses.losses.base import PredictorLoss
from batch2online.methods.linear_losses.losses.deviances import Gamma, Poisson, Tweedie
from batch2online.methods.linear_losses.losses.logistic import Logistic
from batch2online.methods.linear_losses.losses.residual import HalfSquared, Huber, Quantile

__all__ = [
    "Gamma",
    "HalfSquared",
    "Huber",
    "Logistic",
    "Poisson",
    "PredictorLoss",
    "Quantile",
    "Tweedie",
    "named",
    "of_regression",
]

_NAMED: dict[str, PredictorLoss] = {
    "logistic": Logistic(),
    "squared": HalfSquared(),
    "huber": Huber(),
    "absolute": Quantile(0.5, factor=2.0),
    "quantile": Quantile(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "tweedie": Tweedie(),
}


def named(loss: str | PredictorLoss) -> PredictorLoss:
    """Return the loss of this name with its usual settings, or the loss itself.

    >>> named("poisson")
    Poisson()
    """
    if isinstance(loss, PredictorLoss):
        return loss
    if not isinstance(loss, str) or loss not in _NAMED:
        raise ValueError(f"loss must be one of {', '.join(map(repr, _NAMED))} or a PredictorLoss, got {loss!r}.")
    return _NAMED[loss]


def of_regression(loss: str, quantile: float, power: float, delta: float) -> PredictorLoss:
    """Return a loss of numbers by its name, with the setting that belongs to it.

    >>> of_regression("tweedie", 0.5, 2.0, 1.35)
    Gamma()
    """
    if loss == "quantile":
        return Quantile(float(quantile))
    if loss == "huber":
        return Huber(float(delta))
    if loss == "tweedie":
        special: dict[float, PredictorLoss] = {0.0: HalfSquared(), 1.0: Poisson(), 2.0: Gamma()}
        return special[power] if power in special else Tweedie(float(power))
    return named(loss)
