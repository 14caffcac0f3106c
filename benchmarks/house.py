"""Measure how much of the package a reader meets: ``python -m benchmarks.house [--json FILE]``.

Lines of the package, modules that one import loads, classes that an estimator inherits from, files that one refresh
crosses, folders that import each other in a circle, public names of a sketch, words of the glossary.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import batch2online
from batch2online import extend

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(batch2online.__file__).parent
ESTIMATORS = ("BatchToOnline", "OnlineClassifier", "OnlineClustering", "OnlineLowRank", "OnlineRegression")


def lines() -> int:
    return sum(len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py"))


def modules_loaded() -> int:
    code = (
        "import sys; from batch2online import OnlineRegression;"
        "print(sum(name.split('.')[0] == 'batch2online' for name in sys.modules))"
    )
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def own_classes() -> dict[str, int]:
    """Return how many classes of the package each estimator consists of, itself included."""
    found = {}
    for name in ESTIMATORS:
        classes = getattr(batch2online, name).__mro__
        found[name] = sum(each.__module__.split(".")[0] == "batch2online" for each in classes)
    return found


def sketch_names() -> int:
    """Return the number of public attributes of the base of all sketches."""
    base = extend.Sketch
    declared = {name for each in base.__mro__ for name in getattr(each, "__annotations__", {})}
    return sum(not name.startswith("_") for name in declared | {name for name, _ in inspect.getmembers(base)})


def glossary() -> int:
    page = ROOT / "docs" / "glossary.md"
    rows = page.read_text().splitlines() if page.exists() else []
    return sum(row.startswith("| **") for row in rows)


# -- files that one refresh crosses ----------------------------------------------------------------------


def crossings() -> dict[str, tuple[int, int]]:
    """Return for the last change of each stream how many files its calls are in, and how often the file changes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 5)) + 4 * random.integers(3, size=(20_000, 1))
    y = X.sum(axis=1) + random.normal(size=len(X))
    return {
        "regression": _crossed(lambda: batch2online.OnlineRegression(random_state=0), X, y),
        "clustering": _crossed(lambda: batch2online.OnlineClustering(3, random_state=0), X, None),
        "classifier": _crossed(
            lambda: batch2online.OnlineClassifier(random_state=0), X, (y > np.median(y)).astype(int)
        ),
    }


def _crossed(make: Callable[[], Any], X: Any, y: Any) -> tuple[int, int]:
    def learn(model: Any, start: int, stop: int) -> Any:
        return model.partial_fit(*(values[start:stop] for values in (X, y) if values is not None))

    at = learn(make(), 0, len(X)).changes_[-1].at
    model, files = learn(make(), 0, at - 1), []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        learn(model, at - 1, at)
    finally:
        sys.setprofile(None)
    return len(set(files)), sum(a != b for a, b in itertools.pairwise(files))


# -- folders that import each other ----------------------------------------------------------------------


PLUG_IN = ("estimator", "app")
"""``report`` and ``plot`` of an estimator look up ``app.report`` by name: the one import that goes up."""


def cycles() -> list[list[str]]:
    """Return groups of folders (or modules at the top) that import each other in a circle, lazy imports counted."""
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        unit = _unit(path.relative_to(PACKAGE).with_suffix("").parts)
        graph.setdefault(unit, set()).update(set(_imported(ast.parse(path.read_text()))) - {unit})
    graph[PLUG_IN[0]].discard(PLUG_IN[1])
    reached = {unit: _reachable(graph, unit) for unit in graph}
    groups = {tuple(sorted(v for v in reached[u] if u in reached.get(v, ()))) for u in graph if u in reached[u]}
    return [list(group) for group in sorted(groups)]


def _unit(parts: tuple[str, ...]) -> str:
    """Return the folder right below the package, or the module there."""
    return parts[0]


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
    circles = cycles()
    return {
        "lines of the package": lines(),
        "modules loaded by OnlineRegression": modules_loaded(),
        "own classes of an estimator": own_classes(),
        "files and changes of file of one refresh": crossings(),
        "folders in an import cycle": sum(len(group) for group in circles),
        "import cycles": circles,
        "public names of a sketch": sketch_names(),
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
