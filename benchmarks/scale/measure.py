"""One run on a local cluster: rows a second, memory of each worker, distance to the closed form."""

import contextlib
import json
import os
import pickle
import resource
import time

import numpy as np
from dask import config

import batch2online
import batch2online.dask as cluster
from batch2online import OnlineClustering, OnlineRegression
from batch2online.distributed.shards import TOGETHER, merged
from benchmarks.scale.rows import CENTERS, CLUSTERS, COEFFICIENTS, COLUMNS, DRAW, NOISE, PARTITION, partitions
from distributed import Client, LocalCluster


def new_model(task):
    if task == "regression":
        return OnlineRegression(random_state=0)
    return OnlineClustering(CLUSTERS, history="coreset", random_state=0)


SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.profile.enabled": False,  # a diary of calls that grows for an hour, 0.1 MB a second
}


@contextlib.contextmanager
def workers(n):
    """Yield the client of a local cluster of processes with one thread each."""
    with (
        config.set(SETTINGS),
        LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as own,
        Client(own) as client,
    ):
        client.run(_imported)
        yield client


def _imported():
    import batch2online.dask
    import batch2online.methods.clustering.estimator  # noqa: F401


def peak():
    """Return the largest memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def busy():
    """Return how long this process has kept a processor busy, in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(task, rows, n_workers, start=0, path=None):
    """Fit rows ``start`` to ``rows``, going on with the model in a file where there is one; return measurements."""
    model = batch2online.load(path) if path and start else new_model(task)
    with workers(n_workers) as client:
        given, before = partitions(task, start, rows), sum(client.run(busy).values())
        began = time.perf_counter()
        learn = cluster.partial_fit if start else cluster.fit
        learn(model, given, COLUMNS if task == "regression" else None)
        seconds = time.perf_counter() - began
        peaks, spent = list(client.run(peak).values()), sum(client.run(busy).values()) - before
    if path:
        model.save(path)
    return {
        "task": task,
        "rows": rows,
        "start": start,
        "workers": n_workers,
        "seconds": round(seconds, 2),
        "rows_per_second": round((rows - start) / seconds),
        "rows_per_processor_second": round((rows - start) / spent),
        "peak_megabytes": [round(value) for value in peaks],
        **distance(task, model, rows),
    }


def distance(task, model, rows):
    """Return how far a model is from the truth, in units of its error where that is known."""
    if task == "regression":
        errors = (model.coef_ - COEFFICIENTS) / (NOISE / np.sqrt(rows))
        optimum = model.regret_.optimum / rows
        return {"largest_standard_error": float(np.abs(errors).max()), "mean_square": optimum}
    found = model.cluster_centers_
    apart = np.sqrt(np.square(found[:, None] - CENTERS).sum(axis=2))
    test = DRAW[task](10**9, PARTITION)
    ratio = model.score(test) / -np.square(test[:, None, :] - CENTERS).sum(axis=2).min(axis=1).sum()
    return {"largest_distance_of_a_center": float(apart.min(axis=0).max()), "cost_over_truth": float(ratio)}


def parts(task, n_shards=64):
    """Return what a shard costs: processor seconds to learn a row and to merge, and bytes."""
    given = DRAW[task](0, PARTITION)
    model, shards, seconds = new_model(task), [], []
    for number in range(n_shards):
        rows = given if number < 2 else given[:20_000]
        began = time.process_time()
        shard = model.new_shard(number * PARTITION)
        shard.partial_fit(*((rows[:, :-1], rows[:, -1]) if task == "regression" else (rows,)))
        seconds.append(time.process_time() - began)
        shards.append(pickle.dumps(shard))
    loaded = [pickle.loads(shard) for shard in shards]
    began = time.process_time()
    while len(loaded) > 1:
        loaded = [merged(*loaded[start : start + TOGETHER]) for start in range(0, len(loaded), TOGETHER)]
    merging = (time.process_time() - began) / (n_shards - 1)
    return {"learn_a_row": seconds[1] / PARTITION, "merge": merging, "bytes": len(shards[1])}


def kept(path, found):
    """Add a measurement to a file of lines, and print it."""
    line = json.dumps(found)
    print(line, flush=True)
    if path:
        with open(path, "a") as file:
            file.write(line + os.linesep)
