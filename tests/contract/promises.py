"""The list of promises: functions that take a case and fail where it breaks its word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Promise = Callable[..., None]
of_all: dict[str, Promise] = {}
of_estimators: dict[str, Promise] = {}


def promise(where: dict[str, Promise]) -> Callable[[Promise], Promise]:
    """Enter a check in one of the lists, under its name."""

    def enter(check: Promise) -> Promise:
        where[check.__name__] = check
        return check

    return enter


def keep(name: str, case: Any, folder: Any) -> None:
    """Check one promise of a case; ``folder`` is an empty one to write in."""
    (of_all | of_estimators)[name](case, folder)
