"""Whether wrapped estimators may be fitted: opening a file fits nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class FitNeededError(RuntimeError):
    """An estimator would have to be fitted to open a file, which fits nothing."""


may_fit: ContextVar[bool] = ContextVar("may_fit", default=True)


@contextmanager
def without_fitting() -> Iterator[None]:
    """Let every fit of a wrapped estimator or function raise :class:`FitNeededError`."""
    token = may_fit.set(False)
    try:
        yield
    finally:
        may_fit.reset(token)
