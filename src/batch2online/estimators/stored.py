"""What must hold of the state of an estimator that comes out of a file."""

from __future__ import annotations

from inspect import signature
from typing import Any, Literal

from batch2online.core.kinds import conforms
from batch2online.core.registry import require
from batch2online.engine import invariants  # noqa: F401  # registers what must hold of the parts
from batch2online.engine.online import Online
from batch2online.refresh import Policy

Trusted = Literal[True] | list[str] | tuple[str, ...] | None
"""What a caller may trust, see :func:`batch2online.load`."""

_Plain = bool | int | float | str | None


def check_state(state: Any, cls: Any) -> None:
    """Raise ValueError unless this is the state of an estimator of this class."""
    require(isinstance(state.get("params"), dict), "an estimator has parameters.")
    unknown = state["params"].keys() - signature(cls).parameters.keys()
    require(not unknown, f"a {cls.__name__} has other parameters: {sorted(unknown)[:5]}.")
    engine, columns = state.get("engine"), state.get("columns")
    require(isinstance(engine, Online), "an estimator has an engine.")
    require(isinstance(engine.problem, cls._problem), f"the engine of a {cls.__name__} solves another problem.")
    require(conforms(columns, list[str] | None), "names of columns are strings.")
    require(columns is None or len(columns) == engine.width, "each column has a name.")


def check_plain(params: dict[str, Any]) -> None:
    """Raise ValueError unless all parameters are plain values or policies."""
    for name, value in params.items():
        require(conforms(value, _Plain | Policy), f"{name} is no parameter.")
