"""The time of ``predict_one``, also over River's: the best of many rounds, since it is a matter of microseconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import OnlineClassifier, OnlineClustering, OnlineRegression
from batch2online.baselines.peers import named
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

ROUNDS, CALLS = 100, 100
RIVER = named("River LinearRegression")


def measure(form: Form) -> Iterator[Line]:
    X = np.random.default_rng(0).normal(size=(2_000, 20))
    names = [f"x{j}" for j in range(20)]
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    regression, clustering = OnlineRegression(random_state=0), OnlineClustering(5, random_state=0)
    classifier, river = OnlineClassifier(random_state=0), RIVER.make("regression")
    for x, row in zip(dicts, X, strict=True):
        regression.learn_one(x, float(row.sum()))
        clustering.learn_one(x)
        classifier.learn_one(x, bool(row.sum() > 0))
        river.learn_one(x, float(row.sum()))
    models = {"regression": regression, "classification": classifier, "clustering, k=5": clustering}
    for name, model in models.items():
        for kind, row in (("a dictionary", dicts[0]), ("an array", X[0])):
            text = f"`predict_one`, {name}, {kind} of 20"
            yield Line("single rows", text, microseconds(model, row), at_most=15, unit="µs")
    ratio = microseconds(regression, dicts[0]) / microseconds(river, dicts[0])
    text = "`predict_one` / that of River `LinearRegression`, a dictionary of 20"
    yield Line("single rows", text, ratio, at_most=2)


def microseconds(model: Any, row: Any) -> float:
    best = np.inf
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(CALLS):
            model.predict_one(row)
        best = min(best, time.process_time() - started)
    return float(best / CALLS * 1e6)
