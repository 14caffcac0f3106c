"""Measure how much of the package a reader meets: ``python -m benchmarks.house [--json FILE]``.

Lines and files, methods of the largest classes, accesses to private names of other objects, lines with ``Any``, files
that one refit crosses, calls of one prediction, modules that one import loads, folders that import each other in a
circle, words of the documentation and of its glossary.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

import batch2online

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(batch2online.__file__).parent
APART = ("app", "paper")
"""Folders that are no part of the library."""
LARGEST = {
    "OnlineEstimator": ("extend",),
    "Stream": ("stream", "engine.stream"),
    "Durable": ("durable", "storage.durable"),
}


def lines(folder: Path, suffix: str = "py") -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.rglob(f"*.{suffix}"))


def words(path: Path) -> int:
    return len(path.read_text().split())


def modules_loaded() -> int:
    code = (
        "import sys; from batch2online import OnlineRegression;"
        "print(sum(name.split('.')[0] == 'batch2online' for name in sys.modules))"
    )
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def glossary() -> int:
    page = ROOT / "docs" / "glossary.md"
    rows = page.read_text().splitlines() if page.exists() else []
    return sum(row.startswith("| **") for row in rows)


# -- what stands in the code -----------------------------------------------------------------------------


def methods(name: str) -> int:
    """Return the number of functions and properties of a class and its own bases, private ones included."""
    for home in LARGEST[name]:
        try:
            cls = getattr(import_module(f"batch2online.{home}"), name)
            break
        except (ImportError, AttributeError):
            continue
    own = [each for each in cls.__mro__ if each.__module__.split(".")[0] == "batch2online"]
    kinds = (property, classmethod, staticmethod)
    return len(
        {
            key
            for each in own
            for key, value in vars(each).items()
            if inspect.isfunction(value) or isinstance(value, kinds)
        }
    )


def accesses_to_private_names() -> int:
    """Return how often code reads ``x._name``, where x is not self, cls, ``super()`` or ``type(...)``."""
    return sum(_is_private(node) for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))


def _is_private(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or not re.match("_[^_]", node.attr) or node.attr in ("_replace", "_asdict"):
        return False
    owner = node.value
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name):
        return owner.func.id not in ("super", "type")
    return not (isinstance(owner, ast.Name) and owner.id in ("self", "cls"))


def lines_with_any() -> int:
    found = (line for path in PACKAGE.rglob("*.py") for line in path.read_text().splitlines())
    return sum(re.search(r"\bAny\b", line) is not None for line in found)


# -- what one call crosses -------------------------------------------------------------------------------


def crossings() -> dict[str, tuple[int, int]]:
    """Return how many files the last change of a stream is in, and how often the file changes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(6_000, 5)) + 4 * random.integers(3, size=(6_000, 1))
    y = X.sum(axis=1) + random.normal(size=len(X))
    streams: dict[str, tuple[Callable[[], Any], Any]] = {
        "regression": (lambda: batch2online.OnlineRegression(random_state=0), y),
        "clustering": (lambda: batch2online.OnlineClustering(3, random_state=0), None),
        "classifier": (lambda: batch2online.OnlineClassifier(random_state=0), (y > np.median(y)).astype(int)),
        "wrapped": (lambda: batch2online.BatchToOnline(LinearRegression(), random_state=0), y),
    }
    return {name: _crossed(make, X, targets) for name, (make, targets) in streams.items()}


def _crossed(make: Callable[[], Any], X: Any, y: Any) -> tuple[int, int]:
    """Learn in calls of 50 rows; trace the last call with a change."""

    def learn(model: Any, start: int, stop: int) -> Any:
        for a in range(start, stop, 50):
            model.partial_fit(*(values[a : a + 50] for values in (X, y) if values is not None))
        return model

    start = (learn(make(), 0, len(X)).changes_[-1].at - 1) // 50 * 50
    model = learn(make(), 0, start)
    files = _files(lambda: learn(model, start, start + 50))
    return len(set(files)), sum(a != b for a, b in itertools.pairwise(files))


def calls_of_a_prediction() -> int:
    """Return the calls within the package of a third prediction for one row of a wrapped estimator."""
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = batch2online.BatchToOnline(LinearRegression(), random_state=0).partial_fit(X, X.sum(axis=1))
    for _ in range(2):
        model.predict_one(X[0])
    return len(_files(lambda: model.predict_one(X[0])))


def _files(call: Callable[[], Any]) -> list[str]:
    """Return the file of each call within the package."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


# -- folders that import each other ----------------------------------------------------------------------


LOOKED_UP = (
    *(("estimator", "app"), ("evaluate", "paper"), ("theory", "paper")),
    *(("homes", above) for above in ("durable", "methods")),
)
"""Imports that go up, on first use: of ``report`` and ``plot`` of an estimator, of public names of the paper, and of
the modules whose classes a file names."""


def cycles() -> list[list[str]]:
    """Return groups of folders (or modules at the top) that import each other in a circle, lazy imports counted."""
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        unit = path.relative_to(PACKAGE).with_suffix("").parts[0]
        graph.setdefault(unit, set()).update(set(_imported(ast.parse(path.read_text()))) - {unit})
    for below, above in LOOKED_UP:
        graph[below].discard(above)
    reached = {unit: _reachable(graph, unit) for unit in graph}
    groups = {tuple(sorted(v for v in reached[u] if u in reached.get(v, ()))) for u in graph if u in reached[u]}
    return [list(group) for group in sorted(groups)]


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield what code imports at run time, inside functions as well; blocks for type checkers do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            names = [node.value]  # the name of a module that is imported on first use
        else:
            names = []
            yield from _imported(node)
        for name in names:
            parts = name.split(".")
            if parts[0] == "batch2online" and len(parts) > 1 and _exists(parts[1]):
                yield parts[1]


def _exists(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        unit = waiting.pop()
        if unit not in found:
            found.add(unit)
            waiting.extend(graph.get(unit, ()))
    return found


def measured() -> dict[str, Any]:
    circles, apart = cycles(), sum(lines(PACKAGE / name) for name in APART)
    return {
        "lines of the package": lines(PACKAGE),
        "lines of the library, without app and paper": lines(PACKAGE) - apart,
        "files of the package": sum(1 for _ in PACKAGE.rglob("*.py")),
        "lines of tests": lines(ROOT / "tests"),
        "lines of benchmarks": lines(ROOT / "benchmarks"),
        "methods": {name: methods(name) for name in LARGEST},
        "accesses to private names of other objects": accesses_to_private_names(),
        "lines with Any": lines_with_any(),
        "files and changes of file of a refit": crossings(),
        "calls of a prediction for one row of a wrapped estimator": calls_of_a_prediction(),
        "modules loaded by OnlineRegression": modules_loaded(),
        "folders in an import cycle": sum(len(group) for group in circles),
        "import cycles": circles,
        "words of docs": sum(words(path) for path in (ROOT / "docs").rglob("*.md")),
        "glossary": glossary(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    figures = measured()
    for name, value in figures.items():
        print(f"{name}: {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
