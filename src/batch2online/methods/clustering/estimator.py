"""Online (k,z)-clustering with stable cluster ids."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from batch2online._types import FloatArray, IntArray
from batch2online.engine.stream import Stream
from batch2online.estimator import OnlineEstimator
from batch2online.input import at_hand
from batch2online.methods.clustering.own_solver import FittedClusterer, solver_of
from batch2online.methods.clustering.problem import ClusteringProblem
from batch2online.methods.clustering.sketch import Clustering, largest_value
from batch2online.metrics import MEAN_DISTANCE, Metrics
from batch2online.numerics.distances import nearest, nearest_squared, power, squared_distances
from batch2online.numerics.threads import one_thread
from batch2online.refresh import Adaptive
from batch2online.schema import classes
from batch2online.settings import ClusteringSettings
from batch2online.validation import LARGEST


class OnlineClustering(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    OnlineEstimator,
    ClusteringSettings,
):
    r"""Online clustering: the quality of a batch solution, few changes, and stable cluster ids.

    Minimises :math:`\sum_x \min_c |x - c|^z`: k-means for z = 2, k-median for z = 1. Rows are sampled by their
    sensitivity into a coreset that hardly depends on any one of them. At row counts that grow geometrically centers are
    fitted again, and the current ones are replaced if their cost is no longer within tolerance. A new center takes over
    the id of the old one whose rows it holds, and every change lists the change of each id. A drop-in for
    ``MiniBatchKMeans``, which changes at every call.

    Attributes
    ----------
    cluster_centers_ : the current centers, (n_clusters, n_features); points repeat while fewer than k are distinct
    epsilon_ : accuracy of the coreset now, ``epsilon`` unless that is "auto"
    labels_ : labels of the rows of the last ``fit``
    n_seen_, n_changes_, changes_, coreset_, regret_, metrics_, baseline_metrics_, window_metrics_, recent_metrics_
        Rows seen; changes of the model and of each cluster; the coreset; loss against hindsight (the best known
        solution).

    Notes
    -----
    The paper's Algorithms 3 and 7, with the corrections listed in the documentation.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data / 16
    >>> model = OnlineClustering(n_clusters=10, random_state=0)
    >>> for start in range(0, len(X), 100):
    ...     model = model.partial_fit(X[start : start + 100])
    >>> model.predict(X[:3]).shape
    (3,)
    >>> model.regret_.ratio < 1.25
    True
    """

    @property
    def baseline_metrics_(self) -> Metrics:
        """Mean distance of rows to seeds of k-means++ alone, a mean over several seedings, measured on the coreset."""
        now = self.stream
        if not now.has_model or not len(now.coreset()):
            return {}
        return {MEAN_DISTANCE: now.problem.seeding(now.snapshot())[0]}

    @property
    def _largest(self) -> float:
        if self.z == 2:
            return LARGEST
        return largest_value(self.z if isinstance(self.z, int | float | np.number) and 2 < self.z < np.inf else 2.0)

    def _new_stream(self, n_targets: int) -> Stream:
        coreset = Clustering(self.n_clusters, self.z, stages=self.stages, history=self.history, **self._sampling())
        policy = Adaptive(kappa=1.0, growth=2.0, floor=1e-3, start=15) if self.refresh is None else self.refresh
        solver = solver_of(self.solver)
        is_exact = self.solve == "exact" and coreset.z == 2 and coreset.keep_history and solver is None
        warm_start = bool(self.warm_start) and solver is None
        problem = ClusteringProblem(coreset.k, coreset.z, warm_start, is_exact, float(self.churn_price), solver)
        return Stream.new(problem, coreset, policy, self.n_features_in_, n_targets)

    @classmethod
    def _is_object(cls, name: str, value: Any) -> bool:
        return name == "solver" and callable(value) and type(value) in classes.values()

    def _is_same_setting(self, own: Any, others: Any) -> bool:
        if hasattr(own, "fit") and hasattr(others, "fit"):
            own, others = FittedClusterer(own), FittedClusterer(others)
        return super()._is_same_setting(own, others)

    def _finish_fit(self, X: Any) -> None:
        """Set the labels of the rows; warn if there are fewer distinct rows than clusters."""
        self.labels_ = self.predict(X)
        distinct = len(np.unique(self._centers, axis=0))
        if distinct < self.n_clusters:
            warnings.warn(
                f"Only {distinct} distinct points for n_clusters={self.n_clusters}: centers repeat.",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def _centers(self) -> FloatArray:
        """The current centers; the mean row before the first refresh."""
        centers: FloatArray = self._check_fitted().model.points
        return centers

    @property
    def epsilon_(self) -> float:
        """Accuracy of the coreset of the rows seen so far; with ``epsilon="auto"`` it falls as rows are added."""
        return self._accuracy(10.0)

    @property
    def cluster_centers_(self) -> FloatArray:
        """The current centers, (n_clusters, n_features); the row number is the id."""
        return self._centers.copy()

    @property
    @one_thread()
    def inertia_(self) -> float:
        """Cost of the current centers on the rows seen: the sum of distances to the power z, as far as it is known.

        Exact where all rows are kept, measured on the coreset with ``history="coreset"``.
        """
        engine = self._check_fitted().view()
        problem: Any = engine.problem
        return float(problem.full_cost(engine.model, engine.snapshot()))

    @property
    def n_iter_(self) -> int:
        """Number of fits that replaced the model, each of many steps."""
        engine = self._check_fitted()
        return engine.current.n_changes + engine.has_model

    @property
    def _n_features_out(self) -> int:
        return len(self._centers)

    @one_thread()
    def predict(self, X: Any) -> IntArray:
        """Return the id of the nearest center of each row."""
        centers = self._centers
        return nearest(self._checked_rows(X), centers)[0]

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> IntArray:
        """Fit to these rows, and return their labels."""
        return self.fit(X, y, sample_weight).labels_

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> FloatArray:
        """Fit to these rows, and return their distances to all centers."""
        X = at_hand(X)
        return self.fit(X, y, sample_weight).transform(X)

    @one_thread()
    def transform(self, X: Any) -> FloatArray:
        """Return distances of rows to all centers, (n_samples, n_clusters)."""
        centers = self._centers
        return np.sqrt(squared_distances(self._checked_rows(X), centers)).T

    def predict_one(self, x: Any) -> int:
        """Return the id of the center nearest to one row: a mapping of names to values, or a sequence of values."""
        centers = self._centers
        differences = centers - self._row_of(x)
        return int(np.einsum("ij,ij->i", differences, differences).argmin())

    @one_thread()
    def score_samples(self, X: Any) -> FloatArray:
        """Return minus the distance of each row to the nearest center, to the power z: low for outliers."""
        centers = self._centers
        return -power(nearest_squared(self._checked_rows(X), centers), float(self.z))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the cost of rows, the (weighted) sum of distances to the power z, as for ``KMeans``."""
        scores = self.score_samples(X)
        return float(scores.sum() if sample_weight is None else np.asarray(sample_weight, dtype=np.float64) @ scores)
