"""Problems, peers and lines are found by being there."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Any


def modules(folder: str) -> list[ModuleType]:
    """The modules of a folder of the suite, by name."""
    package = import_module(f"benchmarks.suite.{folder}")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{name}") for name in names]


def learners(problem: Any) -> dict[str, tuple[Any, int | None]]:
    """Names of all learners for a problem, each with the most rows it is given; ours first."""
    found = {}
    for module in sorted(modules("peers"), key=lambda module: not module.__name__.endswith(".ours")):
        if hasattr(module, problem.NAME):
            made = getattr(module, problem.NAME)(problem.K)
            found |= {name: (model, getattr(module, "MOST_ROWS", None)) for name, model in made.items()}
    return found
