"""Any batch algorithm online."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from batch2online import sampling
from batch2online.decay import ForwardDecay
from batch2online.engine.online import Online
from batch2online.headline import Metrics
from batch2online.methods.any_estimator import defaults
from batch2online.methods.any_estimator.delegation import Delegating
from batch2online.methods.any_estimator.problem import EstimatorProblem, LossBoundWarning
from batch2online.methods.any_estimator.row_losses import ZeroOne, loss_of
from batch2online.methods.any_estimator.stored import StoredWrapped
from batch2online.methods.any_estimator.weighted_fit import step_without_weights
from batch2online.record import Averages, Handful
from batch2online.refresh import Measured, Policy
from batch2online.results import Regret
from batch2online.sketches.base import Construction


@dataclass(frozen=True)
class BoundedRegret(Regret):
    """A :class:`Regret` that also says how much of the loss ``loss_bound`` has cut off.

    The optimum is that of the best model known, the current one or one solved now, measured on all rows if
    they are kept and on the coreset otherwise. There is no secondary loss.
    """

    excess: float = 0.0


class BatchToOnline(Delegating, StoredWrapped):
    """Any batch algorithm on a stream: solved on a small coreset, at times that grow geometrically.

    At each refresh the estimator is cloned, seeded and fitted to the weighted coreset of all rows seen, so the model is
    a pure function of the sequence and the seed, whatever the chunks. ``predict``, ``transform``, ``predict_proba``,
    ``score`` and whatever else the current model offers are passed on to it, fitted attributes as well. Rows are
    arrays, tables of pandas, polars or Arrow with text, categories, dates and gaps, or lists of texts or dictionaries:
    the estimator is given them as the kind that came in, see ``docs/tables.md``.

    Parameters
    ----------
    estimator : estimator or function
        A scikit-learn regressor, classifier, clusterer or transformer, or pipeline of such; any object with
        ``fit(X[, y], sample_weight=...)``; or a function ``solve(points, weights[, targets])`` that returns a model.
    coreset : construction, class or function, optional
        An empty construction of :mod:`batch2online.coresets`, whose own settings count; or what makes one from the
        settings below, like ``coresets.Uniform``. None chooses by the kind of estimator, and ``repr`` says what:

        - regressors and classifiers: ``Piloted``, which keeps rows that pull at the model in force, outlying ones and
          some of all; with a ``window`` and in shards, ``Leverage`` of rows with their targets and ``Uniform``
        - ``PCA`` and ``TruncatedSVD`` of so many components: ``RidgeLeverage``
        - clusterers with ``n_clusters``: ``Clustering``, which keeps all rows
        - all others, and with ``resample``: ``Uniform``
    refresh : Policy or None
        When to solve again, see :mod:`batch2online.refresh`. None is ``Measured()``: when the rows have doubled,
        unless what the last solve has gained says that the next one gains nothing, and when recent rows cost more.
    loss : str or function, optional
        By name, ``"squared", "absolute", "zero_one", "log", "distance", "squared_distance", "reconstruction",
        "negative_log_likelihood"``, or a function ``loss(model, points[, targets])`` that gives one number a row. None
        is squared for regressors, log (or zero_one) for classifiers, squared_distance for clusterers, reconstruction
        for transformers, negative_log_likelihood for densities; functions need one.
    loss_bound : float, optional
        Clip losses to [0, loss_bound], which the theorem needs. When that cuts something off, a
        :class:`LossBoundWarning` says so, and ``regret_.excess`` how much.
    resample : bool, default False
        Fit to rows without weights: for estimators without ``sample_weight``. These are all rows as long as they are
        kept (see ``coreset_size``), then a sample in which the copies of a row follow its weight.
    epsilon : float, default 0.1
        The grid of powers of ``1 + epsilon`` on which weights lie.
    coreset_size : int or None
        Expected number of rows to fit to. None begins with 5,000; for regressors and classifiers the size doubles
        while models of more rows are found to gain at least 1 %, up to 20,000 rows or what ``coreset_memory`` holds.
        With ``resample`` None keeps all rows up to 100,000, as far as 512 MB or ``coreset_memory`` hold them, and then
        a uniform sample of as many; 5,000 for estimators that take the square of their rows in memory, like Gaussian
        processes, and 20,000 for support vector machines.
    coreset_memory : int or None
        Bytes that a coreset of no given size may grow to.
    budget_seconds_per_million_rows : float or None
        Seconds that solves may take for a million rows seen: a look that would exceed them leaves the model in place.
        Results then depend on the clock; with None nothing does.
    half_life : int, "auto" or None
        Rows after which a row counts half as much, for streams that drift, see ``docs/drift.md``. "auto" learns with
        5,000 and without any side by side, and uses the one that has cost less lately. None is never.
    window : int or None
        Learn from the last so many rows alone, which are kept. None is all rows.
    keep_history : bool, default False
        Keep all rows, which :meth:`forget` needs.
    first_id : int, default 0
        Id of the first row. Shards that will be merged need disjoint ids and the same ``random_state``.
    random_state : None, int or generator
        The seed, of the coreset and of the estimator wherever its own ``random_state`` is not an integer.

    Attributes
    ----------
    model_ : the current model, a fitted estimator or what the function has returned
    n_seen_, n_changes_, changes_, coreset_, regret_, costs_
        Rows seen; changes of the model and their reasons; the coreset; loss against the best model known; seconds and
        rows of solves.

    Notes
    -----
    Algorithm 1 of the paper with Algorithm 2 inside, for any estimator. Costs are estimated on the coreset, the
    hindsight optimum on all rows if they are kept. Before the first refresh there is no model; rows then cost what the
    simplest one would.

    ``save`` stores the rows that the current model was fitted on and, if skops is installed, the fitted model in its
    form. ``load`` takes the model if all of its types are known to be harmless or trusted (``trusted=`` of
    :func:`batch2online.load`), and refuses the file otherwise; with ``refit=True`` it fits the estimator again on the
    rows. Only scikit-learn's own estimators with plain parameters come back from a file alone; :meth:`restore` takes
    the rest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import HuberRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BatchToOnline(HuberRegressor(alpha=0.01), coreset_size=200, random_state=0)
    >>> model
    BatchToOnline(coreset_size=200, estimator=HuberRegressor(alpha=0.01), random_state=0,
                  coreset=<Piloted, for a regressor>)
    >>> for start in range(0, len(X), 50):
    ...     model = model.partial_fit(X[start : start + 50], y[start : start + 50])
    >>> model.n_seen_, model.predict(X[:2]).shape, model.coef_.shape
    (442, (2,), (10,))
    """

    _problem = type(None)  # it is made anew, by the parameters

    def _quality(self, rows: Averages) -> Metrics:
        return dict([self._engine.problem.loss.measure(rows.mean_loss)])

    def _handful(self) -> Handful | None:
        """Return the few rows that hold most of the loss, if there are such; errors that are counted are all alike."""
        return None if isinstance(self._engine.problem.loss, ZeroOne) else super()._handful()

    def __init__(
        self,
        estimator: Any,
        *,
        coreset: Any = None,
        refresh: Policy | None = None,
        loss: Any = None,
        loss_bound: float | None = None,
        resample: bool = False,
        epsilon: float = 0.1,
        coreset_size: int | None = None,
        coreset_memory: int | None = None,
        budget_seconds_per_million_rows: float | None = None,
        half_life: int | str | None = None,
        window: int | None = None,
        keep_history: bool = False,
        first_id: int = 0,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.coreset = coreset
        self.refresh = refresh
        self.loss = loss
        self.loss_bound = loss_bound
        self.resample = resample
        self.epsilon = epsilon
        self.coreset_size = coreset_size
        self.coreset_memory = coreset_memory
        self.budget_seconds_per_million_rows = budget_seconds_per_million_rows
        self.half_life = half_life
        self.window = window
        self.keep_history = keep_history
        self.first_id = first_id
        self.random_state = random_state

    # -- building -------------------------------------------------------------------------------------

    def _new_engine(self, n_targets: int) -> Online:
        construction = self._new_construction()
        policy = Measured() if self.refresh is None else self.refresh
        engine = Online(self._new_problem(construction), construction, policy, self.n_features_in_, n_targets)
        engine.budget = defaults.checked_budget(self.budget_seconds_per_million_rows)
        return engine

    def _new_problem(self, construction: Construction) -> EstimatorProblem:
        kind = defaults.kind_of(self.estimator)
        self._check_takes_weights(kind)
        if self.loss_bound is not None and not 0 < self.loss_bound < np.inf:
            raise ValueError(f"loss_bound must be a finite number above 0, got {self.loss_bound!r}.")
        return EstimatorProblem(
            estimator=self.estimator,
            loss=loss_of(defaults.default_loss(kind, self.estimator) if self.loss is None else self.loss),
            seed=construction.seed,
            start=defaults.start_of(self.estimator, self.n_features_in_),
            epsilon=construction.epsilon,
            loss_bound=self.loss_bound,
            resample=bool(self.resample),
            given_rows=self._given_rows,
        )

    def _check_takes_weights(self, kind: str) -> None:
        part = None if kind == "function" or self.resample else step_without_weights(self.estimator)
        if part is not None:
            raise TypeError(
                f"{type(part).__name__}.fit takes no sample_weight, so it cannot be fitted to a weighted coreset: "
                "pass resample=True to fit it to an unweighted sample of the coreset instead."
            )

    @property
    def _adds_up(self) -> bool:
        return self._new_construction().adds_up

    def _new_construction(self) -> Construction:
        return self._for_these_rows(self._asked_for())

    def _asked_for(self) -> Construction:
        settings = self._sampling()
        if self.coreset_size is None:
            settings["coreset_size"] = defaults.DEFAULT_SIZE
        if isinstance(self.coreset, Construction):
            return self._copied_construction(self.coreset)
        make = self.coreset
        if make is None:
            choice = self._chosen_coreset()
            make = choice.make
            if self.coreset_size is None:
                settings |= self._default_sizes(choice)
        construction = make(**settings) if callable(make) else make
        if not isinstance(construction, Construction):
            raise TypeError(f"coreset must be a construction of batch2online.coresets, or make one, got {make!r}.")
        return construction

    def _default_sizes(self, choice: defaults.Choice) -> dict[str, int]:
        """Return how large the chosen coreset is, where that is not the default."""
        width = getattr(self, "n_features_in_", 1)  # not known yet where only the kind of construction is asked for
        if self.resample:
            return {"coreset_size": defaults.unweighted_size(self.estimator, self.coreset_memory, width)}
        return {"largest_size": defaults.largest_size(self.coreset_memory, width)} if choice.grows else {}

    def _chosen_coreset(self) -> defaults.Choice:
        kind, by_rows_alone = defaults.kind_of(self.estimator), self.window or self._is_shard
        return defaults.default_coreset(kind, self.estimator, self.resample, by_rows_alone, self._are_numbers)

    def _copied_construction(self, template: Construction) -> Construction:
        """Return an empty construction as given, but with the seed, first id and history asked for here."""
        if template.shape is not None:
            raise ValueError("coreset must be an empty construction: this one has seen rows already.")
        construction = template.copy()
        if self.random_state is not None:
            construction.seed = sampling.seed_from(self.random_state)
        if self.first_id:
            construction.next_id = int(self.first_id)
        construction.keep_history = construction.keep_history or bool(self.keep_history)
        if self.half_life not in (None, "auto"):
            construction.decay = ForwardDecay.of(self.half_life)
        return construction

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        if self.coreset is not None:
            return text
        try:
            choice = self._chosen_coreset()
        except TypeError:
            return text
        return f"{text[:-1]},\n{' ' * 14}coreset=<{choice.name}, for {choice.reason}>)"

    # -- learning --------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None) -> Self:
        """Learn from further rows. The result does not depend on how rows are split into calls.

        ``classes`` is for callers that give it to all classifiers; labels are learned as they come.
        """
        return super().partial_fit(X, y, sample_weight)

    def _is_ready_for(self, X: Any, y: Any, sample_weight: Any) -> bool:
        return self.loss_bound is None and super()._is_ready_for(X, y, sample_weight)

    def _learned(self, X: Any, y: Any, sample_weight: Any) -> Online:
        before = self._engine.second_loss if self.__sklearn_is_fitted__() else 0.0
        engine = super()._learned(X, y, sample_weight)
        self._warn_of_excess(before, engine.second_loss)
        return engine

    def _warn_of_excess(self, before: float, excess: float) -> None:
        """Say once, when it first happens, that ``loss_bound`` does not bound the loss."""
        if excess > before == 0:
            warnings.warn(
                f"Losses outside [0, {self.loss_bound:g}] (loss_bound) were clipped, by {excess:g} so far: what the "
                "theorem promises is promised for the clipped loss. regret_.excess holds what was cut off.",
                LossBoundWarning,
                stacklevel=4,
            )

    @property
    def regret_(self) -> BoundedRegret:
        """Prequential loss, and the cost of the best model known, on all rows if they are kept or on the coreset."""
        plain = self._check_fitted().regret()
        known = vars(plain) | {"secondary_loss": None, "secondary_name": ""}
        return BoundedRegret(**known, excess=plain.secondary_loss or 0.0)
