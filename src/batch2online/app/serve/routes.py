"""Routes: each is a function, declared once, whose signature says what a request has.

A parameter is given to the function by its type or its name:

==========================  =========================================================================================
``ServedModel``             the model that the path names
``TableBody``               the table in the body, decoded when the function asks for it
``Once``                    the header ``Idempotency-Key``, with a digest of the request that it stands for
another class               the object of this class that the service has, or the request
``body``                    the body, decoded from JSON
named in the path           that part of the path
in ``HEADERS``              that header
any other                   a parameter of the query
==========================  =========================================================================================

Values are converted to their types and refused outside their bounds, and the description in OpenAPI has the same types
and bounds. Who may call a route is decided by its declaration alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Address

from batch2online import __version__
from batch2online.app.serve.access import Access, Tokens, check_origin, check_token, read_body
from batch2online.app.serve.bodies import ROWS_SCHEMA, TableBody
from batch2online.app.serve.models import NAME, ModelFolder, Once, ServedModel
from batch2online.app.serve.options import Options, Settings
from batch2online.app.serve.problems import ProblemBody, RequestError, problem_response
from batch2online.storage.errors import StoreError

Function = TypeVar("Function", bound=Callable[..., Any])

Name = Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
KeyColumn = Annotated[str, Meta(min_length=1, description="Column that holds the keys of the rows.")]
OnceKey = Annotated[str, Meta(min_length=1, max_length=200, description="Calls with the same value are one call.")]

HEADERS = {
    "once": "Idempotency-Key",
    "last_event_id": "Last-Event-ID",
    "json_length": "Inference-Header-Content-Length",
}
SENT: dict[Any, Any] = {ServedModel: Name, Once: OnceKey, TableBody: ROWS_SCHEMA, Settings: Options}
"""What a client sends for a parameter of a type, where that differs."""

_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a route: its name in the function and in a request, its type, default, and where it comes from."""

    name: str
    label: str
    kind: Any
    default: Any
    where: str

    @property
    def sent(self) -> Any:
        """Type of what a client sends."""
        return SENT.get(self.kind, self.kind)

    def value(self, given: str | None) -> Any:
        """Return the value of what a request has given."""
        if given is None:
            return self.default
        try:
            return msgspec.convert(given, self.sent, strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            choices = [choice for choice in get_args(self.kind) if isinstance(choice, str)]
            expected = f"Choose from {', '.join(choices)}" if choices else error
            raise RequestError(422, f"{self.label} is {given[:100]!r}: {expected}.") from error


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

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the function."""
        given = inspect.signature(self.function).parameters.values()
        return tuple(self._parameter(each.name, each.default) for each in given)

    def _parameter(self, name: str, default: Any) -> Parameter:
        hint = self._hints[name]
        kind = hint if default is not None else next(each for each in get_args(hint) if each is not NoneType)
        if kind is ServedModel:
            return Parameter(name, "name", kind, default, "model")
        if any(f"{{{name}}}" in path for path in self.paths):
            where = "path"
        elif name == "body":
            where = "body"
        elif name in HEADERS:
            where = "header"
        else:
            where = "shared" if isinstance(kind, type) else "query"
        return Parameter(name, HEADERS.get(name, name), kind, default, where)

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
    shared : tuple
        Objects that functions ask for by their types; a :class:`ModelFolder` is one of them.
    tokens : Tokens or None
        None asks for none; then requests must name this machine as their host.
    max_bytes : int
        Largest body.
    """

    def __init__(self, shared: tuple[Any, ...], tokens: Tokens | None, max_bytes: int) -> None:
        self._shared = {type(each): each for each in shared}
        self._models: ModelFolder = self._shared[ModelFolder]
        self._tokens, self._max_bytes = tokens, max_bytes

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
            is_writing = route.writes_with and route.writes_with in request.query_params
            check_origin(request, self._tokens)
            check_token(request, self._tokens, "write" if is_writing else route.access)
            given, is_async = await self._arguments(route, request), inspect.iscoroutinefunction(route.function)
            found = await (route.function(**given) if is_async else asyncio.to_thread(route.function, **given))
            return secured(found if isinstance(found, Response) else answer(found, route.statuses[0]))

        return endpoint

    async def _arguments(self, route: Route, request: Request) -> dict[str, Any]:
        """Return the values of the parameters of a route."""
        places = {each.where for each in route.parameters}
        if "model" in places:
            request.state.model = self._models.get(request.path_params["name"])
        body = await read_body(request, self._max_bytes) if "body" in places else b""
        return {each.name: self._argument(each, request, body) for each in route.parameters}

    def _argument(self, each: Parameter, request: Request, body: bytes) -> Any:
        """Return the value of a parameter."""
        match each.where:
            case "model":
                return request.state.model
            case "body" if each.kind is TableBody:
                return TableBody(body, request.headers.get("content-type", ""), self._max_bytes)
            case "body":
                return body if getattr(each.kind, "__supertype__", None) is bytes else decoded(body, each.kind)
            case "path":
                return each.value(request.path_params.get(each.name))
            case "query":
                return each.value(request.query_params.get(each.label))
            case "header" if each.kind is Once:
                key = each.value(request.headers.get(each.label))
                return None if key is None else Once(key, _digest(request, body))
            case "header":
                return each.value(request.headers.get(each.label))
        return request if each.kind is Request else self._shared[each.kind]


def decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(422, f"The body is not what this address expects: {error}") from error


def _digest(request: Request, body: bytes) -> str:
    address = f"{request.method} {request.scope['path']}?".encode() + request.scope["query_string"]
    return hashlib.sha256(address + b"\n" + body).hexdigest()


def answer(content: Any, status: int = 200) -> Response:
    """Return a response of JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def secured(response: Response) -> Response:
    """Return a response with the headers that every response has."""
    response.raw_headers += _SECURITY
    return response


async def on_error(request: Request, error: Exception) -> Response:
    """Answer a request that failed; the live page shows errors of a model, and the log alone those of the service."""
    match error:
        case RequestError():
            problem = error
        case StoreError():
            problem = RequestError(503, str(error))
        case HTTPException():
            told = f"{request.method} {request.scope['path']}: {error.detail}."
            problem = RequestError(error.status_code, told, **dict(error.headers or {}))
        case _:
            problem = RequestError(500, "The service failed; its log says why.")
    model: ServedModel | None = getattr(request.state, "model", None)
    if model is not None:
        model.errors.append(problem.detail)
    return secured(problem_response(problem))


ERRORS = (RequestError, StoreError, HTTPException, Exception)
"""What :func:`on_error` answers."""


# -- OpenAPI --------------------------------------------------------------------------------------------------


@cache
def openapi() -> dict[str, Any]:
    """Return the description of the routes that answer JSON in OpenAPI 3.1, each at its first path."""
    described = {
        each: [every for every in each.parameters if every.where != "shared"] for each in ROUTES if each.result
    }
    kinds = [
        ProblemBody,
        *(each.result for each in described),
        *(each.sent for given in described.values() for each in given),
    ]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))

    def content(kind: Any, media_type: str = "application/json") -> dict[str, Any]:
        return {"content": {media_type: {"schema": schema_of[repr(kind)]}}}

    problem = {"description": "What was wrong, and what to do."} | content(ProblemBody, "application/problem+json")
    paths: dict[str, Any] = {}
    for route, given in described.items():
        results = {str(status): {"description": "The result."} | content(route.result) for status in route.statuses}
        operation: dict[str, Any] = {
            "summary": inspect.getdoc(route.function),
            "responses": results | {"default": problem},
        }
        operation["x-access"] = route.access
        operation["parameters"] = [_described(each, schema_of) for each in given if each.where in ("query", "header")]
        for each in given:
            if each.where == "body":
                operation["requestBody"] = {"required": True} | content(each.sent)
        own = paths.setdefault(route.paths[0], {})
        own[route.method.lower()] = operation
        own["parameters"] = [_described(each, schema_of) for each in given if f"{{{each.label}}}" in route.paths[0]]
    title = {"title": "batch2online", "version": __version__, "description": "Models that learn from a stream."}
    return {"openapi": "3.1.0", "info": title, "paths": paths, "components": {"schemas": components}}


def _described(each: Parameter, schema_of: dict[str, Any]) -> dict[str, Any]:
    is_path = each.where in ("path", "model")
    return {
        "name": each.label,
        "in": "path" if is_path else each.where,
        "required": is_path,
        "schema": schema_of[repr(each.sent)],
    }
