"""Against ``dask-ml`` (``pip install dask-ml``) on the same collections, in the same run: time, loss, memory.

Each learner has workers of its own, new ones, so that the largest memory they have had is its own as well. Rows are in
the memory of the workers before anything is learned.
"""

import time
import warnings

import dask.array as da
import numpy as np

import batch2online.dask as cluster
from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression
from benchmarks.scale.measure import busy, peak, workers
from benchmarks.scale.rows import CLUSTERS, COLUMNS, partitions

RANK = 3


def run(rows):
    """Return a list of measurements: each learner on rows that are in the memory of two workers."""
    warnings.simplefilter("ignore")
    found = []
    for task, learners in (("regression", _linear()), ("clusters", {**_clusters(), **_low_rank()})):
        for name, (fit, loss) in learners.items():
            with workers(2) as client:
                client.run(_imported, name.startswith("dask-ml"))
                table = client.persist(partitions(task, 0, rows))
                table.sum().compute()
                found.append({"learner": name, "rows": rows, **_measured(client, fit, loss, table)})
    return found


def _imported(theirs):
    """Import what a learner needs before the clock runs."""
    if theirs:
        import dask_ml.cluster
        import dask_ml.decomposition
        import dask_ml.linear_model
        import dask_ml.wrappers  # noqa: F401


def _measured(client, fit, loss, table):
    with_rows = max(client.run(peak).values())
    before, began = _all_busy(client), time.perf_counter()
    try:
        model = fit(table)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:100]}"}
    seconds, spent = time.perf_counter() - began, _all_busy(client) - before
    peaks = client.run(peak).values()
    return {
        "seconds": round(seconds, 2),
        "processor_seconds": round(spent, 2),
        "loss": float(loss(model, table)),
        "peak_megabytes": [round(value) for value in peaks],
        "megabytes_above_the_rows": round(max(peaks) - with_rows),
    }


def _all_busy(client):
    """Return the processor seconds of the workers and of this process, which holds the scheduler and solves."""
    return sum(client.run(busy).values()) + busy()


def _linear():
    def ours(table):
        model = cluster.fit(OnlineRegression(random_state=0), table, COLUMNS)
        return model.coef_, model.intercept_

    def theirs(table):
        from dask_ml.linear_model import LinearRegression

        model = LinearRegression(C=1e8).fit(table[:, :COLUMNS], table[:, COLUMNS])
        return model.coef_, model.intercept_

    def loss(model, table):
        return da.square(table[:, COLUMNS] - table[:, :COLUMNS] @ model[0] - model[1]).mean().compute()

    return {"OnlineRegression": (ours, loss), "dask-ml LinearRegression": (theirs, loss)}


def _clusters():
    def ours(**settings):
        return lambda table: cluster.fit(OnlineClustering(CLUSTERS, random_state=0, **settings), table).cluster_centers_

    def theirs(table):
        from dask_ml.cluster import KMeans

        return KMeans(CLUSTERS, random_state=0).fit(table).cluster_centers_

    def incremental(table):
        from dask_ml.wrappers import Incremental
        from sklearn.cluster import MiniBatchKMeans

        return Incremental(MiniBatchKMeans(CLUSTERS, random_state=0, n_init=3)).fit(table).estimator_.cluster_centers_

    def loss(centers, table):
        return table.map_blocks(_nearest, centers, dtype=float, drop_axis=1).mean().compute()

    return {
        "OnlineClustering": (ours(), loss),
        'OnlineClustering(history="coreset")': (ours(history="coreset"), loss),
        "dask-ml KMeans (k-means||)": (theirs, loss),
        "dask-ml Incremental(MiniBatchKMeans)": (incremental, loss),
    }


def _nearest(rows, centers):
    lengths = np.square(rows).sum(axis=1)[:, None] - 2 * rows @ centers.T + np.square(centers).sum(axis=1)
    return lengths.min(axis=1)


def _low_rank():
    def ours(table):
        return cluster.fit(OnlineLowRank(RANK, random_state=0), table).components_

    def theirs(algorithm):
        def fit(table):
            from dask_ml.decomposition import TruncatedSVD

            return TruncatedSVD(RANK, algorithm=algorithm, random_state=0).fit(table).components_

        return fit

    def loss(components, table):
        components = np.asarray(components)
        return (da.square(table).sum() - da.square(table @ components.T).sum()).compute() / len(table)

    return {
        "OnlineLowRank": (ours, loss),
        "dask-ml TruncatedSVD (tsqr)": (theirs("tsqr"), loss),
        "dask-ml TruncatedSVD (randomized)": (theirs("randomized"), loss),
    }
