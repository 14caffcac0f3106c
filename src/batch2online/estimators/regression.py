"""Online linear regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from batch2online._types import FloatArray
from batch2online.coresets import Leverage
from batch2online.engine.online import Online
from batch2online.estimators.base import OnlineEstimator
from batch2online.problems.regression import LeastSquares, LinearModel
from batch2online.refresh import Adaptive, Lazy, Policy


class OnlineRegression(MultiOutputMixin, RegressorMixin, OnlineEstimator):  # type: ignore[misc]
    r"""Linear least squares on a stream: nearly the loss of hindsight, with a handful of model changes.

    The moments of all rows are kept where they lose no digits, and at row counts that grow geometrically least squares
    is solved from them if the present model has become too costly. The squared loss is that of the best model in
    hindsight plus a term that grows like the logarithm, for rows in random order. Beside it, rows are sampled by their
    leverage in ``[1 | a | b]`` into a coreset, for audits and other losses; ``solve="coreset"`` solves on it, as the
    paper does.

    Parameters
    ----------
    epsilon : float, default 0.02
        Accuracy of a coreset that models are solved on, and the grid of powers of ``1 + epsilon`` of its weights. Exact
        models do not depend on it.
    coreset_size : int, "theory", "audit" or None
        Expected size of the coreset. None is what ``epsilon`` asks for where models are solved on the coreset, and
        otherwise ``"audit"``, as for an epsilon of 0.1: enough to measure with.
    refresh : Policy or None
        When to solve again, see :mod:`batch2online.refresh`. None is ``Adaptive(kappa=5, growth=1.2)``, or
        ``Lazy(growth=1.2, tolerance=0.015)`` with ``solve="coreset"``.
    solve : {"exact", "coreset"}
        Solve from the moments of all rows, or on the coreset (the paper). Every row has its part in an exact model, so
        that leaving one out changes any model a little; it is the schedule that keeps changes few, see "Theory".
    fit_intercept : bool, default True
    score_targets : bool, default True
        Score rows of ``[a | b]``; False scores ``a`` alone, as the paper does.
    keep_history : bool, default False
        Keep all rows, which :meth:`forget` needs.
    first_id : int, default 0
        Id of the first row. Shards that will be merged need disjoint ids and the same ``random_state``.
    random_state : None, int or generator
        The seed; everything is a pure function of it and the sequence of rows.

    Attributes
    ----------
    coef_, intercept_ : the current model; the mean of the targets until ``3 * (n_features + 1)`` rows have come
    n_seen_, n_changes_, changes_, coreset_, regret_
        Rows seen; changes of the model and their reasons; the coreset; loss against hindsight.

    Notes
    -----
    The paper's Algorithm 5, with the corrections listed in the documentation: points are drawn once and
    for all by uniforms that belong to them, so that any chunking or resuming gives the same model. Merged shards have
    the coreset of one stream, and the model that :meth:`fit` gives on all rows.

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
    """

    _needs_targets = True

    _problem = LeastSquares

    def __init__(
        self,
        *,
        epsilon: float = 0.02,
        coreset_size: int | str | None = None,
        refresh: Policy | None = None,
        solve: str = "exact",
        fit_intercept: bool = True,
        score_targets: bool = True,
        keep_history: bool = False,
        first_id: int = 0,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.coreset_size = coreset_size
        self.refresh = refresh
        self.solve = solve
        self.fit_intercept = fit_intercept
        self.score_targets = score_targets
        self.keep_history = keep_history
        self.first_id = first_id
        self.random_state = random_state

    def _new_engine(self, n_targets: int) -> Online:
        self._check_choice("solve", "coreset", "exact")
        exact = self.solve == "exact"
        settings = self._sampling(without_use=exact)
        construction = Leverage(intercept=self.fit_intercept, score_targets=self.score_targets, **settings)
        default = Adaptive(kappa=5.0, growth=1.2) if exact else Lazy(growth=1.2, tolerance=0.015)
        policy = default if self.refresh is None else self.refresh
        problem = LeastSquares(exact=exact)
        return Online(problem, construction, policy, self.n_features_in_, n_targets)

    # Each reads the engine and its model once: another thread may replace them at any moment.

    @property
    def coef_(self) -> FloatArray:
        """Coefficients, (n_features,) or (n_targets, n_features)."""
        engine = self._check_fitted()
        coefficients = engine.present_model.coefficients.copy()
        return np.asarray(coefficients[0] if engine.construction.flat_targets else coefficients)

    @property
    def intercept_(self) -> Any:
        """Intercept, a number or (n_targets,)."""
        engine = self._check_fitted()
        intercepts = engine.present_model.intercepts.copy()
        return float(intercepts[0]) if engine.construction.flat_targets else intercepts

    def predict(self, X: Any) -> FloatArray:
        """Predictions of the current model, (n_samples,) or (n_samples, n_targets)."""
        engine = self._check_fitted()
        model: LinearModel = engine.present_model
        predictions = model.predict(self._validated(X, reset=False))
        return predictions[:, 0] if engine.construction.flat_targets else predictions

    def predict_one(self, x: Any) -> Any:
        """Prediction for one row: a mapping of column names to values, or a sequence of values."""
        engine = self._check_fitted()
        model: LinearModel = engine.present_model
        predictions = model.coefficients @ np.asarray(self._values_of(x), dtype=np.float64) + model.intercepts
        return float(predictions[0]) if engine.construction.flat_targets else predictions
