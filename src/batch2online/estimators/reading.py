"""What can be read of an estimator, besides its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from batch2online.drift.order_verdict import OrderVerdict
from batch2online.engine.online import Online
from batch2online.results import ChangeEvent, Costs, Regret
from batch2online.sketches.base import Coreset


class Reading:
    """Rows seen, changes, coreset, regret and order, all as of the rows seen so far."""

    _check_fitted: Callable[[], Online]

    @property
    def n_seen_(self) -> int:
        """Rows seen (and not forgotten)."""
        return self._check_fitted().n_seen

    @property
    def n_samples_seen_(self) -> int:
        """The same, by the name that scikit-learn has for it."""
        return self.n_seen_

    @property
    def has_model_(self) -> bool:
        """Whether a first model was solved; until then the mean of the rows, or of the targets, stands in for it."""
        return self._check_fitted().is_solved

    @property
    def n_changes_(self) -> int:
        """How often the model has changed; the first model counts as none."""
        return self._check_fitted().n_changes

    @property
    def changes_(self) -> list[ChangeEvent]:
        """The newest changes of the model, at most 1,000, each with its reason and what it has cost.

        ``n_changes_`` counts all of them; ``Durable(log_changes=True)`` keeps them all in the file.
        """
        engine = self._check_fitted()
        seconds = {solve.at: solve.seconds for solve in engine.costs.models}
        return [replace(event, seconds=seconds.get(event.at)) for event in engine.changes]

    @property
    def costs_(self) -> Costs:
        """What solves have cost: how many, on how many rows, in how many seconds; and what refits would have cost."""
        return self._check_fitted().costs

    @property
    def coreset_(self) -> Coreset:
        """The coreset of the rows seen so far."""
        coreset = self._check_fitted().coreset()
        names = getattr(self, "feature_names_in_", None)
        return coreset if names is None else replace(coreset, columns=tuple(map(str, names)))

    @property
    def regret_(self) -> Regret:
        """Prequential loss and hindsight optimum of the rows seen so far."""
        return self._check_fitted().regret()

    @property
    def order_(self) -> OrderVerdict:
        """Whether the rows seen look as if they came in random order, which the guarantee supposes."""
        return self._check_fitted().order()
