"""Labels of wrapped clusterers: numbered such that as many rows as possible keep theirs, and how many change."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

from batch2online._types import FloatArray, IntArray
from batch2online.methods.any_estimator.models import Model, final_step
from batch2online.numerics.distances import squared_distances
from batch2online.numerics.matching import matched, matched_weight, shared_weight

Labels = np.ndarray[Any, Any]


def churn(old: Labels, new: Labels, weights: FloatArray) -> float:
    """Return the share of the weight whose label changes, however the new clusters are numbered.

    >>> churn([0, 0, 1, 1], [1, 1, 0, 1], np.ones(4))
    0.25
    """
    labels, places = np.unique(np.concatenate([old, new]), return_inverse=True)
    before, after = np.split(places.reshape(-1), 2)
    return 1.0 - matched_weight(shared_weight(before, after, weights, len(labels))) / float(weights.sum())


def order_like(old: Model, new: Model, old_labels: Labels, new_labels: Labels, weights: FloatArray) -> IntArray | None:
    """Return which cluster of a new k-means continues each of the old one; None for all other clusterers."""
    before, after = final_step(old), final_step(new)
    if type(after) not in (KMeans, MiniBatchKMeans) or type(before) is not type(after):
        return None
    centers = before.cluster_centers_, after.cluster_centers_
    if centers[0].shape != centers[1].shape:
        return None
    one, other = (np.asarray(each, dtype=np.int64) for each in (old_labels, new_labels))
    return matched(shared_weight(one, other, weights, len(centers[0])), np.sqrt(squared_distances(*reversed(centers))))


def renumber(model: Model, order: IntArray) -> None:
    """Give the clusters of a k-means that was fitted just now another order."""
    last = final_step(model)
    if len(order) != len(last.cluster_centers_):
        raise ValueError(f"{len(order)} numbers for {len(last.cluster_centers_)} clusters.")
    last.cluster_centers_ = np.ascontiguousarray(last.cluster_centers_[order])
    last.labels_ = np.argsort(order).astype(last.labels_.dtype)[last.labels_]
    if hasattr(last, "_counts"):
        last._counts = last._counts[order]
