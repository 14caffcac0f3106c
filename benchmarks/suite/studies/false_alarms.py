"""The monitor of the order: false alarms in random orders, and delays after changes, beside River's detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from river import drift

from batch2online import evaluate
from batch2online.core.rows import Rows, ones
from batch2online.monitor.order import FREEZES
from batch2online.monitor.reference import ReferenceModel
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, loaded

FIRST = FREEZES[0][1]
DETECTORS: dict[str, Callable[[], Any]] = {
    "ADWIN": drift.ADWIN,
    "PageHinkley": drift.PageHinkley,
    "KSWIN": partial(drift.KSWIN, seed=0),
}
SETS = ("diamonds", "cps1988", "flights")
TEXT = (
    "The monitor of all estimators at its level of 1/1,000, and River's detectors with their own defaults on the loss "
    "of the same rows under the same model of the first 600. KSWIN is slow, and saw a fiftieth of the orders."
)
CHANGE = 20_000


def measure(form: Form) -> Iterator[Study]:
    rows, orders = form.choose(tiny=1_500, quick=5_000, full=20_000), form.choose(tiny=2, quick=20, full=1_000)
    names = form.sets_of(*SETS, tiny="diabetes")
    alarms = [false_alarms(name, X, y, rows, orders) for name, (X, y) in loaded(names, targets=True) if y is not None]
    if form.name != "tiny":
        X = dict(loaded(("letter",)))["letter"][0]
        alarms.append(false_alarms("letter, no target", X, None, rows, orders))
    columns = ["rows", "orders", "monitor, 1/100", "monitor", *DETECTORS]
    note = (
        "Orders of so many rows, drawn without replacement where there are enough of them, in which there was an alarm."
    )
    yield Study("drift", "False alarms in random orders", TEXT, columns, alarms, note)
    seeds = form.seeds_of(20)
    delays = [record for name, (X, y) in loaded(names, targets=True) for record in of_changes(name, X, y, seeds, form)]
    note = (
        f"Rows from the change at row {CHANGE:,} of a random order to the alarm: median over {len(seeds)} orders, in "
        "brackets how many noticed. An alarm before the change counts as none. Below them the streams as they are "
        "shipped, and sorted."
    )
    yield Study("drift", "Delays after changes", TEXT, ["stream", "monitor", *list(DETECTORS)[:2]], delays, note)


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
        slow = {"ADWIN": 5, "PageHinkley": 5, "KSWIN": 50}
        mine = {detector: make for detector, make in DETECTORS.items() if seed % slow[detector] == 0}
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
    losses = model.scores(X[FIRST:], targets[FIRST:])[0]
    return losses if y is None else losses**2


def first_alarm(make: Callable[[], Any], losses: Any) -> int | None:
    """Rows seen when a detector first finds a change."""
    detector = make()
    for at, loss in enumerate(losses.tolist()):
        detector.update(loss)
        if detector.drift_detected:
            return FIRST + at + 1
    return None


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


def of_changes(name: str, X: Any, y: Any, seeds: list[int], form: Form) -> Iterator[dict[str, Any]]:
    at = form.choose(tiny=len(X) // 2, quick=CHANGE, full=CHANGE) if len(X) > 1.5 * CHANGE else len(X) // 2
    for change, apply in list(CHANGES.items())[: form.choose(tiny=1, quick=2, full=6)]:
        delays: dict[str, list[float]] = {}
        for seed in seeds:
            rng = np.random.default_rng(1_000 + seed)
            chosen = rng.permutation(len(X))[: 2 * at]
            points, targets = X[chosen], y[chosen].copy()
            points[at:], targets[at:] = apply(points[at:], targets[at:], rng)
            for what, alarm in alarms_of(points, targets).items():
                delays.setdefault(what, []).append(np.inf if alarm is None or alarm <= at else alarm - at)
        yield {"stream": f"{name}, {change}", **{what: _median(found) for what, found in delays.items()}}
    yield from of_orders(name, X, y)


def of_orders(name: str, X: Any, y: Any) -> Iterator[dict[str, Any]]:
    parts = np.array_split(np.argsort(X[:, 0], kind="stable"), 10)
    blocks = np.concatenate([parts[place] for place in np.random.default_rng(0).permutation(10)])
    orders = {"as shipped": np.arange(len(X)), "sorted by target": np.argsort(y, kind="stable"), "blocks": blocks}
    for order, rows in orders.items():
        found = alarms_of(X[rows], y[rows])
        yield {
            "stream": f"{name}, {order}",
            **{what: "none" if at is None else f"row {at:,}" for what, at in found.items()},
        }


def alarms_of(X: Any, y: Any) -> dict[str, int | None]:
    losses = losses_of(X, y)
    quick = {detector: first_alarm(make, losses) for detector, make in list(DETECTORS.items())[:2]}
    return {"monitor": evaluate.order_test(X, y).alarm, **quick}


def _median(delays: list[float]) -> str:
    found = sum(np.isfinite(delays))
    median = np.median(delays)
    return f"{median:,.0f} ({found})" if np.isfinite(median) else f"- ({found})"
