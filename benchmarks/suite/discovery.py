"""Problems, lines, axes and studies are found by being there."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType


def modules(folder: str) -> list[ModuleType]:
    """The modules of a folder of the suite, by name."""
    package = import_module(f"benchmarks.suite.{folder}")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{name}") for name in names]
