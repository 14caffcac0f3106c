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
from batch2online.refresh import Lazy, Policy


class OnlineRegression(MultiOutputMixin, RegressorMixin, OnlineEstimator):  # type: ignore[misc]
    r"""Linear least squares on a stream: nearly the loss of hindsight, with a handful of model changes.

    Rows are sampled by their leverage in ``[1 | a | b]`` into a coreset that hardly reacts to any one of
    them. At row counts that grow geometrically, least squares is solved on the coreset if the present model
    has become too costly. For rows in random order, bounded losses and coresets of ``coreset_size="theory"`` rows, the
    expected squared loss is at most :math:`(1+\epsilon)(1+\mathrm{tolerance})` times that of the best model in
    hindsight plus a polylogarithmic term (Theorem 4 of ``docs/theory.md``). The default size is smaller, chosen by
    measurements and not by a proof; ``theory.certificate`` gives the term, which is large at ordinary sizes.

    Parameters
    ----------
    epsilon : float, default 0.02
        Accuracy of the coreset; its size grows like ``1 / epsilon``.
    coreset_size : int, "theory" or None
        Expected size of the coreset instead of the one that ``epsilon`` gives.
    refresh : Policy or None
        When to solve again, see :mod:`batch2online.refresh`. None is ``Lazy(growth=1.2, tolerance=0.015)``.
    solve : {"coreset", "exact"}
        Solve on the coreset (the paper), or from the moments of all rows, to see what the coreset costs.
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
        solve: str = "coreset",
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
        construction = Leverage(intercept=self.fit_intercept, score_targets=self.score_targets, **self._sampling())
        policy = Lazy(growth=1.2, tolerance=0.015) if self.refresh is None else self.refresh
        problem = LeastSquares(exact=self.solve == "exact")
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
