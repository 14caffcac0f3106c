"""Certificates: what the theorems guarantee for a run so far, next to what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from batch2online._types import FloatArray
from batch2online.theory.bounds import DependsOn, Guarantee, SensitivityBound, refresh_times

if TYPE_CHECKING:
    from batch2online.engine.stream import Stream
    from batch2online.estimator import OnlineEstimator
    from batch2online.refresh import Policy

_SO_MANY_ROWS = 2**62


@dataclass(frozen=True)
class Certificate:
    """Guaranteed and measured prequential loss and number of models of a run.

    Attributes
    ----------
    rows : int
        Rows seen.
    loss_bound : float
        The L at which losses are clipped in the guarantee; losses in [0, L] are not changed.
    loss_bound_is_given : bool
        Whether L was given; otherwise it is the largest loss on the coreset under the current model.
    factor : float
        Factor of the optimum: 1 + epsilon (1 for exact least squares), and where costs are
        measured on the coreset that of its error epsilon: (1 + epsilon) / (1 - epsilon) for costs
        that are compared, 1 / (1 - epsilon) for an optimum.
    optimum : float
        The hindsight optimum on the rows seen, or the best known one, of losses that are not clipped, to which models
        are fitted.
    additive : float
        Additive term of the guarantee, beyond ``factor * optimum``.
    measured : float
        The prequential loss, which is not clipped.
    models_promised, models_measured : float, int
        Maximum number of models by the schedule (in expectation for ``OnChange``), and the number that became current.
    gaps : tuple of str
        Why no theorem covers this run; then the guarantee is no more than L a row.
    is_clipped : bool
        Whether losses of the coreset under the current model exceed L: the guarantee is then for clipped losses, and
        the measured loss may exceed it.
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
    gaps: tuple[str, ...] = ()
    is_clipped: bool = False

    @property
    def promised(self) -> float:
        """The bound of the expected prequential loss, over random orders and the seed."""
        return self.factor * self.optimum + self.additive

    @property
    def is_vacuous(self) -> bool:
        """Whether the guarantee says no more than that every row costs L at most."""
        return bool(self.gaps) or not self.promised < self.loss_bound * self.rows

    @property
    def holds(self) -> bool:
        """Whether the measured loss, a single draw, is below the guaranteed bound of its mean."""
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
                *(
                    ["clipped           some losses are above L: promised is what losses clipped there sum to"]
                    * self.is_clipped
                ),
                *(f"not covered       {gap}" for gap in self.gaps),
            ]
        )


def certificate(model: OnlineEstimator, loss_bound: float | None = None) -> Certificate:
    """Return what the theorem of its refresh policy guarantees for an online estimator so far, and what was measured.

    The guarantee is for rows of weight one that came in random order, one stream without merging or forgetting, an
    algorithm that is (1 + epsilon)-approximate in expectation, losses in [0, L] or clipped there, and, where costs are
    measured on the coreset, costs there within 1 +- epsilon of those on all rows. With ``epsilon="auto"`` and least
    squares, it is for future rows whose second moments are at most twice those of the rows seen, in every direction
    (rho = 2 of Theorem 8); accuracies of low rank and clustering are conditions. What is known to be otherwise is named
    in ``gaps``.
    At ordinary sizes the guarantee is often vacuous, see ``is_vacuous``.

    Parameters
    ----------
    model : online estimator
        One that has seen rows.
    loss_bound : float, optional
        L. By default the problem's own ``loss_bound``, or else the largest loss on its coreset under the current model.

    Examples
    --------
    >>> import numpy as np
    >>> from batch2online import OnlineRegression
    >>> X = np.random.default_rng(0).normal(size=(2_000, 2))
    >>> promise = certificate(OnlineRegression(random_state=0).partial_fit(X, X.sum(axis=1)), loss_bound=1.0)
    >>> promise.is_vacuous, promise.holds
    (True, True)
    """
    engine = model.stream.view()
    given = engine.problem.loss_bound if loss_bound is None else loss_bound
    largest = _largest_loss(engine)
    bound = float(largest if given is None else given)
    regret, gaps = model.regret_, tuple(_gaps(engine))
    guarantee = _guarantee(engine, is_covered=not gaps)
    return Certificate(
        rows=engine.state.n_learned,
        loss_bound=bound,
        loss_bound_is_given=given is not None,
        factor=guarantee.factor * _distortion(engine),
        optimum=regret.optimum,
        additive=bound * guarantee.additive
        + max(0.0, regret.optimum / max(engine.state.n_learned, 1) - bound) * guarantee.kept,
        measured=regret.loss,
        models_promised=guarantee.models,
        models_measured=engine.current.n_changes + bool(engine.has_model),
        gaps=gaps,
        is_clipped=bool(largest > bound),
    )


def _gaps(engine: Stream) -> list[str]:
    """Return why no theorem covers the run, as far as is known."""
    data, is_exact = engine.snapshot(), engine.problem.depends_on is DependsOn.ALL_ROWS
    policy = engine.engine.policy
    found = {
        "a model of statistics of all rows reacts to every row, and its policy may not": policy.needs_coupling
        and (is_exact or engine.problem.stability(data) is not None),
        "the number of changes is not bounded where the coreset grows": policy.on_coreset_change
        and data.sketch.settings.is_adaptive,
        "no stability is proved for models of statistics of all rows": is_exact
        and engine.problem.stability(data) is None,
        "no average sensitivity is proved for this coreset": not is_exact
        and engine.problem.sensitivity(data)(_SO_MANY_ROWS) >= 1,
        "the theorem of this policy needs exact costs": policy.needs_exact_costs and not engine.problem.costs_are_exact,
        "the theorem of this policy needs fits to all rows": policy.needs_exact_costs and not is_exact,
        "directions were dropped along which targets vary": data.sketch.settings.is_adaptive
        and bool(data.sketch.settings.shape[1])
        and engine.problem.stability(data) is None,
        "when to solve depends on losses that were measured": policy.measures_benefit,
        "older rows count less": engine.engine.forgetting is not None,
        "rows have weights other than one": not data.totals.all_weigh_one,
        "rows were merged or forgotten": not {"merged", "forgotten"}.isdisjoint(dict(engine.current.change_counts)),
    }
    return [gap for gap, is_there in found.items() if is_there]


def _guarantee(engine: Stream, is_covered: bool) -> Guarantee:
    """Return the guarantee of the policy for the rows so far, by what is proved of its coreset and its solver."""
    data, policy = engine.snapshot(), engine.engine.policy
    stability, settings = engine.problem.stability(data), data.sketch.settings
    known = engine.problem.sensitivity(data) if stability is None else stability
    if stability is None and data.sketch.depends_on_order:
        known = _exchanged(known)
    epsilon = settings.epsilon if stability is None or policy.compares_costs else 0.0
    if settings.is_adaptive:
        mean = _mean_accuracy(engine.problem.accuracy(data), policy, engine.state.n_learned)
        epsilon = max(mean, settings.epsilon) if policy.compares_costs else mean
    return policy.guarantee(
        known if is_covered else _unknown,
        engine.state.n_learned,
        epsilon,
        warm_starts=engine.problem.depends_on is DependsOn.CURRENT_MODEL,
        degrees_of_freedom=engine.problem.degrees_of_freedom(engine.current.model, data),
    )


def _exchanged(known: SensitivityBound) -> SensitivityBound:
    """Return twice the sensitivity of one row less: what Theorem 7 has where models depend on the order of rows."""
    return lambda n: min(1.0, 2 * known(max(n - 1, 1)))


def _mean_accuracy(accuracy: SensitivityBound, policy: Policy, n: int) -> float:
    """Return the mean over rows of the accuracy of the model that they are predicted by."""
    times = [*refresh_times(n, policy.decided_start(), policy.growth, policy.rows), n]
    return math.fsum((stop - at) * accuracy(at) for at, stop in pairwise(times)) / max(n, 1)


def _distortion(engine: Stream) -> float:
    """Return the factor by which costs on the coreset can differ from those on all rows."""
    epsilon = engine.sketch.settings.epsilon
    coreset = engine.coreset()
    holds_all = len(coreset) == engine.sketch.totals.n_rows and bool(np.all(coreset.weights == 1))
    if engine.problem.costs_are_exact or holds_all:
        return 1.0
    compared = (1 + epsilon) / (1 - epsilon) if engine.engine.policy.compares_costs else 1.0
    return compared if engine.snapshot().history is not None else compared / (1 - epsilon)


def _unknown(n: int) -> float:
    """Return the trivial bound of an average sensitivity."""
    return 1.0


def _largest_loss(engine: Stream) -> float:
    coreset = engine.coreset()
    if not len(coreset):
        return 0.0
    if engine.current.model is None:
        return math.inf
    targets = np.empty((len(coreset), 0)) if coreset.targets is None else coreset.targets.reshape(len(coreset), -1)
    losses: FloatArray = engine.problem.losses(engine.current.model, coreset.points, targets)[0]
    return max(0.0, float(losses.max())) if not math.isnan(losses.max()) else math.inf
