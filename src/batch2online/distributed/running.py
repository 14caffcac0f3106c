"""Run delayed work on the scheduler that Dask is configured with; a lost scheduler raises one clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask

Progress = Callable[[int, int], None]
"""Callback invoked with the number of partitions done, and of all partitions."""

_LOST = ("CommClosedError", "FutureCancelledError", "CancelledError", "TimeoutError", "FuturesCancelledError")
_KILLED = "KilledWorker"


class ClusterError(RuntimeError):
    """The cluster was lost, or its workers die on a partition. No model has changed."""


def computed(*wanted: Any, leaves: list[Any] | None = None, progress: Progress | None = None) -> tuple[Any, ...]:
    """Return the results of delayed work; ``progress`` is called as partitions are done."""
    with one_error():
        if leaves is not None and progress is not None:
            wanted = _watched(wanted, leaves, progress)
        return tuple(dask.compute(*wanted))


@contextmanager
def one_error() -> Iterator[None]:
    """Raise one error where the cluster failed, and not what was computed."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if kind in _LOST:
            raise ClusterError(
                f"The scheduler was lost ({kind}: {error}). The model is unchanged: fit again with another scheduler."
            ) from error
        if kind == _KILLED:
            raise ClusterError(
                f"Workers died repeatedly on the same partition ({error}): it is probably too large for their "
                "memory. The model is unchanged."
            ) from error
        raise


def _watched(wanted: tuple[Any, ...], leaves: list[Any], progress: Progress) -> tuple[Any, ...]:
    """Start the work and wait for the leaves one by one, if the scheduler reports them."""
    try:
        from distributed import as_completed, futures_of, get_client

        client = get_client()
    except (ImportError, ValueError):
        return wanted
    started = client.persist([*wanted, *leaves])
    futures = futures_of(started[len(wanted) :])
    for done, _ in enumerate(as_completed(futures), 1):
        progress(done, len(futures))
    return tuple(started[: len(wanted)])
