"""Orders in which a stream can come, and a test whether rows come in random order.

The guarantees of this package are for random order alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.drift.order_monitor import OrderMonitor, OrderVerdict
from batch2online.numerics.threads import one_thread
from batch2online.rows import Rows, block_rows, ones
from batch2online.sampling import seed_from
from batch2online.validation import check_rows, check_targets


class Order(ABC):
    """Puts rows in order."""

    @abstractmethod
    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return the row numbers in order of arrival; ``hardness`` is each row's loss under the best model."""


@dataclass(frozen=True)
class Given(Order):
    """As the rows stand in the table: the same for each seed."""

    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        return np.arange(len(X))


@dataclass(frozen=True)
class Random(Order):
    """Uniformly random: the model in which regret is bounded."""

    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        return rng.permutation(len(X))


@dataclass(frozen=True)
class Sorted(Order):
    """By one column, ties at random."""

    column: int = 0

    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        return _by(X[:, self.column], rng)


@dataclass(frozen=True)
class Drifting(Order):
    """Slow drift along the first principal direction, plus noise of this many of its standard deviations."""

    noise: float = 1.0

    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        along = _first_direction(X)
        return _by(along + self.noise * along.std() * rng.normal(size=len(X)), rng)


@dataclass(frozen=True)
class Adversarial(Order):
    """The hardest rows last: by their loss under the best model of all rows."""

    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        return _by(hardness, rng)


@dataclass(frozen=True)
class Blocks(Order):
    """The rows along the first principal direction cut into blocks; blocks, and rows in a block, at random."""

    count: int = 10

    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        blocks = np.array_split(_by(_first_direction(X), rng), self.count)
        return np.concatenate([rng.permutation(blocks[b]) for b in rng.permutation(self.count)])


@dataclass(frozen=True, eq=False)
class Fixed(Order):
    """The row numbers themselves."""

    rows: IntArray

    def permutation(self, X: FloatArray, hardness: FloatArray, rng: np.random.Generator) -> IntArray:
        if not np.array_equal(np.sort(self.rows), np.arange(len(X))):
            raise ValueError(f"order must hold each of the row numbers 0 to {len(X) - 1} once.")
        return self.rows


NAMES: dict[str, Order] = {
    "given": Given(),
    "random": Random(),
    "sorted": Sorted(),
    "drifting": Drifting(),
    "adversarial": Adversarial(),
    "blocks": Blocks(),
}


def order_of(order: Any) -> Order:
    """Return an order from an object, a name, or an array of row numbers."""
    if isinstance(order, Order):
        return order
    if isinstance(order, str):
        if order not in NAMES:
            raise ValueError(f"Unknown order {order!r}: choose one of {', '.join(NAMES)}, or an Order.")
        return NAMES[order]
    return Fixed(np.asarray(order, dtype=np.int64))


def _by(values: FloatArray, rng: np.random.Generator) -> IntArray:
    return np.lexsort((rng.random(len(values)), values))


def _first_direction(X: FloatArray) -> FloatArray:
    centred = X - X.mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return np.asarray(centred @ (direction * np.sign(direction[np.abs(direction).argmax()])))


def order_test(X: Any, y: Any = None, *, random_state: Any = 0) -> OrderVerdict:
    r"""Test whether rows arrive in random order, with a false positive rate of at most 1/1,000.

    The rows are scored under a model of the first 600 of them (and from row 4,800 on, of later ones), and each score is
    ranked among those before it. In random order, ranks are independent and uniform. Bets against that multiply an
    e-value; the chance that it ever reaches :math:`10^e` is at most :math:`10^{-e}`, however many rows come and however
    often one looks.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows, in the order in which they come.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Targets, or labels of any kind.
    random_state : None, int or generator
        Breaks ties.

    Returns
    -------
    OrderVerdict
        ``evidence`` (logarithm to base 10 of the e-value), ``alarm`` (row or None), ``score``, ``sentence()``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> order_test(X).sentence()
    'order looks random'
    >>> X[2500:] += 0.5
    >>> verdict = order_test(X)
    >>> 2500 < verdict.alarm < 2800, 'coordinate' in verdict.score
    (True, True)
    """
    points, targets = check_rows(X), check_targets(_numbers(y), len(X))
    seed, monitor = seed_from(random_state), OrderMonitor.new(points.shape[1], targets.shape[1])
    step = block_rows(points.shape[1])
    with one_thread():
        for start in range(0, len(points), step):
            part = slice(start, min(start + step, len(points)))
            ids = np.arange(part.start, part.stop)
            monitor = monitor.observe(Rows(points[part], targets[part], ones(len(ids)), ids), seed).with_bets()
    return monitor.verdict()


def _numbers(y: Any) -> Any:
    """Return targets as numbers: labels by their place among all labels, which the order of rows does not change."""
    if y is None:
        return None
    values = np.asarray(y)
    return values if values.dtype.kind in "biuf" else np.unique(values, return_inverse=True)[1].reshape(values.shape)
