"""Losses of a linear predictor: what a row costs, and how that bends, one kind a file."""

from batch2online.losses.base import PredictorLoss
from batch2online.losses.deviances import Gamma, Poisson, Tweedie
from batch2online.losses.huber import Huber
from batch2online.losses.logistic import Logistic
from batch2online.losses.quantile import Quantile

__all__ = ["Gamma", "Huber", "Logistic", "Poisson", "PredictorLoss", "Quantile", "Tweedie", "named"]

_NAMED: dict[str, PredictorLoss] = {
    "logistic": Logistic(),
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
