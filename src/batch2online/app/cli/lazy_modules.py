"""Import scikit-learn without the modules that it imports and hardly uses: two thirds of the time of its import."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any

_UNUSED = ("scipy.stats", "pandas")
_LOADING = RLock()


class LazyModule(ModuleType):
    """Stands for a module that is imported when an attribute of it is read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # read by every import statement

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            _remove(self)
            module = import_module(self.__name__)
            vars(self).update(vars(module))
        return getattr(module, name)


def _remove(module: LazyModule) -> None:
    """Let further imports import the module itself."""
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def import_scikit_learn() -> None:
    """Import the base of scikit-learn, which refers to a lazy module where it does not need another module yet."""
    missing = [name for name in _UNUSED if name not in sys.modules and find_spec(name.partition(".")[0]) is not None]
    modules = [] if "sklearn" in sys.modules else [LazyModule(name) for name in missing]
    sys.modules.update((module.__name__, module) for module in modules)
    import_module("sklearn.base")
    for module in modules:
        _remove(module)
