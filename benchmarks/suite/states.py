"""Sizes of a state along a stream. They swing, up to three times, between two thinnings: medians are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online.storage.tree import parts_of
from benchmarks.suite.line import Line

LOOKS = 24


@dataclass(frozen=True)
class States:
    """Bytes of the state at looks between half of so many rows and all of them."""

    rows: int
    sizes: list[int]

    @property
    def median(self) -> float:
        return float(np.median(self.sizes))

    def __str__(self) -> str:
        return f"{self.median / 1e6:.2f} MB (at most {max(self.sizes) / 1e6:.2f})"


def states(problem: Any, columns: int, last: int, chunk: int) -> tuple[States, States]:
    """Those up to a tenth of the rows, and those up to the last."""
    rng, model, found = np.random.default_rng(1), problem.learner(), (States(last // 10, []), States(last, []))
    looks = [_looks(each.rows, chunk) for each in found]
    for seen in range(chunk, last + 1, chunk):
        model.partial_fit(*(part for part in problem.draw(rng, chunk, columns) if part is not None))
        for each, at in zip(found, looks, strict=True):
            if seen in at:
                each.sizes.append(sum(map(len, parts_of(model._state()))))
    return found


def _looks(rows: int, chunk: int) -> set[int]:
    return {chunk * round(rows * share / chunk) for share in np.linspace(0.5, 1, LOOKS)}


def line(group: str, found: tuple[States, States], at_most: float) -> Line:
    early, late = found
    text = f"usual state up to {late.rows:,} rows / up to {early.rows:,}"
    return Line(group, text, late.median / early.median, at_most=at_most, note=f"{early}, then {late}")
