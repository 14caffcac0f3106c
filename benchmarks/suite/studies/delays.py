"""The monitor of the order: delays after changes, and where streams begin to be told from random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from batch2online import evaluate
from benchmarks.suite import in_time
from benchmarks.suite.form import Form
from benchmarks.suite.studies.false_alarms import DETECTORS, SETS, first_alarm, losses_of
from benchmarks.suite.study import Study, loaded

CHANGE, LATE = 20_000, 200_000
TEXT = (
    "The monitor at its level of 1/1,000, and River's detectors with their own defaults on the loss of the same rows "
    "under the same model of the first 600."
)
NOTE = (
    "Rows from a change at row 20,000 of a random order to the alarm, or at row 200,000 where the name says late: "
    "median of 20 orders, in brackets the number of orders with an alarm; for KSWIN, which is slow, over 4, and none "
    "of the late ones. An alarm before the change does not count. The other lines give the row of the alarm on "
    "streams in their original order, sorted, and in ten blocks."
)


def measure(form: Form) -> Iterator[Study]:
    names = form.sets_of(*SETS, tiny="diabetes")
    records = [r for name, (X, y) in loaded(names, targets=True) for r in of_set(name, X, y, form)]
    yield table(records + ([] if form.name == "tiny" else in_the_order_of_time()))


def table(records: list[dict[str, Any]]) -> Study:
    return Study("Delays after changes", TEXT, ["stream", "monitor", *DETECTORS], records, NOTE)


def of_set(name: str, X: Any, y: Any, form: Form) -> Iterator[dict[str, Any]]:
    """Delays in random orders of one set, and the orders in which it is shipped or sorted."""
    at = CHANGE if len(X) > 1.5 * CHANGE else len(X) // 2
    yield from of_changes(name, X, y, form, at, list(CHANGES)[: form.choose(tiny=1, quick=2, full=6)])
    if len(X) > 1.5 * LATE:
        yield from of_changes(f"{name}, late", X, y, form, LATE, list(CHANGES)[:4])
    yield from of_orders(name, X, y)


def shifted(X: Any, y: Any, rng: Any, by: float) -> Any:
    return X, y + by * y.std()


def scaled(X: Any, y: Any, rng: Any, by: float) -> Any:
    design = np.column_stack([np.ones(len(X)), X])
    predicted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return X, predicted + by * (y - predicted)


def gradual(X: Any, y: Any, rng: Any) -> Any:
    return X, y + 0.5 * y.std() * np.minimum(1, np.arange(len(y)) / 10_000)


def recurring(X: Any, y: Any, rng: Any) -> Any:
    return X, y + 0.3 * y.std() * (np.arange(len(y)) // 1_000 % 2 == 0)


CHANGES: dict[str, Callable[..., Any]] = {
    "target + 0.1 sd": partial(shifted, by=0.1),
    "target + 0.3 sd": partial(shifted, by=0.3),
    "residual x 0.7": partial(scaled, by=0.7),
    "residual x 1.5": partial(scaled, by=1.5),
    "gradual, + 0.5 sd in 10,000 rows": gradual,
    "recurring, + 0.3 sd every other 1,000 rows": recurring,
}


def of_changes(name: str, X: Any, y: Any, form: Form, at: int, changes: list[str]) -> Iterator[dict[str, Any]]:
    for change in changes:
        delays: dict[str, list[float]] = {}
        for number, seed in enumerate(form.seeds_of(20)):
            rng = np.random.default_rng(1_000 + seed)
            chosen = rng.permutation(len(X))[: min(2 * at, at + CHANGE)]
            points, targets = X[chosen], y[chosen].copy()
            points[at:], targets[at:] = CHANGES[change](points[at:], targets[at:], rng)
            slow = () if number % 5 == 0 and at <= CHANGE else ("KSWIN",)
            for what, alarm in alarms_of(points, targets, without=slow).items():
                delays.setdefault(what, []).append(np.inf if alarm is None or alarm <= at else alarm - at)
        yield {"stream": f"{name}, {change}", **{what: _median(found) for what, found in delays.items()}}


def of_orders(name: str, X: Any, y: Any) -> Iterator[dict[str, Any]]:
    parts = np.array_split(np.argsort(X[:, 0], kind="stable"), 10)
    blocks = np.concatenate([parts[place] for place in np.random.default_rng(0).permutation(10)])
    orders = {"as shipped": np.arange(len(X)), "sorted by target": np.argsort(y, kind="stable"), "blocks": blocks}
    for order, rows in orders.items():
        yield {"stream": f"{name}, {order}", **_rows(alarms_of(X[rows], y[rows]))}


def in_the_order_of_time() -> list[dict[str, Any]]:
    found = {name: in_time.labelled(name) for name in in_time.FILES}
    known = {name: stream for name, stream in found.items() if stream is not None}
    return [{"stream": f"{name}, as shipped", **_rows(alarms_of(X, y.astype(float)))} for name, (X, y) in known.items()]


def alarms_of(X: Any, y: Any, without: tuple[str, ...] = ()) -> dict[str, int | None]:
    losses = losses_of(X, y)
    rivals = {name: first_alarm(make, losses) for name, make in DETECTORS.items() if name not in without}
    return {"monitor": evaluate.order_test(X, y).alarm, **rivals}


def _rows(found: dict[str, int | None]) -> dict[str, str]:
    return {what: "none" if at is None else f"row {at:,}" for what, at in found.items()}


def _median(delays: list[float]) -> str:
    found = sum(np.isfinite(delays))
    median = np.median(delays)
    return f"{median:,.0f} ({found})" if np.isfinite(median) else f"- ({found})"
