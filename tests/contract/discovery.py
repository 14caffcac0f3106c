"""Every concrete estimator and coreset of the package, and of ``examples/own_problem.py``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import batch2online
from batch2online.extend import CoresetBuilder, OnlineEstimator

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_problem.py"


def found(base: type) -> dict[str, type]:
    """Concrete subclasses of ``base`` by name, each where it is defined."""
    classes = {}
    for module in modules():
        for cls in vars(module).values():
            if _is_concrete(cls, base) and cls.__module__ == module.__name__:
                classes[cls.__name__] = cls
    return classes


def estimators() -> dict[str, type]:
    return found(OnlineEstimator)


def constructions() -> dict[str, type]:
    return found(CoresetBuilder)


def modules() -> Iterator[ModuleType]:
    """All modules of the package, subpackages included, and the example; those for Spark if it is installed."""
    left_out = ("__main__", ".windows", *(() if importlib.util.find_spec("pyspark") else (".spark",)))
    for info in pkgutil.walk_packages(batch2online.__path__, "batch2online."):
        if not info.name.endswith(left_out):
            yield importlib.import_module(info.name)
    yield example()


def example() -> ModuleType:
    """``examples/own_problem.py``, imported once."""
    if EXAMPLE.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(EXAMPLE.stem, EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[EXAMPLE.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[EXAMPLE.stem])
    return sys.modules[EXAMPLE.stem]


def _is_concrete(cls: object, base: type) -> bool:
    return inspect.isclass(cls) and issubclass(cls, base) and cls is not base and not inspect.isabstract(cls)


def assert_known(name: str, cls: type) -> None:
    """Fail for a class that the contract does not know how to make."""
    from contract.cases import CASES, PARTS

    assert name in CASES or name in PARTS, (
        f"{cls.__module__}.{name} is in the package, but the contract does not know how to make it: "
        "add a case to tests/contract/cases.py."
    )
