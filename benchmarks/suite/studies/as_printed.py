"""Algorithm 1 as printed against ours: quadratic time against linear.

The naive side is Algorithm 5 of the paper with its errata: at every row, leverage scores of all rows so far, a fresh
sketch of as many rows as our coreset has, and least squares on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from batch2online import OnlineRegression, reference
from benchmarks.suite.contest import feed
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, loaded

EPSILON, STRIDE = 0.1, 100
TEXT = (
    "The paper's Algorithm 5 with its errata (`reference.online_regression`), which draws a sketch of all rows so far "
    "at every row, against `OnlineRegression(epsilon=0.1)` fed single rows and chunks of 1,000. Diamonds in random "
    "order, processor seconds; loss of each row under the model before it, from row 1,000 on. Above "
    "10,000 rows the naive side is timed at every 100th step, and its figures are 100 times that."
)
COLUMNS = ["rows", "naive, s", "single rows, s", "chunks, s", "naive / single rows", "naive / chunks"]
FORMATS = {"naive, s": ".1f", "loss, naive": ",.1f", "loss, ours": ",.1f"}


def measure(form: Form) -> Iterator[Study]:
    sizes = form.choose(tiny=(200,), quick=(1_000, 2_000, 4_000), full=(1_000, 2_000, 4_000, 8_000, 20_000))
    records = []
    for _, (X, y) in loaded(form.choose(tiny=("diabetes",), quick=("diamonds",), full=("diamonds",)), targets=True):
        order = np.random.default_rng(0).permutation(len(X))
        records = [of_size(X[order[:n]], y[order[:n]], form) for n in sizes]
    columns = [*COLUMNS, "loss, naive", "loss, ours"]
    yield Study("Against Algorithm 1 as printed", TEXT, columns, records, formats=FORMATS)


def of_size(X: np.ndarray, y: np.ndarray, form: Form) -> dict[str, Any]:
    singly = min(seconds(lambda: row_by_row(X, y)) for _ in range(form.repeats))
    chunked = min(seconds(lambda: feed(ours(), X, y, form.chunk)) for _ in range(form.repeats))
    model = ours().partial_fit(X, y)
    before = ours().partial_fit(X[: form.chunk], y[: form.chunk]).regret_.loss
    stride = STRIDE if len(X) > 10_000 else 1
    taken, loss = naive(X, y, len(model.coreset_), stride, form.chunk)
    figures = [len(X), taken, singly, chunked, round(taken / singly), round(taken / chunked)]
    losses = {"loss, naive": loss, "loss, ours": model.regret_.loss - before}
    return dict(zip(COLUMNS, figures, strict=True)) | (losses if len(X) > form.chunk else {})


def ours() -> OnlineRegression:
    return OnlineRegression(epsilon=EPSILON, random_state=0)


def naive(X: np.ndarray, y: np.ndarray, m: int, stride: int, first: int) -> tuple[float, float]:
    """Seconds, and squared loss from row ``first`` on, both times the stride."""
    steps = np.arange(stride, len(X) + 1, stride)
    rows = np.column_stack([np.ones(len(X)), X])
    started = time.process_time()
    _, losses = reference.online_regression(np.random.default_rng(0), rows, y, EPSILON, m=m, steps=steps)
    return stride * (time.process_time() - started), stride * float(losses[steps > first].sum())


def row_by_row(X: np.ndarray, y: np.ndarray) -> None:
    model = ours()
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(row, target)


def seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return max(time.process_time() - started, 1e-9)
