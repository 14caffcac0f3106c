"""Who may send a request: tokens, hosts and origins; and how large and how slow its body may be."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from starlette.requests import ClientDisconnect, Request

from batch2online.app.serve.problems import RequestError

Access = Literal["open", "read", "write"]
"""Who may call a route: anybody, holders of any token, or holders of a token that may write."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d*)?", re.ASCII)


@dataclass(frozen=True)
class Tokens:
    """Tokens that may read, and tokens that may also write."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    @classmethod
    def from_file(cls, path: Path) -> Tokens:
        """Read a file with one token a line; ``read TOKEN`` may not write."""
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        read = tuple(words[1] for words in lines if len(words) == 2 and words[0] == "read")
        write = tuple(words[-1] for words in lines if len(words) == 1 or words[0] == "write")
        if not write or len(read) + len(write) < len(lines) or min(map(len, read + write)) < 16:
            raise ValueError(f"{path}: write one token of at least 16 characters a line, or 'read TOKEN'.")
        return cls(read, write)

    def allow(self, given: str, access: Access) -> bool:
        """Return whether a token gives this access; takes the same time for every wrong token."""
        known = self.write if access == "write" else self.write + self.read
        return sum(hmac.compare_digest(given.encode(), token.encode()) for token in known) > 0


@lru_cache(maxsize=16)
def is_loopback(host: str) -> bool:
    """Return whether an address is that of this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_origin(request: Request, tokens: Tokens | None) -> None:
    """Refuse requests that a page of another site makes through a browser.

    Without tokens, requests must name this machine as their host.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if tokens is None:
        named = _HOST.fullmatch(host)
        if named is None or not is_loopback(named[1]):
            raise RequestError(421, f"Host {host!r} is not this machine: start with --token-file to serve others.")
    if origin is not None and origin.partition("://")[2] != host:
        raise RequestError(403, "Requests from pages of other sites are refused.")


def check_token(request: Request, tokens: Tokens | None, access: Access) -> None:
    """Refuse a request whose token does not give this access."""
    if tokens is not None and access != "open":
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not tokens.allow(given.strip(), access):
            raise RequestError(401, "Send a header 'Authorization: Bearer TOKEN'.", www_authenticate="Bearer")


async def read_body(request: Request, max_bytes: int, seconds: float = 60.0) -> bytes:
    """Return the body of a request, of limited size and within limited time."""
    length = request.headers.get("content-length", "0")
    is_number = length.isascii() and length.isdigit() and len(length) < 19
    _check_size(int(length) if is_number else max_bytes + 1, max_bytes)
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                _check_size(size, max_bytes)
                parts.append(part)
    except ClientDisconnect:
        raise RequestError(400, "The connection was closed before the body was complete.") from None
    except TimeoutError:
        raise RequestError(408, f"The body did not arrive within {seconds:g} seconds.") from None
    return b"".join(parts)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise RequestError(413, f"Bodies have at most {max_bytes:,} bytes: send fewer rows at once.")
