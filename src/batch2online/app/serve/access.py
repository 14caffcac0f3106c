"""Who may do what: tokens, addresses, sizes and times of requests, and headers of responses."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from batch2online.app.serve.problems import RequestError, problem_response

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = frozenset({"/v2/health/live", "/v2/health/ready"})
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


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

    def allow(self, given: str, *, writing: bool) -> bool:
        """Return whether a token allows to read or write; takes the same time for every wrong token."""
        known = self.write if writing else self.write + self.read
        return sum(hmac.compare_digest(given.encode(), token.encode()) for token in known) > 0


def is_loopback(host: str) -> bool:
    """Return whether an address is that of this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """Check each request before it is read, and add headers to each response.

    Parameters
    ----------
    app : ASGI application
        What answers.
    tokens : Tokens or None
        None asks for none; then requests must name this machine as their host, so that no page of another site can
        reach the service through a browser.
    max_bytes : int
        Largest body.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens | None, max_bytes: int) -> None:
        self.app, self.tokens, self.max_bytes = app, tokens, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        try:
            self._check(Request(scope))
        except RequestError as problem:
            await problem_response(problem)(scope, receive, with_headers)
            return
        await self.app(scope, receive, with_headers)

    def _check(self, request: Request) -> None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if self.tokens is None and not is_loopback(urlsplit(f"//{host}").hostname or ""):
            raise RequestError(421, f"Host {host!r} is not this machine: start with --token-file to serve others.")
        if origin is not None and urlsplit(origin).netloc != host:
            raise RequestError(403, "Requests from pages of other sites are refused.")
        if self.tokens is not None and request.url.path not in _OPEN:
            kind, _, given = request.headers.get("authorization", "").partition(" ")
            writing = request.method not in _READING and not request.url.path.endswith(("/predict", "/infer"))
            if kind.lower() != "bearer" or not self.tokens.allow(given.strip(), writing=writing):
                raise RequestError(401, "Send a header 'Authorization: Bearer TOKEN'.", www_authenticate="Bearer")
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.max_bytes:
            raise RequestError(413, f"Bodies have at most {self.max_bytes:,} bytes: send fewer rows at once.")


async def read_body(request: Request, max_bytes: int, seconds: float = 60.0) -> bytes:
    """Return the body of a request, of limited size and within limited time."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > max_bytes:
                    raise RequestError(413, f"Bodies have at most {max_bytes:,} bytes: send fewer rows at once.")
                parts.append(part)
    except ClientDisconnect:
        raise RequestError(400, "The connection was closed before the body was complete.") from None
    except TimeoutError:
        raise RequestError(408, f"The body did not arrive within {seconds:g} seconds.") from None
    return b"".join(parts)
