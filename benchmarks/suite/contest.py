"""Runs timed in turn, so that what else the machine does hits all of them alike."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Run = Callable[[], object]


class Ratio(float):
    """A ratio of medians that knows the lowest and the highest ratio of single turns."""

    low: float
    high: float

    @classmethod
    def of(cls, value: float, turns: Sequence[float]) -> Ratio:
        ratio = cls(value)
        ratio.low, ratio.high = min(turns), max(turns)
        return ratio


@dataclass
class Timing:
    """Seconds of each repetition: of the processor, which a busy machine disturbs least, and elapsed."""

    rows: int
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Median processor time."""
        return float(np.median(self.cpu))

    @property
    def per_row(self) -> float:
        return self.seconds / self.rows

    @property
    def elapsed(self) -> float:
        return float(np.median(self.wall))

    def __truediv__(self, other: Timing) -> Ratio:
        """Time a row over that of another, both measured in the same turns."""
        turns = [own / others * other.rows / self.rows for own, others in zip(self.cpu, other.cpu, strict=True)]
        return Ratio.of(self.per_row / other.per_row, turns)

    @property
    def spread(self) -> float:
        """Half the range of the repetitions over their median."""
        return (max(self.cpu) - min(self.cpu)) / 2 / self.seconds

    def time(self, run: Run) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(max(time.process_time() - cpu, 1e-9))

    def record(self) -> dict[str, float]:
        return {
            "rows": self.rows,
            "rows_per_second": 1 / self.per_row,
            "rows_per_second_elapsed": self.rows / self.elapsed,
            "spread": self.spread,
        }


def contest(runs: Mapping[str, tuple[int, Run]], repeats: int) -> dict[str, Timing]:
    """Time runs, each given with its number of rows, in interleaved repetitions."""
    timings = {name: Timing(rows) for name, (rows, _) in runs.items()}
    for _ in range(repeats):
        for name, (_, run) in runs.items():
            timings[name].time(run)
    return timings


def feed(model: Any, X: np.ndarray, y: np.ndarray | None, chunk: int) -> Any:
    """Hand all rows to ``partial_fit``, a chunk at a time."""
    for start in range(0, len(X), chunk):
        rows = slice(start, start + chunk)
        if y is None:
            model.partial_fit(X[rows])
        else:
            model.partial_fit(X[rows], y[rows])
    return model


def peak_memory(run: Run) -> int:
    """Most bytes allocated at once during a run, mapped files apart."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
