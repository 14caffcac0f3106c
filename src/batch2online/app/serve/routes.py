"""Routes: each is a function, declared once, whose signature says what a request has.

A parameter is given to the function by its type or its name:

==============================  =====================================================================================
``ServedModel``                 the model that the path names
``Rows``                        the table in the body, read when the function asks for it
``Once``                        the header ``Idempotency-Key``, with a digest of the request that it stands for
``Request``, shared objects     as they are
named in the path               that part of the path
named ``body``                  the body, decoded from JSON
in ``HEADERS``                  that header
any other                       a parameter of the query
==============================  =====================================================================================

Values are converted to their types, and refused outside their bounds. Access is decided by the route alone. The
description in OpenAPI comes from the same declarations.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta
from sklearn.exceptions import NotFittedError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Address

from batch2online import __version__
from batch2online.app.serve.access import Access, Tokens, check_origin, check_token, read_body
from batch2online.app.serve.bodies import ROWS_SCHEMA, Rows
from batch2online.app.serve.models import ModelFolder, Once, ServedModel
from batch2online.app.serve.options import Options, Settings
from batch2online.app.serve.problems import ProblemBody, RequestError, problem_response
from batch2online.storage.errors import DuplicateKey, StoreError, UnknownKey

Function = TypeVar("Function", bound=Callable[..., Any])

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
KeyColumn = Annotated[str, Meta(min_length=1, description="Column that holds the keys of the rows.")]
OnceKey = Annotated[str, Meta(min_length=1, max_length=200, description="Calls with the same value are one call.")]

HEADERS = {
    "once": "Idempotency-Key",
    "last_event_id": "Last-Event-ID",
    "json_length": "Inference-Header-Content-Length",
}
SCHEMAS: dict[Any, Any] = {Rows: ROWS_SCHEMA, Settings: Options, ServedModel: Name, Once: OnceKey}
"""Types that describe those of some parameters."""

_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a route: its name, its type, its default, and where it comes from."""

    name: str
    kind: Any
    default: Any
    where: str

    @property
    def label(self) -> str:
        """Name in the request."""
        return "name" if self.kind is ServedModel else HEADERS.get(self.name, self.name)

    def value(self, given: str | None) -> Any:
        """Return the value of what a request has given."""
        if given is None:
            return self.default
        try:
            return msgspec.convert(given, OnceKey if self.kind is Once else self.kind, strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            raise RequestError(422, f"{self.label} is {given[:100]!r}: {error}.") from error


@dataclass(frozen=True)
class Route:
    """A route: its method and paths, who may call it, and the function that answers.

    Attributes
    ----------
    writes_with : str
        A parameter of the query with which a route that reads changes the model.
    statuses : tuple of int
        Status of a result; further ones if the function returns a response.
    """

    method: str
    paths: tuple[str, ...]
    access: Access
    function: Callable[..., Any]
    writes_with: str = ""
    statuses: tuple[int, ...] = (200,)

    def access_of(self, request: Request) -> Access:
        """Return what a request needs."""
        return "write" if self.writes_with and self.writes_with in request.query_params else self.access

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the function."""
        found = []
        for each in inspect.signature(self.function).parameters.values():
            kinds = get_args(self._hints[each.name]) if each.default is None else ()
            kind = next((kind for kind in kinds if kind is not type(None)), self._hints[each.name])
            found.append(Parameter(each.name, kind, each.default, self._where(each.name, kind)))
        return tuple(found)

    def _where(self, name: str, kind: Any) -> str:
        if name == "body":
            return "body"
        if kind is ServedModel or any(f"{{{name}}}" in path for path in self.paths):
            return "path"
        if name in HEADERS:
            return "header"
        return "shared" if isinstance(kind, type) and kind not in (str, int) else "query"

    @cached_property
    def has_model(self) -> bool:
        """Whether the path names a model that exists."""
        return any(each.kind is ServedModel for each in self.parameters)

    @cached_property
    def has_body(self) -> bool:
        """Whether the body is read."""
        return any(each.where == "body" for each in self.parameters)

    @property
    def result(self) -> Any:
        """Type of the result as JSON; None if the function returns a response of another kind."""
        returned = self._hints["return"]
        kinds = get_args(returned) if isinstance(returned, UnionType) else (returned,)
        return next((kind for kind in kinds if kind is not Response), None)


ROUTES: list[Route] = []


def route(method: str, *paths: str, access: Access, **declared: Any) -> Callable[[Function], Function]:
    """Declare a function as a route."""

    def declare(function: Function) -> Function:
        ROUTES.append(Route(method, paths, access, function, **declared))
        return function

    return declare


class Dispatcher:
    """Answers requests by the declared routes.

    Parameters
    ----------
    models : ModelFolder
    shared : tuple
        Objects that functions ask for by their types.
    tokens : Tokens or None
        None asks for none; then requests must name this machine as their host.
    max_bytes : int
        Largest body.
    """

    def __init__(self, models: ModelFolder, shared: tuple[Any, ...], tokens: Tokens | None, max_bytes: int) -> None:
        self.models, self.tokens, self.max_bytes = models, tokens, max_bytes
        self.shared = {type(each): each for each in (models, *shared)}

    def addresses(self) -> list[Address]:
        """Return the paths, each with its methods."""
        found: dict[str, dict[str, Route]] = {}
        for each in ROUTES:
            for path in each.paths:
                found.setdefault(path, {})[each.method] = each
        return [Address(path, self._endpoint(routes), methods=list(routes)) for path, routes in found.items()]

    def _endpoint(self, routes: dict[str, Route]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            route = routes.get(request.method) or routes["GET"]  # HEAD
            try:
                check_origin(request, self.tokens)
                check_token(request, self.tokens, route.access_of(request))
                return secured(await self._answered(route, request))
            except RequestError as problem:
                return secured(problem_response(problem))

        return endpoint

    async def _answered(self, route: Route, request: Request) -> Response:
        """Call the function of a route; errors of a model become problems, which the live page shows."""
        model = self.models.get(request.path_params["name"]) if route.has_model else None
        try:
            body = await read_body(request, self.max_bytes) if route.has_body else b""
            given = {each.name: self._argument(each, request, model, body) for each in route.parameters}
            if inspect.iscoroutinefunction(route.function):
                found = await route.function(**given)
            else:
                found = await asyncio.to_thread(route.function, **given)
            return found if isinstance(found, Response) else answer(found, route.statuses[0])
        except _ERRORS as error:
            problem = _problem_of(error)
            if model is not None:
                model.errors.append(problem.detail)
            return problem_response(problem)

    def _argument(self, each: Parameter, request: Request, model: ServedModel | None, body: bytes) -> Any:
        """Return the value of a parameter."""
        if each.kind is ServedModel:
            return model
        if each.kind is Rows:
            return Rows(body, request.headers.get("content-type", ""), self.max_bytes)
        if each.where == "body":
            return body if getattr(each.kind, "__supertype__", None) is bytes else _decoded(body, each.kind)
        if each.where == "shared":
            return request if each.kind is Request else self.shared[each.kind]
        given = {"path": request.path_params, "header": request.headers, "query": request.query_params}[each.where]
        value = each.value(given.get(each.label))
        if each.kind is not Once or value is None:
            return value
        described = f"{request.method} {request.scope['path']}?".encode() + request.scope["query_string"] + b"\n"
        return Once(value, hashlib.sha256(described + body).hexdigest())


_ERRORS = (
    RequestError, StoreError, DuplicateKey, UnknownKey, NotFittedError,
    ValueError, TypeError, AttributeError, ArithmeticError, MemoryError, NotImplementedError,
)  # fmt: skip


def _problem_of(error: Exception) -> RequestError:
    if isinstance(error, RequestError):
        return error
    status = 409 if isinstance(error, DuplicateKey | UnknownKey) else 503 if isinstance(error, StoreError) else 422
    return RequestError(status, str(error) or type(error).__name__)


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(422, f"The body is not what this address expects: {error}") from error


def answer(content: Any, status: int = 200) -> Response:
    """Return a response of JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def secured(response: Response) -> Response:
    """Return a response with the headers that every response has."""
    response.raw_headers += _SECURITY
    return response


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer a request for an address or a method that there is not."""
    assert isinstance(error, HTTPException)
    problem = RequestError(error.status_code, f"{request.method} {request.scope['path']}: {error.detail}.")
    problem.headers.update(error.headers or {})
    return secured(problem_response(problem))


async def on_error(request: Request, error: Exception) -> Response:
    """Answer a request that failed for a reason of the service, without details of it."""
    return secured(problem_response(RequestError(500, "The service failed; its log says why.")))


# -- OpenAPI --------------------------------------------------------------------------------------------------


@cache
def openapi() -> dict[str, Any]:
    """Return the description of the routes that answer JSON, in OpenAPI 3.1."""
    described = [each for each in ROUTES if each.result is not None]
    kinds: list[Any] = [ProblemBody, *(each.result for each in described)]
    kinds += [SCHEMAS.get(each.kind, each.kind) for route in described for each in _sent(route)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    problem = {"description": "What was wrong, and what to do.", "content": {}}
    problem["content"] = {"application/problem+json": {"schema": schema_of[repr(ProblemBody)]}}
    paths: dict[str, Any] = {}
    for route in described:
        result = {"application/json": {"schema": schema_of[repr(route.result)]}}
        operation: dict[str, Any] = {
            "summary": (route.function.__doc__ or "").partition("\n")[0].rstrip("."),
            "responses": {str(status): {"description": "The result.", "content": result} for status in route.statuses},
            "parameters": [],
            "security": [] if route.access == "open" else [{"token": []}],
            "x-access": route.access,
        }
        operation["responses"]["default"] = problem
        of_path: list[dict[str, Any]] = []
        for each in _sent(route):
            schema = schema_of[repr(SCHEMAS.get(each.kind, each.kind))]
            if each.where == "body":
                operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
                continue
            is_path = each.where == "path"
            about = {"name": each.label, "in": each.where, "required": is_path, "schema": schema}
            (of_path if is_path else operation["parameters"]).append(about)
        for path in route.paths:
            own = paths.setdefault(path, {})
            own[route.method.lower()] = operation
            own["parameters"] = [each for each in of_path if f"{{{each['name']}}}" in path]
    title = {"title": "batch2online", "version": __version__, "description": "Models that learn from a stream."}
    tokens = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": title,
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": tokens},
    }


def _sent(route: Route) -> list[Parameter]:
    """Return the parameters that a client sends."""
    return [each for each in route.parameters if each.where != "shared"]
