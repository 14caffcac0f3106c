"""What a model on disk costs: calls of 1,000 rows of 8 columns, single rows, saving and loading."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from batch2online import Durable, OnlineRegression, load
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

IS_TIMED = True
ROWS = np.random.default_rng(0).normal(size=(1_000, 8))
TARGETS = ROWS @ np.arange(8.0)
TEXT = (
    "`OnlineRegression`, 1,000 rows of 8 columns in a call, or one: medians of elapsed time, which includes disk "
    "syncs; saving and loading with all rows, the best of three."
)


def measure(form: Form) -> Iterator[Study]:
    calls = form.choose(tiny=5, quick=300, full=1_000)
    with tempfile.TemporaryDirectory() as folder:
        records = [{"": "in memory", "1,000 rows": milliseconds(in_memory(), calls)}]
        for durability in ("os", "batch", "every"):
            with Durable(Path(folder) / durability, OnlineRegression(random_state=0), durability=durability) as model:
                many = milliseconds(lambda model=model: model.partial_fit(ROWS, TARGETS), calls)
                one = milliseconds(lambda model=model: model.learn_one(ROWS[0], TARGETS[0]), calls)
            records.append({"": f'durable, `"{durability}"`', "1,000 rows": many, "one row": one})
        records += files(Path(folder) / "saved", calls)
    yield Study("", TEXT, ["", "1,000 rows", "one row", "MB/s"], records)


def in_memory() -> Callable[[], object]:
    model = OnlineRegression(random_state=0)
    return lambda: model.partial_fit(ROWS, TARGETS)


def files(path: Path, calls: int) -> Iterator[dict[str, str]]:
    model = OnlineRegression(random_state=0, keep_history=True)
    for _ in range(calls):
        model.partial_fit(ROWS, TARGETS)
    megabytes = calls * (ROWS.nbytes + TARGETS.nbytes) / 1e6
    for name, act in {"saving": lambda: model.save(path), "loading": lambda: load(path)}.items():
        yield {"": name, "MB/s": f"{megabytes / min(seconds(act) for _ in range(3)):,.0f}"}


def milliseconds(act: Callable[[], object], calls: int) -> str:
    act()
    return f"{1e3 * float(np.median([seconds(act) for _ in range(calls)])):.2g} ms"


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
