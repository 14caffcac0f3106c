"""Online low-rank approximation and PCA."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array

from batch2online._types import FloatArray
from batch2online.engine.stream import Stream
from batch2online.estimator import OnlineEstimator
from batch2online.input import at_hand
from batch2online.methods.low_rank.moments import SecondMoments, second_moments
from batch2online.methods.low_rank.problem import LowRank, Subspace
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.numerics.threads import one_thread
from batch2online.refresh import Adaptive, Geometric, Policy
from batch2online.settings import LowRankSettings


class OnlineLowRank(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnlineEstimator, LowRankSettings):  # type: ignore[misc]
    r"""Online low-rank approximation and PCA: nearly the loss of an SVD of all rows, with few changes of the basis.

    The moments of all rows are kept, and at row counts that grow geometrically their leading subspace replaces the
    current one if its cost is no longer within tolerance. Rows are also sampled by their ridge leverage scores into a
    coreset, for audits and other uses; with ``solve="coreset"`` models are fitted to it, as in the paper. A drop-in
    for ``IncrementalPCA``, which changes at every call.

    Attributes
    ----------
    components_, mean_ : the current model; coordinate axes for the first ``2 * n_components`` rows
    epsilon_ : accuracy of the coreset now, ``epsilon`` unless that is "auto"
    explained_variance_, explained_variance_ratio_, singular_values_
        Of the current components, exact over all rows seen.
    n_seen_, n_changes_, changes_, coreset_, regret_, metrics_, baseline_metrics_, window_metrics_, recent_metrics_
        Rows seen; changes of the model with the angle between subspaces; the coreset; loss against hindsight.

    Notes
    -----
    With ``solve="coreset"`` the paper's Algorithm 4, with the corrections listed in the documentation. Its guarantee is
    for the squared distance; ``regret_.secondary_loss`` is the loss as the paper writes it, without the square.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data / 16
    >>> model = OnlineLowRank(n_components=10, random_state=0)
    >>> for start in range(0, len(X), 100):
    ...     model = model.partial_fit(X[start : start + 100])
    >>> model.transform(X[:3]).shape
    (3, 10)
    >>> model.regret_.ratio < 1.25
    True
    """

    def _new_stream(self, n_targets: int) -> Stream:
        width = self.n_features_in_
        self._check_adaptive(self.solve == "coreset", 'solve="coreset"')
        if self.n_components > width:
            raise ValueError(f"n_components={self.n_components} must be an integer from 1 to n_features={width}.")
        exact = self.solve == "exact"
        settings = self._sampling(for_audit=exact)
        coreset = RidgeLeverage(self.n_components, intercept=self.center, **settings)
        problem = LowRank(int(self.n_components), bool(self.center), exact, self.basis == "stable")
        policy = self._default_refresh(exact) if self.refresh is None else self.refresh
        return Stream.new(problem, coreset, policy, width, n_targets)

    def _default_refresh(self, exact: bool) -> Policy:
        if exact:
            return Adaptive(kappa=2.0, growth=1.5, max_noise_factor=4.0)
        return Geometric(growth=1.5 if self.epsilon == "auto" else 2.0)

    @property
    def _model(self) -> Subspace:
        model: Subspace = self._check_fitted().model
        return model

    def _moments(self) -> SecondMoments:
        """Moments of all rows seen, around the mean if centred."""
        sketch: Any = self._check_fitted().view().sketch
        return second_moments(sketch.moments)

    @property
    def epsilon_(self) -> float:
        """Accuracy of the coreset of the rows seen so far; with ``epsilon="auto"`` it falls as rows are added."""
        return self._accuracy(2.0)

    @property
    def components_(self) -> FloatArray:
        """The orthonormal basis, (n_components, n_features)."""
        return self._model.components.copy()

    @property
    def mean_(self) -> FloatArray:
        """The mean that is subtracted, zero unless ``center``."""
        return self._model.mean.copy()

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return len(self._model.components)

    @property
    def singular_values_(self) -> FloatArray:
        """Root of the squared length of all rows along each component."""
        return np.sqrt(self._moments().along(self._model.components))

    @property
    def explained_variance_(self) -> FloatArray:
        """Variance of all rows seen along each component; around zero unless ``center``."""
        moments = self._moments()
        return moments.along(self._model.components) / max(1.0, moments.weight - bool(self.center))

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """Share of each component in the total; sorted after ``fit``, and with ``basis="variance"`` at each change.

        With ``basis="stable"`` components are rotated as little as possible and not sorted.
        """
        moments = self._moments()
        return moments.along(self._model.components) / (moments.total or 1.0)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> FloatArray:
        """:meth:`fit`, and the coordinates of these rows."""
        X = at_hand(X)
        return self.fit(X, y, sample_weight).transform(X)

    @one_thread()
    def transform(self, X: Any) -> FloatArray:
        """Coordinates of rows in the current basis, (n_samples, n_components)."""
        model = self._model
        return model.coordinates(self._checked_rows(X))

    @one_thread()
    def inverse_transform(self, X: Any) -> FloatArray:
        """Rows from their coordinates."""
        model = self._model
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != len(model.components):
            raise ValueError(f"X has {X.shape[1]} columns, but there are {len(model.components)} components.")
        return np.asarray(X @ model.components + model.mean)

    def predict_one(self, x: Any) -> FloatArray:
        """Coordinates of one row: a mapping of column names to values, or a sequence of values."""
        self._check_fitted()
        return np.asarray(self._model.coordinates(self._row_of(x)[None])[0])

    @one_thread()
    def score_samples(self, X: Any) -> FloatArray:
        """Negative squared distance of each row to the subspace: low for outliers."""
        engine = self._check_fitted()
        rows = self._checked_rows(X)
        losses: FloatArray = engine.problem.losses(engine.model, rows, np.empty((len(rows), 0)))[0]
        return -losses

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean squared distance of rows to the subspace: higher is better."""
        return float(self.score_samples(X).mean())
