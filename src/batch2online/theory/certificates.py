"""What the theorems promise for a run so far, next to what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.theory import bounds


@dataclass(frozen=True)
class Certificate:
    """A promise and a measurement, both of the prequential loss and of the number of models.

    Attributes
    ----------
    rows : int
        Rows seen.
    loss_bound : float
        The L between 0 and which every loss must lie.
    loss_bound_is_given : bool
        Whether L was given, or is only the largest loss found on the coreset under the current model.
    factor : float
        What multiplies the optimum: 1 + epsilon, and 1 + tolerance for ``Lazy``.
    optimum : float
        The hindsight optimum on the rows seen, or the best that is known.
    additive : float
        What the theorem allows beyond ``factor * optimum``.
    measured : float
        The prequential loss.
    models_promised, models_measured : float, int
        The most models that the schedule can make (in expectation for ``OnChange``), and those that came into force.
    """

    rows: int
    loss_bound: float
    loss_bound_is_given: bool
    factor: float
    optimum: float
    additive: float
    measured: float
    models_promised: float
    models_measured: int

    @property
    def promised(self) -> float:
        """The bound of the expected prequential loss, over random orders and the seed."""
        return self.factor * self.optimum + self.additive

    @property
    def is_vacuous(self) -> bool:
        """Whether the promise says no more than that every row costs L at most."""
        return not self.promised < self.loss_bound * self.rows

    @property
    def holds(self) -> bool:
        """Whether the measured loss, a single draw, is below the promise, a bound of its mean."""
        return self.measured <= self.promised

    def __str__(self) -> str:
        origin = "given" if self.loss_bound_is_given else "largest loss on the coreset, not a proven bound"
        verdict = "vacuous: no more than L a row" if self.is_vacuous else "holds" if self.holds else "exceeded"
        sum_of_two = f"{self.factor:.4g} * {self.optimum:g} + {self.additive:g}"
        return "\n".join(
            [
                f"rows              {self.rows:,}",
                f"loss bound L      {self.loss_bound:g} ({origin})",
                f"loss   promised   {self.promised:g} = {sum_of_two} ({verdict})",
                f"       measured   {self.measured:g}",
                f"models promised   {self.models_promised:g}",
                f"       measured   {self.models_measured}",
            ]
        )


def certificate(model: Any, loss_bound: float | None = None) -> Certificate:
    """What the theorem of its refresh policy promises for an online estimator so far, next to what it measured.

    The promise is for rows that came in random order, one stream without merging or forgetting, an algorithm that is
    (1 + epsilon)-approximate in expectation, and losses in [0, L]. At ordinary sizes it is often vacuous; then
    ``is_vacuous`` says so.

    Parameters
    ----------
    model : online estimator
        One that has seen rows.
    loss_bound : float, optional
        L. By default the model's own ``loss_bound``, or else the largest loss on its coreset under the current model.

    Examples
    --------
    >>> import numpy as np
    >>> from batch2online import OnlineRegression
    >>> X = np.random.default_rng(0).normal(size=(2_000, 2))
    >>> promise = certificate(OnlineRegression(random_state=0).partial_fit(X, X.sum(axis=1)), loss_bound=1.0)
    >>> promise.is_vacuous, promise.holds
    (True, True)
    """
    engine = model._check_fitted().caught_up()
    given = getattr(model, "loss_bound", None) if loss_bound is None else loss_bound
    bound = float(_largest_loss(engine) if given is None else given)
    regret, n = model.regret_, engine.n_learned
    factor, additive, models = _promise(engine, n)
    return Certificate(
        rows=n,
        loss_bound=bound,
        loss_bound_is_given=given is not None,
        factor=factor,
        optimum=regret.optimum,
        additive=bound * additive,
        measured=regret.loss,
        models_promised=models,
        models_measured=len(engine.changes) + bool(engine.is_solved),
    )


def _promise(engine: Any, n: int) -> tuple[float, float, float]:
    """Factor of the optimum, additive term for L = 1, and models, as the engine's policy has it."""
    policy, factor = engine.policy, 1 + engine.construction.epsilon
    start, growth = int(policy.start), float(policy.growth)
    sensitivity, tolerance = sensitivity_of(engine), getattr(policy, "tolerance", 0.0)
    if tolerance or getattr(engine.problem, "start_from_current", False):  # models remember the order of rows
        additive = bounds.lazy_regret(sensitivity, n, start, growth, tolerance)
    else:
        additive = bounds.geometric_regret(sensitivity, n, start, growth)
    if policy.only_on_change:
        return factor, additive, 1 + bounds.on_change_inconsistency(sensitivity, n, start)
    return factor * (1 + tolerance), additive, bounds.geometric_models(n, start, growth)


def sensitivity_of(engine: Any) -> bounds.Sensitivity:
    """The bound of the average sensitivity of a learner's models as a function of the rows; 1 where none is known."""
    construction = engine.construction
    known = _KNOWN.get(type(construction).__name__)
    if known is None or getattr(engine.problem, "exact", False):
        return lambda n: 1.0
    return known(construction)


def _leverage(construction: Any) -> bounds.Sensitivity:
    total = construction.expected_size / construction.constant
    return lambda n: bounds.leverage_sensitivity(n, construction.constant, total, construction.epsilon)


def _ridge_leverage(construction: Any) -> bounds.Sensitivity:
    rank = construction.rank + construction.intercept
    return lambda n: bounds.ridge_leverage_sensitivity(n, construction.constant, rank, construction.epsilon)


def _clustering(construction: Any) -> bounds.Sensitivity:
    if construction.stages != 1 or not construction.keep_history or construction.sampler is None:
        return lambda n: 1.0
    constant = construction.sampler.constant
    return lambda n: bounds.clustering_sensitivity(n, constant, construction.k, construction.epsilon)


_KNOWN: dict[str, Callable[[Any], bounds.Sensitivity]] = {
    "Clustering": _clustering,
    "Leverage": _leverage,
    "RidgeLeverage": _ridge_leverage,
    "Uniform": _leverage,
}
"""Constructions by name (this file is below them): those whose average sensitivity is bounded in ``docs/theory.md``."""


def _largest_loss(engine: Any) -> float:
    coreset = engine.construction.coreset()
    if not len(coreset):
        return 0.0
    targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets.reshape(len(coreset), -1)
    losses: FloatArray = engine.problem.losses(engine.model, coreset.points, targets)[0]
    return max(0.0, float(losses.max())) if not math.isnan(losses.max()) else math.inf
