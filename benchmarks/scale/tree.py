"""A tree of ten thousand shards, for real: each learns a few rows and travels as bytes, then pairs of eights merge."""

import pickle
import time

from batch2online.distributed.shards import TOGETHER, merged
from benchmarks.scale.measure import new_model
from benchmarks.scale.rows import DRAW

ROWS = 200


def run(task, n_shards):
    """Return processor seconds and bytes of a tree, and whether its model is that of one shard of all rows."""
    model, whole, level = new_model(task), new_model(task).new_shard(0), []
    began = time.process_time()
    for number in range(n_shards):
        given = _given(task, number)
        level.append(pickle.dumps(model.new_shard(number * ROWS).partial_fit(*given)))
    learning, began, largest = time.process_time() - began, time.process_time(), 0
    while len(level) > 1:
        groups = [level[start : start + TOGETHER] for start in range(0, len(level), TOGETHER)]
        level = [pickle.dumps(merged(*map(pickle.loads, group))) for group in groups]
        largest = max(largest, *map(len, level))
    merging = time.process_time() - began
    root = pickle.loads(level[0])
    found = {"task": task, "shards": n_shards, "rows": root.n_seen_, "learning": learning, "merging": merging}
    if task == "regression":
        for number in range(n_shards):
            whole.partial_fit(*_given(task, number))
        found["same_bits"] = bool((whole.coef_ == root.coef_).all() and whole.coreset_ == root.coreset_)
    return found | {"bytes": len(level[0]), "largest_bytes": largest}


def _given(task, number):
    rows = DRAW[task](number, ROWS)
    return (rows[:, :-1], rows[:, -1]) if task == "regression" else (rows,)
