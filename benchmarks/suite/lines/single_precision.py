"""float32 input: no float64 copy of the whole chunk, and the results of float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.suite.contest import contest, feed, peak_memory
from benchmarks.suite.discovery import modules
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

GROUP, BOUND = "float32", 1e-6
MODELS = {"regression": "coef_", "lowrank": "components_", "clustering": "cluster_centers_"}


def measure(form: Form) -> Iterator[Line]:
    rows = form.choose(tiny=2_000, quick=100_000, full=200_000)
    for problem in modules("problems"):
        X, y = problem.draw(np.random.default_rng(0), rows, problem.COLUMNS)
        single = X.astype(np.float32)
        double = single.astype(np.float64)
        name = f"{problem.NAME}, {rows:,} x {problem.COLUMNS}"
        yield from compared(problem, name, single, double, y, form)


def compared(
    problem: Any, name: str, single: np.ndarray, double: np.ndarray, y: np.ndarray | None, form: Form
) -> Iterator[Line]:
    chunk = len(single) // 2

    def peak(X: np.ndarray) -> int:
        """What the second of two chunks needs while it is learned: the first starts a model."""
        model = feed(problem.learner(), X[:chunk], None if y is None else y[:chunk], chunk)
        return peak_memory(lambda: feed(model, X[chunk:], None if y is None else y[chunk:], chunk))

    extra = (peak(single) - peak(double)) / double[chunk:].nbytes
    yield Line(GROUP, f"memory beyond that for float64 / a float64 copy of the chunk, {name}", extra, at_most=0.5)
    ours = {kind: feed(problem.learner(), X, y, 10_000) for kind, X in (("single", single), ("double", double))}
    model = {kind: getattr(each, MODELS[problem.NAME]) for kind, each in ours.items()}
    difference = np.abs(model["single"] - model["double"]).max() / np.abs(model["double"]).max()
    yield Line(GROUP, f"largest difference of the model, {name}", float(difference), at_most=BOUND, unit="")
    times = contest(
        {
            "single": (len(single), lambda: feed(problem.learner(), single, y, 10_000)),
            "double": (len(double), lambda: feed(problem.learner(), double, y, 10_000)),
        },
        form.repeats,
    )
    yield Line(GROUP, f"time / that of float64, {name}", times["single"] / times["double"])
