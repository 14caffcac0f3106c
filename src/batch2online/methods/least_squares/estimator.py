"""Online linear regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from batch2online._types import FloatArray
from batch2online.engine.stream import Stream
from batch2online.estimator import OnlineEstimator
from batch2online.input import LinearPlan, flattened
from batch2online.methods.least_squares.problem import LeastSquares, LinearModel
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.losses import REGRESSION_LOSSES, PredictorLoss, predictor_loss
from batch2online.numerics.threads import one_thread
from batch2online.refresh import Adaptive, Geometric, Policy
from batch2online.settings import RegressionSettings
from batch2online.validation import check_targets

_ADAPTIVE = Adaptive(kappa=2.5, growth=1.2, max_noise_factor=4.0, change_price=0.005)


class OnlineRegression(MultiOutputMixin, RegressorMixin, OnlineEstimator, RegressionSettings):  # type: ignore[misc]
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

    @property
    def _is_plain(self) -> bool:
        """Whether the moments of all rows are all that is needed."""
        return bool(self.loss == "squared" and self.alpha == 0)

    def predictor_loss(self) -> PredictorLoss:
        return predictor_loss(self.loss, self.quantile, self.power, self.delta)

    def _anchored_stream(self, n_targets: int) -> Stream:
        from batch2online.methods.linear_losses.problem import LinearLossProblem, default_refresh
        from batch2online.methods.linear_losses.sketch import Anchored
        from batch2online.methods.linear_losses.solver import Penalty

        coreset = Anchored(self.predictor_loss(), intercept=self.fit_intercept, **self._sampling())
        policy = default_refresh(self.n_features_in_) if self.refresh is None else self.refresh
        problem = LinearLossProblem(coreset.loss, Penalty(self.alpha, self.l1_ratio))
        return Stream.new(problem, coreset, policy, self.n_features_in_, n_targets)

    def _new_stream(self, n_targets: int) -> Stream:
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
        tags.target_tags.positive_only = self._least_target == 0
        if not self._is_plain:
            tags.target_tags.multi_output = False
        return tags

    # Targets that a loss is not made for are refused before anything is learned.

    def _is_plain_array(self, X: Any, y: Any, sample_weight: Any) -> bool:
        is_ready = super()._is_plain_array(X, y, sample_weight)
        if is_ready and not self._is_plain and y.ndim == 1:
            self.predictor_loss().check(check_targets(y, len(X))[:, 0])
        return is_ready and (self._is_plain or y.ndim == 1)

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        y, problem = super()._prepared_targets(y)
        if not self._is_plain:
            y = flattened(y)
            values = check_targets(y, len(y))
            self.predictor_loss().check(values.reshape(-1))
        return y, problem

    @property
    def _takes_any_number(self) -> bool:
        return self._least_target == -np.inf

    @property
    def _least_target(self) -> float | None:
        """Least target of the loss; None for a loss that there is not."""
        known = REGRESSION_LOSSES.get(str(self.loss))
        return None if known is None else known.least_target

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

    def _new_plan(self, stream: Stream) -> LinearPlan | None:
        model = stream.model
        if type(model) is not LinearModel or len(model.intercepts) != 1 or not stream.flat_targets:
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


def _predictions(engine: Stream, points: FloatArray) -> FloatArray:
    """Predictions (n, n_targets) of the current model."""
    model, problem = engine.model, engine.problem
    if not isinstance(problem, LeastSquares):
        return np.asarray(problem.predict(model, points)[:, None])
    linear: LinearModel = model
    return linear.predict(points)
