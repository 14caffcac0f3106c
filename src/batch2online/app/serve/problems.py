"""Errors of requests as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response


class RequestError(Exception):
    """A request that cannot be carried out: a status, and a sentence that says what to do."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class ProblemBody(msgspec.Struct):
    """Content of an error."""

    title: str
    status: int
    detail: str


def problem_response(problem: RequestError) -> Response:
    """Return the response to a request that failed."""
    body = ProblemBody(HTTPStatus(problem.status).phrase, problem.status, problem.detail)
    return Response(msgspec.json.encode(body), problem.status, problem.headers, media_type="application/problem+json")
