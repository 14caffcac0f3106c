"""Algorithm 1: any batch algorithm online, by running it at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray


class OnlineRun(NamedTuple):
    """What an online algorithm did: the model in force at each step, and the loss of that step's row under it."""

    models: list[Any]
    losses: FloatArray


def batch_to_online(
    rng: np.random.Generator,
    algorithm: Callable[[np.random.Generator, Any], Any],
    loss: Callable[[Any, Any], float],
    X: Any,
    *,
    initial: Any = None,
    steps: Iterable[int] | None = None,
    errata: bool = True,
) -> OnlineRun:
    """Algorithm 1: theta_t = A(X_{t-1}), then x_t comes and costs l(theta_t, x_t).

    Parameters
    ----------
    rng : numpy.random.Generator
        Where all draws come from.
    algorithm : callable ``(rng, rows) -> theta``
        The batch algorithm.
    loss : callable ``(theta, row) -> float``
        What a row costs under a model.
    X : sequence
        Rows in the order in which they come.
    initial : object
        The model of step 1, which has no data (errata only; as printed, the algorithm is run on no rows).
    steps : iterable of int, or None
        Which of the steps 1 to n to take; None for all.
    errata : bool, default True
        Repair the slips named above.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mean = lambda rng, rows: rows.mean()
    >>> models, losses = batch_to_online(rng, mean, lambda m, x: (x - m) ** 2, np.array([1.0, 3.0, 5.0]), initial=0.0)
    >>> losses.tolist()
    [1.0, 4.0, 9.0]
    """
    models, losses = [], []
    for t in range(1, len(X) + 1) if steps is None else steps:
        theta = initial if errata and t == 1 else algorithm(rng, X[: t - 1])
        models.append(theta)
        losses.append(float(loss(theta, X[t - 1])))
    return OnlineRun(models, np.array(losses))
