"""What the condition number of rows costs: time of ``coresets.Leverage`` by the coordinates that the data choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online.coresets import Leverage
from benchmarks.suite.contest import contest
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

IS_TIMED = True
COLUMNS, CHUNK = 20, 10_000
TEXT = "300,000 rows of 20 columns into `coresets.Leverage`, processor time; *times* is relative to the first line."


def measure(form: Form) -> Iterator[Study]:
    n = form.choose(tiny=20_000, quick=300_000, full=300_000)
    streams = {condition: drawn(n, condition) for condition in (1e0, 1e4, 1e7)}
    runs = {f"{condition:.0e}": (n, lambda X=X: learned(X)) for condition, X in streams.items()}
    times = contest(runs, form.repeats)
    first, records = next(iter(times.values())), []
    for (name, timing), X in zip(times.items(), streams.values(), strict=True):
        kind = "plain" if learned(X).sketch.moments.is_plain else "whitened or QR"
        figures: dict[str, Any] = {"ns a row": round(timing.per_row * 1e9), "times": float(timing / first)}
        records.append({"condition": name, "coordinates": kind, **figures})
    columns = ["condition", "coordinates", "ns a row", "times"]
    yield Study("", TEXT, columns, records, formats={"times": ".1f"})


def drawn(n: int, condition: float) -> np.ndarray:
    """Gaussian rows, squeezed along random directions."""
    rng = np.random.default_rng(0)
    gaussian = rng.normal(size=(n, COLUMNS))
    basis, _ = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))
    return np.ascontiguousarray(gaussian * np.geomspace(1, 1 / condition, COLUMNS) @ basis.T)


def learned(X: np.ndarray) -> Leverage:
    coreset = Leverage(intercept=True, coreset_size=1000, random_state=0)
    for start in range(0, len(X), CHUNK):
        coreset.add(X[start : start + CHUNK])
    return coreset
