"""Random draws that follow one distribution after another and change as rarely as these allow."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

from batch2online._types import FloatArray, IntArray


class Law(Protocol):
    """The distributions of several independent draws."""

    def density(self, values: Any) -> FloatArray:
        """Return the density of each draw at its value."""
        ...

    def excess(self, before: Self, places: IntArray, rng: np.random.Generator) -> Any:
        """Draw, for these places, from what this distribution has more than another."""
        ...


def transported(values: Any, before: Law, after: Law, rng: np.random.Generator) -> Any:
    """Return draws from ``after``, given draws from ``before``, unchanged as often as possible.

    Each is kept with probability min(1, after / before), and otherwise drawn from what ``after`` has more than
    ``before``. So it changes with the total variation distance of the two: a maximal coupling.
    """
    values = np.array(values)
    places = np.flatnonzero(rng.random(len(values)) * before.density(values) > after.density(values))
    if len(places):
        values[places] = after.excess(before, places, rng)
    return values


class CategoricalLaw:
    """Items 0 to n - 1 with probabilities p, the same for all draws."""

    def __init__(self, p: Any) -> None:
        self.p = np.asarray(p, dtype=np.float64)

    def density(self, values: Any) -> FloatArray:
        items = np.asarray(values)
        return np.where(items < len(self.p), self.p[np.minimum(items, len(self.p) - 1)], 0.0)

    def excess(self, before: Self, places: IntArray, rng: np.random.Generator) -> Any:
        more = np.maximum(self.p - before.density(np.arange(len(self.p))), 0.0)
        return rng.choice(len(more), size=len(places), p=more / more.sum())


class UniformLaw:
    """Uniform between two bounds, for each draw its own."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high

    def density(self, values: Any) -> FloatArray:
        return np.asarray(((self.low <= values) & (values <= self.high)) * self.height)

    @property
    def height(self) -> FloatArray:
        return np.asarray(1 / np.maximum(self.high - self.low, np.finfo(float).tiny))

    def excess(self, before: Self, places: IntArray, rng: np.random.Generator) -> Any:
        """Three pieces of constant density: below the interval of ``before``, inside and above."""
        ends = np.clip([before.low, before.high], self.low, self.high)[:, places]
        cuts = np.stack([self.low[places], *ends, self.high[places]])
        height = self.height[places]
        inside = np.maximum(height - before.height[places], 0.0)
        mass = np.cumsum(np.diff(cuts, axis=0) * [height, inside, height], axis=0)
        drawn = rng.random(len(places)) * mass[-1]
        piece, place = (mass < drawn).sum(axis=0), np.arange(len(places))
        share = rng.random(len(places))
        return cuts[piece, place] + share * (cuts[piece + 1, place] - cuts[piece, place])


class Transport:
    """A random generator whose runs are coupled: each draw is transported from the same draw of the run before.

    A run is the calls of ``choice`` and ``uniform`` between two calls of :meth:`again`. Within a run every draw has
    its distribution, given the draws before it. From run to run it changes as rarely as the two distributions allow,
    so all draws of two runs are the same but with the sum of their total variation distances (Yoshida & Ito, NeurIPS
    2022, Lemmas 4.2 and 4.5). Items of ``choice`` keep their numbers, and new ones are appended. Where the calls of two
    runs differ, draws are new.

    Examples
    --------
    >>> rng = Transport(np.random.default_rng(0))
    >>> first = rng.choice(1000, size=5, p=np.full(1000, 1e-3))
    >>> rng.again()
    >>> bool((first == rng.choice(1001, size=5, p=np.full(1001, 1 / 1001))).all())
    True
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._before: list[tuple[Any, Law]] = []
        self._calls: list[tuple[Any, Law]] = []

    def again(self) -> None:
        """Begin a run that is coupled to the last one."""
        self._before, self._calls = self._calls, []

    def choice(self, n: int, size: int | None = None, p: Any = None) -> Any:
        """Draw from the items 0 to n - 1 with replacement; one integer without ``size``."""
        law = CategoricalLaw(np.full(n, 1 / n) if p is None else p)
        drawn = self._next(law, 1 if size is None else size)
        if drawn is None:
            drawn = self._keep(law, self._rng.choice(n, size=1 if size is None else size, p=law.p))
        return int(drawn[0]) if size is None else drawn

    def uniform(self, low: Any, high: Any, size: int | None = None) -> Any:
        """Draw between two bounds, which are numbers or arrays; one number without ``size`` if they are numbers."""
        m = np.size(low) if size is None else size
        law = UniformLaw(*(np.broadcast_to(np.asarray(bound, dtype=np.float64), m) for bound in (low, high)))
        drawn = self._next(law, m)
        if drawn is None:
            drawn = self._keep(law, self._rng.uniform(law.low, law.high))
        return float(drawn[0]) if size is None and np.ndim(low) == 0 else drawn

    def _next(self, law: Law, m: int) -> Any:
        """Transport the draws of the same call of the run before; None if there is no such call."""
        number = len(self._calls)
        if number >= len(self._before):
            return None
        values, before = self._before[number]
        if type(before) is not type(law) or len(values) != m:
            return None
        return self._keep(law, transported(values, before, law, self._rng))

    def _keep(self, law: Law, values: Any) -> Any:
        self._calls.append((values, law))
        return values.copy()
