"""Online linear regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from batch2online._types import FloatArray
from batch2online.estimator import OnlineEstimator
from batch2online.input import LinearPlan, flattened
from batch2online.methods.least_squares.problem import LeastSquares, LinearModel
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.numerics.threads import one_thread
from batch2online.problem import Problem
from batch2online.refresh import Adaptive, Geometric, Policy
from batch2online.schema import check_value, require_equal
from batch2online.stream import Stream
from batch2online.validation import check_targets

if TYPE_CHECKING:
    from batch2online.methods.losses import PredictorLoss
    from batch2online.tables.codec import Columns

LOSSES = ("squared", "huber", "absolute", "quantile", "poisson", "gamma", "tweedie")
"""Names of the losses of :class:`OnlineRegression`."""

_ADAPTIVE = Adaptive(kappa=2.5, growth=1.2, max_noise_factor=4.0, change_price=0.005)


class OnlineRegression(MultiOutputMixin, RegressorMixin, OnlineEstimator):  # type: ignore[misc]
    r"""Online linear regression: nearly the loss of the best model in hindsight, with a handful of model changes.

    Least squares, the default: the moments of all rows are kept in coordinates in which they lose no digits. At row
    counts that grow geometrically, the cost of the model is compared with the optimum that they give, and the model is
    refitted and replaced if its cost is no longer within tolerance. Rows are also sampled by their leverage in
    ``[1 | a | b]`` into a coreset, for audits and other losses; with ``solve="coreset"`` models are fitted to it, as in
    the paper.

    Other losses, and penalties: the loss of each row is expanded at the current model; sums of these expansions and a
    coreset for the remainders give models like those of refits on all rows, see
    :class:`batch2online.coresets.Anchored`.

    For rows in random order, bounded losses and no dominating rows, the expected squared loss is at most 1 + eta times
    that of the best model in hindsight plus a logarithmic term, for every eta above 0 (Lemma 6 and Theorem 5 of
    ``docs/proofs.md``).

    Parameters
    ----------
    loss : {"squared", "huber", "absolute", "quantile", "poisson", "gamma", "tweedie"}
        Loss of a row: the squared residual; that of ``HuberRegressor``, whose scale is part of the model; the
        absolute residual; the pinball loss of ``QuantileRegressor``; half the deviance of ``PoissonRegressor`` (targets
        from 0), ``GammaRegressor`` (above 0) or ``TweedieRegressor``, which predict ``exp(x @ coef_ + intercept_)``.
    alpha : float, default 0
        The penalty ``alpha * (l1_ratio * |coef|_1 + (1 - l1_ratio) / 2 * |coef|^2)`` is added to the mean loss, as
        scikit-learn's estimators of these losses do. The squared loss is halved then, as in ``ElasticNet``.
    l1_ratio : float in [0, 1], default 0
        Share of the L1 norm in the penalty; 1 is that of ``QuantileRegressor``.
    quantile : float in (0, 1), default 0.5
        The quantile to predict, with ``loss="quantile"``.
    power : float, default 1.5
        Power of the variance, with ``loss="tweedie"``: 0, or from 1 on.
    delta : float, default 1.35
        Residuals of more scales than this count as outliers, with ``loss="huber"``: the ``epsilon`` of
        ``HuberRegressor``.
    epsilon : float or "auto", default 0.02
        Relative error of the coreset that models are fitted to; its weights are powers of ``1 + epsilon``. Exact
        models do not depend on it. "auto", with ``solve="coreset"``, begins at 0.1 and improves like ``2 / sqrt(n)``,
        so that no share of the loss is given away for ever; the coreset grows like ``sqrt(n)``, see "Proofs".
    coreset_size : int, "theory", "audit" or None
        Expected size of the coreset. None is the size for ``epsilon`` if models are fitted to the coreset, otherwise
        ``"audit"``, 20 rows per column of ``[1 | a | b]``: enough for audits.
    refresh : Policy or None
        When to refit, see :mod:`batch2online.refresh`. None is
        ``Adaptive(kappa=2.5, growth=1.2, max_noise_factor=4, change_price=0.005)`` after ridge regressions of the first
        rows, see Notes; ``Geometric(growth=1.5)`` with ``solve="coreset"``, and ``Geometric(growth=1.2)`` with
        ``epsilon="auto"``; and ``Geometric(growth=2)`` for
        other losses, ``Geometric(growth=1.5)`` from 100 columns on. A policy that you give refits with the batch
        algorithm from its first check on, by default after ``3 * (n_features + 1)`` rows.
    solve : {"exact", "coreset"}
        Fit to the moments of all rows, or to the coreset (the paper). An exact model depends a little on every row; the
        schedule keeps changes few, see "Proofs". Ignored for other losses than the squared one.
    fit_intercept : bool, default True
        Without an intercept columns are scaled, but not centred: columns far from zero are then nearly collinear.
    score_targets : bool, default True
        Score rows of ``[a | b]``; False scores ``a`` alone, as the paper does.
    half_life : int, "auto" or None
        Rows after which the weight of a row has halved, for streams that drift, see ``docs/drift.md``. None for no
        decay; "auto" to select one of several candidates.
    window : int or None
        Fit to this many of the last rows alone, which are kept in memory. None for all rows.
    keep_history : bool, default False
        Keep all rows; needed by :meth:`forget`.
    columns : "auto", Columns or None, default "auto"
        How tables of pandas, polars or Arrow, and rows in dictionaries, become rows of numbers: strings become one-hot
        columns, dates days, and missing values means, with a column that says where; all inferred from the first 10,000
        rows of the stream. :class:`batch2online.Columns` says otherwise. None accepts numbers only, like arrays.
        ``columns_`` describes the result.
    first_id : int, default 0
        Id of the first row. Shards to merge need disjoint ids and the same ``random_state``.
    random_state : None, int or generator
        Seed; results are a pure function of it and the sequence of rows.

    Attributes
    ----------
    coef_, intercept_ : the current model; the mean of the targets before the first check
    epsilon_ : accuracy of the coreset now, ``epsilon`` unless that is "auto"
    error_ : estimated share by which the model costs more than the fit to all rows; 0 for least squares
    n_seen_, n_changes_, changes_, coreset_, regret_, metrics_, baseline_metrics_, window_metrics_, recent_metrics_
        Rows seen; changes of the model and their reasons; the coreset; loss against hindsight.

    Notes
    -----
    The paper's Algorithm 5, with the corrections listed in the documentation: each row has one uniform that decides
    whether it is drawn, so that any chunking or resuming gives the same model. Merged shards have the coreset of one
    stream, and the model of :meth:`fit` on all rows.

    Few rows: least squares with the default ``refresh`` begins at row 10, or at row 6 for a single column. While
    ``partial_fit`` has seen fewer than ``30 * (n_features + 1)`` rows, its models are ridge regressions on centred and
    scaled columns, whose penalty the rows choose, refitted at doublings: they predict the next rows better than least
    squares. ``fit``, ``merge`` and ``forget`` give the least-squares solution of all rows, however few.

    Nearly collinear columns: columns are centred and scaled by their spread, and directions whose singular value is
    below 1e-6 of the largest are dropped, as ``LinearRegression(tol=1e-6)`` does on standardised columns. A total that
    is the sum of its parts up to rounding has the coefficients of least norm. The same for other losses and tiny
    penalties, but not for ``l1_ratio > 0``. ``regret_.optimum`` is the exact minimum all the same.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = OnlineRegression(random_state=0)
    >>> for start in range(0, len(X), 50):
    ...     model = model.partial_fit(X[start : start + 50], y[start : start + 50])
    >>> model.n_seen_, model.predict(X[:2]).shape
    (442, (2,))
    >>> model.regret_.ratio < 2.2
    True
    >>> upper = OnlineRegression(loss="quantile", quantile=0.9, random_state=0).fit(X, y)
    >>> bool(0.85 < (y <= upper.predict(X)).mean() < 0.95)
    True
    """

    _needs_targets = True

    _problem = Problem  # which of two, _assembled checks

    def __init__(
        self,
        *,
        loss: str = "squared",
        alpha: float = 0.0,
        l1_ratio: float = 0.0,
        quantile: float = 0.5,
        power: float = 1.5,
        delta: float = 1.35,
        epsilon: float | str = 0.02,
        coreset_size: int | str | None = None,
        refresh: Policy | None = None,
        solve: str = "exact",
        fit_intercept: bool = True,
        score_targets: bool = True,
        half_life: int | str | None = None,
        window: int | None = None,
        keep_history: bool = False,
        columns: Columns | Literal["auto"] | None = "auto",
        first_id: int = 0,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.quantile = quantile
        self.power = power
        self.delta = delta
        self.epsilon = epsilon
        self.coreset_size = coreset_size
        self.refresh = refresh
        self.solve = solve
        self.fit_intercept = fit_intercept
        self.score_targets = score_targets
        self.half_life = half_life
        self.window = window
        self.keep_history = keep_history
        self.columns = columns
        self.first_id = first_id
        self.random_state = random_state

    @property
    def _is_plain(self) -> bool:
        """Whether the moments of all rows are all that is needed."""
        return bool(self.loss == "squared" and self.alpha == 0)

    def _predictor_loss(self) -> PredictorLoss:
        from batch2online.methods.losses import predictor_loss  # least squares does without

        self._check_choice("loss", *LOSSES)
        return predictor_loss(self.loss, self.quantile, self.power, self.delta)

    def _anchored_stream(self, n_targets: int) -> Stream:
        from batch2online.methods.linear_losses.problem import LinearLossProblem, default_refresh
        from batch2online.methods.linear_losses.sketch import Anchored
        from batch2online.methods.linear_losses.solver import Penalty

        coreset = Anchored(self._predictor_loss(), intercept=self.fit_intercept, **self._sampling())
        policy = default_refresh(self.n_features_in_) if self.refresh is None else self.refresh
        problem = LinearLossProblem(coreset.loss, Penalty(self.alpha, self.l1_ratio))
        return Stream.new(problem, coreset, policy, self.n_features_in_, n_targets)

    def _new_stream(self, n_targets: int) -> Stream:
        self._check_choice("solve", "coreset", "exact")
        self._check_adaptive(self._is_plain and self.solve == "coreset", 'solve="coreset" and the squared loss alone')
        if not self._is_plain:
            return self._anchored_stream(n_targets)
        exact = self.solve == "exact"
        settings = self._sampling(for_audit=exact)
        coreset = Leverage(intercept=self.fit_intercept, score_targets=self.score_targets, **settings)
        policy = self._default_refresh(exact) if self.refresh is None else self.refresh
        problem = LeastSquares(exact=exact, ridge_first=exact and self.refresh is None)
        return Stream.new(problem, coreset, policy, self.n_features_in_, n_targets)

    def _default_refresh(self, exact: bool) -> Policy:
        if exact:
            return _ADAPTIVE
        return Geometric(growth=1.2 if self.epsilon == "auto" else 1.5)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss in ("poisson", "gamma", "tweedie")
        if not self._is_plain:
            tags.target_tags.multi_output = False
        return tags

    # Targets that a loss is not made for are refused before anything is learned.

    def _is_plain_array(self, X: Any, y: Any, sample_weight: Any) -> bool:
        is_ready = super()._is_plain_array(X, y, sample_weight)
        if is_ready and not self._is_plain and y.ndim == 1:
            self._predictor_loss().check(check_targets(y, len(X))[:, 0])
        return is_ready and (self._is_plain or y.ndim == 1)

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        y, problem = super()._prepared_targets(y)
        if not self._is_plain:
            y = flattened(y)
            values = check_targets(y, len(y))
            self._predictor_loss().check(values.reshape(-1))
        return y, problem

    @property
    def _takes_any_number(self) -> bool:
        return self.loss in ("squared", "huber", "absolute", "quantile")

    # Each reads the engine and its model once: another thread may replace them at any moment.

    @property
    def coef_(self) -> FloatArray:
        """Coefficients, (n_features,) or (n_targets, n_features)."""
        engine = self._check_fitted()
        coefficients = engine.model.coefficients.copy()
        return np.asarray(coefficients[0] if engine.flat_targets else coefficients)

    @property
    def intercept_(self) -> Any:
        """Intercept, a number or (n_targets,)."""
        engine = self._check_fitted()
        intercepts = engine.model.intercepts.copy()
        return float(intercepts[0]) if engine.flat_targets else intercepts

    @one_thread()
    def predict(self, X: Any) -> FloatArray:
        """Predictions of the current model, (n_samples,) or (n_samples, n_targets)."""
        engine = self._check_fitted()
        predictions = _predictions(engine, self._validated(X, reset=False))
        return predictions[:, 0] if engine.flat_targets else predictions

    def predict_one(self, x: Any) -> Any:
        """Prediction for one row: a mapping of column names to values, or a sequence of values."""
        found = self._plain_predictor(x)
        if found is not None:
            return found[0]
        engine = self._check_fitted()
        predictions = _predictions(engine, self._row_of(x)[None])[0]
        return float(predictions[0]) if engine.flat_targets else predictions

    def _new_plan(self, state: Any) -> LinearPlan | None:
        model = state.model
        if type(model) is not LinearModel or len(model.intercepts) != 1 or not self._check_fitted().flat_targets:
            return None
        return LinearPlan(model.coefficients[0].tolist(), float(model.intercepts[0]))

    @property
    def epsilon_(self) -> float:
        """Accuracy of the coreset of the rows seen so far; with ``epsilon="auto"`` it falls as rows are added."""
        return self._accuracy(2.0)

    @property
    def error_(self) -> float:
        """Estimated share by which the model costs more than a fit on all rows seen at that time."""
        return float(getattr(self._check_fitted().current.model, "error", 0.0))

    @classmethod
    def _assembled(cls, state: dict[str, Any]) -> Self:
        estimator = super()._assembled(state)
        problem: Any = estimator.stream.problem
        from batch2online.methods.linear_losses.problem import LinearLossProblem

        expected = LeastSquares if estimator._is_plain else LinearLossProblem
        check_value("problem", problem, expected)
        if not estimator._is_plain:
            require_equal("loss of the problem", problem.loss, estimator._predictor_loss())
        return estimator


def _predictions(engine: Stream, points: Any) -> FloatArray:
    """Predictions (n, n_targets) of the current model."""
    model, problem = engine.model, engine.problem
    if not isinstance(problem, LeastSquares):
        return np.asarray(problem.predict(model, points)[:, None])
    linear: LinearModel = model
    return linear.predict(points)
