"""Policies that look at growing row counts, and keep the present model while it is good enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from batch2online.refresh.policy import Policy, check_growth
from batch2online.sampling import TOLERANCE, uniforms
from batch2online.schema import storable
from batch2online.theory import bounds
from batch2online.theory.bounds import Promise, SensitivityBound

_RISE = 0.01
"""Rows that cost so much more than those before are reason enough for a look."""

_LONGEST = 8.0
"""When rows have multiplied by this, a look is due whatever they cost."""


@storable
@dataclass(frozen=True)
class Lazy(Policy):
    """Look at the times of :class:`Geometric`, but keep the present model while it is good enough.

    Good enough is a cost of at most f times the fresh model's, with f drawn for each look
    log-uniformly between ``1 + tolerance / 2`` and ``1 + tolerance``: a fixed threshold would let single
    points decide, a random one keeps the average sensitivity low. What is promised is less than for
    :class:`Geometric`: the factor is ``(1 + tolerance)(1 + epsilon)``, and since a model that is kept remembers the
    order of rows, sensitivities are doubled, add up over all looks so far, and every look adds ``8 / w`` of its own,
    ``w = ln((1 + tolerance) / (1 + tolerance / 2))``: Theorem 4 of ``docs/theory.md``, ``theory.lazy_regret``. Where
    costs are measured on the coreset, their error is a further factor.

    >>> 1.01 <= Lazy(tolerance=0.02).allowance(seed=0, at=1000) <= 1.02
    True
    """

    needs_coupling: ClassVar[bool] = True
    growth: float = 1.1
    tolerance: float = 0.05
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self.growth)
        if not 0 < self.tolerance < math.inf:
            raise ValueError(f"tolerance must be a finite number above 0, got {self.tolerance!r}.")

    def allowance(self, seed: int, at: int, noise: float = 0.0) -> float:
        u = _uniform(seed, at)
        return float((1 + self.tolerance / 2) ** (1 - u) * (1 + self.tolerance) ** u)

    def promise(
        self,
        sensitivity: SensitivityBound,
        n: int,
        epsilon: float,
        *,
        remembers: bool = False,
        degrees: float = 1.0,
    ) -> Promise:
        """Return the promise of Theorem 4: a model that is kept remembers the order of rows, whatever the solver."""
        start = self.decided_start()
        additive = bounds.lazy_regret(sensitivity, n, start, self.growth, self.tolerance)
        models = bounds.geometric_models(n, start, self.growth)
        return Promise((1 + epsilon) * (1 + self.tolerance), additive, models)


@storable
@dataclass(frozen=True)
class Adaptive(Policy):
    r"""Look often, and keep the present model while chance alone may be why another costs less.

    After n rows a model with p degrees of freedom is kept while it costs at most :math:`1 + a_n` times the fresh one,
    :math:`a_n = \max(\mathrm{floor}, \kappa p / n)` times a factor drawn for each look log-uniformly between 1/2 and 1.
    A model solved on s rows costs about :math:`1 + p (1/s - 1/n)` times the fresh one if the rows are alike, so calm
    streams see a change about whenever the rows have multiplied by 1 + kappa, or by less: other rows than before are
    answered at the next look. What is allowed sums to :math:`O(\kappa p \ln n)` times the mean loss of a row, where
    :class:`Lazy` allows a share of the whole loss.

    A problem says what p is: d + 1 for least squares, the rank, the number of clusters. n is the number of rows of
    equal weight that say as much as those seen. Where a look takes a solve, one that leaves the model in place doubles
    the step to the next look, which comes when the rows have doubled at the latest.

    Parameters
    ----------
    kappa : float, default 2.0
        How many times the noise of a solution is allowed.
    growth : float, default 1.1
        The next look comes when the rows have grown by this factor.
    floor : float, default 0.0
        Changes that gain less than this share do not matter, however many rows have come. Where it is given, looks are
        left out: one that would gain less by chance, and every second one if it would gain less than is allowed; unless
        the rows since the last solve have cost more than those before, by a hundredth and by more than chance explains,
        or are seven times as many.
    start : int or None
        Rows at the first look; None leaves it to the problem.
    uneven : float, default 1.0
        Rows that pull at a model more than others make a fresh one noisier than p tells. Before a change it is measured
        on the coreset how many times noisier, and p is multiplied by that, or by this number if it is less. At 1
        nothing is measured. Regression and low rank measure it, by leverages and losses.

    Examples
    --------
    >>> 1.01 <= Adaptive(kappa=2.0).allowance(seed=0, at=1000, noise=10 / 1000) <= 1.02
    True
    >>> policy = Adaptive(growth=1.25)
    >>> [policy.following(1000, idle) for idle in (0, 1, 2, 9)]
    [1250, 1500, 2000, 2000]
    """

    needs_exact_costs: ClassVar[bool] = True
    kappa: float = 2.0
    growth: float = 1.1
    floor: float = 0.0
    start: int | None = None
    uneven: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self.growth)
        if not 1 <= self.uneven < math.inf:
            raise ValueError(f"uneven must be a finite number that is at least 1, got {self.uneven!r}.")
        if not 0 < self.kappa < math.inf:
            raise ValueError(f"kappa must be a finite number above 0, got {self.kappa!r}.")
        if not 0 <= self.floor < math.inf:
            raise ValueError(f"floor must be a finite number that is not negative, got {self.floor!r}.")

    def following(self, at: int, idle: int = 0) -> int:
        step = super().following(at) - at
        return at + min(step << min(idle, 62), max(step, at))

    def may_wait(self, at: int, gain: float, noise: float, rise: float, grown: float) -> bool:
        look = round(math.log(at / self.decided_start()) / math.log(self.growth))
        enough = max(self.floor, self.kappa * noise) if look % 2 else self.floor
        return gain < enough and rise < _RISE and grown < _LONGEST

    def allowance(self, seed: int, at: int, noise: float = 0.0) -> float:
        return float(1 + max(self.floor, self.kappa * noise) * 2 ** -_uniform(seed, at))

    def promise(
        self,
        sensitivity: SensitivityBound,
        n: int,
        epsilon: float,
        *,
        remembers: bool = False,
        degrees: float = 1.0,
    ) -> Promise:
        """Return what Theorem 5 promises with ``eta = epsilon``, on its conditions."""
        start, slack = self.decided_start(), 1 + epsilon
        plain = super().promise(sensitivity, n, epsilon, remembers=remembers)
        kept = bounds.allowed_regret(n, start, self.growth, self.kappa * self.uneven * degrees, epsilon)
        factor = slack * (slack + bounds.kept_model(epsilon) * self.floor)
        return Promise(factor, slack * (plain.additive + kept), plain.models, slack * kept)


def _uniform(seed: int, at: int) -> float:
    """Return the number in (0, 1) that belongs to the look at ``at`` rows."""
    return float(uniforms(seed, TOLERANCE, range(at, at + 1))[0])
