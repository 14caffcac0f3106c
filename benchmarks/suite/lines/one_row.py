"""The time of ``predict_one``: the best of many rounds, since it is a matter of microseconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import OnlineClustering, OnlineRegression
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

ROUNDS, CALLS = 100, 100


def measure(form: Form) -> Iterator[Line]:
    X = np.random.default_rng(0).normal(size=(2_000, 20))
    names = [f"x{j}" for j in range(20)]
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    regression, clustering = OnlineRegression(random_state=0), OnlineClustering(5, random_state=0)
    for x, row in zip(dicts, X, strict=True):
        regression.learn_one(x, float(row.sum()))
        clustering.learn_one(x)
    for name, model in (("regression", regression), ("clustering, k=5", clustering)):
        for kind, row in (("a dictionary", dicts[0]), ("an array", X[0])):
            text = f"`predict_one`, {name}, {kind} of 20"
            yield Line("single rows", text, microseconds(model, row), at_most=15, unit="µs")


def microseconds(model: Any, row: Any) -> float:
    best = np.inf
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(CALLS):
            model.predict_one(row)
        best = min(best, time.process_time() - started)
    return float(best / CALLS * 1e6)
