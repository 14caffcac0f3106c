"""Connections that are closed when a request does not begin in time."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

SECONDS = 10.0
"""Time from the first byte of a request, or from the beginning of a connection, to the end of the headers."""


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """The protocol of uvicorn, which by itself would wait for the headers of a request for ever."""

    _timer: TimerHandle | None = None
    _after: Any = None
    """The request before the one that is awaited."""

    def connection_made(self, transport: Transport) -> None:
        """Wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request that has begun."""
        super().data_received(data)
        if self._is_idle() and self._after is not self.cycle:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._after, self._timer = self.cycle, self.loop.call_later(SECONDS, self._close_if_late)

    def _close_if_late(self) -> None:
        if self.cycle is self._after:
            self.transport.close()
