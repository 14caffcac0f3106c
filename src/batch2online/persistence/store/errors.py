"""What can go wrong with a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class StoreError(Exception):
    """A store cannot do what it was asked to do."""


class StoreCorrupted(StoreError):  # noqa: N818  # the name says what it is
    """A store is damaged in a way that no crash explains."""


class StoreLocked(StoreError):  # noqa: N818
    """Another writer is at work on the store."""


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Errors of the system as errors of the store."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{what}: {error}.") from error
