"""Errors of requests as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
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


async def on_request_error(request: Request, error: Exception) -> Response:
    """Answer a request that raised a :class:`RequestError`."""
    assert isinstance(error, RequestError)
    return problem_response(error)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer a request for an address or a method that there is not."""
    assert isinstance(error, HTTPException)
    problem = RequestError(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")
    problem.headers.update(error.headers or {})
    return problem_response(problem)


async def on_error(request: Request, error: Exception) -> Response:
    """Answer a request that failed for a reason of the service, without details of it."""
    return problem_response(RequestError(500, "The service failed; its log says why."))
