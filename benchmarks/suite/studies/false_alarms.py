"""The monitor of the order: false alarms in random orders, beside River's detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from river import drift

from batch2online import evaluate
from batch2online.drift.order_monitor import FREEZES
from batch2online.drift.reference_model import ReferenceModel
from batch2online.rows import Rows, ones
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, loaded

FIRST = FREEZES[0][1]
DETECTORS: dict[str, Callable[[], Any]] = {
    "ADWIN": drift.ADWIN,
    "PageHinkley": drift.PageHinkley,
    "KSWIN": partial(drift.KSWIN, seed=0),
}
EVERY = {"ADWIN": 10, "PageHinkley": 10, "KSWIN": 50}
"""Of the orders, each sees one in so many: they are slow."""

SETS = ("diamonds", "cps1988", "flights")
TEXT = (
    "The monitor of all estimators at its level of 1/1,000, and River's detectors with their own defaults on the "
    "loss of the same rows under the same model of the first 600. They were run on a tenth of the orders, KSWIN, "
    "which is slow, on a fiftieth."
)


def measure(form: Form) -> Iterator[Study]:
    rows, orders = form.choose(tiny=1_500, quick=5_000, full=100_000), form.choose(tiny=2, quick=20, full=1_000)
    names = form.sets_of(*SETS, tiny="diabetes")
    alarms = [false_alarms(name, X, y, rows, orders) for name, (X, y) in loaded(names, targets=True) if y is not None]
    if form.name != "tiny":
        X = dict(loaded(("letter",)))["letter"][0]
        alarms.append(false_alarms("letter, no target", X, None, rows, orders))
    yield table(alarms)


def table(alarms: list[dict[str, Any]]) -> Study:
    columns = ["rows", "orders", "monitor, 1/100", "monitor", *DETECTORS]
    note = "Numbers of orders with an alarm; rows are drawn without replacement where there are enough of them."
    return Study("False alarms in random orders", TEXT, columns, alarms, note)


def false_alarms(name: str, X: Any, y: Any, rows: int, orders: int) -> dict[str, Any]:
    """How many random orders raise an alarm."""
    count = dict.fromkeys(["monitor, 1/100", "monitor", *DETECTORS], 0)
    tried = dict.fromkeys(count, 0)
    for seed in range(orders):
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(X))[:rows] if len(X) >= rows else rng.integers(len(X), size=rows)
        points, targets = X[chosen], None if y is None else y[chosen]
        verdict = evaluate.order_test(points, targets, random_state=seed)
        found = {"monitor, 1/100": verdict.evidence >= 2, "monitor": verdict.alarm is not None}
        mine = {detector: make for detector, make in DETECTORS.items() if seed % EVERY[detector] == 0}
        losses = losses_of(points, targets) if mine else ()
        found |= {detector: first_alarm(make, losses) is not None for detector, make in mine.items()}
        for what, is_alarm in found.items():
            count[what] += bool(is_alarm)
            tried[what] += 1
    shown = {what: f"{count[what]} of {tried[what]:,}" for what in count}
    return {"rows": f"{name}, {rows:,}", "orders": f"{orders:,}", **shown}


def losses_of(X: Any, y: Any) -> np.ndarray:
    """Losses under the reference model of the first rows, or distances without targets; squared."""
    targets = np.empty((len(X), 0)) if y is None else y[:, None]
    model = ReferenceModel.of(Rows(X[:FIRST], targets[:FIRST], ones(FIRST), np.arange(FIRST)))
    losses = model.scores(model.values(X[FIRST:], targets[FIRST:]))[0]
    return losses if y is None else losses**2


def first_alarm(make: Callable[[], Any], losses: Any) -> int | None:
    """Rows seen when a detector first finds a change."""
    detector = make()
    for at, loss in enumerate(losses.tolist()):
        detector.update(loss)
        if detector.drift_detected:
            return FIRST + at + 1
    return None
