"""scikit-learn's k-means on small batches."""

from __future__ import annotations

from typing import Any

from sklearn.cluster import MiniBatchKMeans


def clustering(k: int) -> dict[str, Any]:
    return {"scikit-learn MiniBatchKMeans": MiniBatchKMeans(k, n_init=3)}
