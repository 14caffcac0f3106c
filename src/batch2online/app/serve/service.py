"""The application: what each address does."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from sklearn.exceptions import NotFittedError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from batch2online.app.serve import inference, live, schema
from batch2online.app.serve.access import Guard, Tokens, read_body
from batch2online.app.serve.bodies import one_row_of, table_of
from batch2online.app.serve.messages import (
    Change,
    Changes,
    Forget,
    LabelResult,
    LearnResult,
    ModelInfo,
    Points,
    PredictResult,
    RegretResult,
)
from batch2online.app.serve.metrics import Metrics
from batch2online.app.serve.models import ModelFolder, ServedModel
from batch2online.app.serve.problems import RequestError, on_error, on_http_exception, on_request_error
from batch2online.app.serve.queues import Address, QueueReader
from batch2online.storage.errors import DuplicateKey, StoreError, UnknownKey

MAX_BYTES = 64 * 2**20


def answer(content: Any, status: int = 200) -> Response:
    """Return a response of JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def create_app(
    folder: str | Path,
    *,
    tokens: Tokens | None = None,
    max_bytes: int = MAX_BYTES,
    max_models: int = 100,
    estimators: tuple[str, ...] = ("sklearn",),
    sources: tuple[str, ...] = (),
) -> Starlette:
    """Return the application for the models of a folder.

    Parameters
    ----------
    folder : path
        Folder of the models.
    tokens : Tokens, optional
        Who may read and write; None asks for no token and serves this machine alone.
    max_bytes : int
        Largest body of a request.
    max_models : int
        How many models there may be.
    estimators : tuple of str
        Packages whose estimators ``PUT /models/NAME`` may name.
    sources : tuple of str
        Queues from which models learn, as ``redis://HOST/STREAM?model=NAME``; see
        :mod:`batch2online.app.serve.queues`.
    """
    service = Service(ModelFolder(Path(folder), max_models, estimators), max_bytes)
    readers = [QueueReader(Address.parse(source), service.models) for source in sources]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for reader in readers:
            reader.start()
        yield
        service.stop.set()
        for reader in readers:
            await asyncio.to_thread(reader.end)
        await asyncio.to_thread(service.models.close)

    handlers: Any = {RequestError: on_request_error, HTTPException: on_http_exception, Exception: on_error}
    guard = Middleware(Guard, tokens=tokens, max_bytes=max_bytes)
    return Starlette(routes=service.routes(), middleware=[guard], exception_handlers=handlers, lifespan=lifespan)


Handler = Callable[["Service", Request, ServedModel], Awaitable[Response]]


class Service:
    """Handlers of requests, and what they share."""

    def __init__(self, models: ModelFolder, max_bytes: int) -> None:
        self.models, self.max_bytes, self.stop = models, max_bytes, asyncio.Event()
        self.metrics = Metrics(models)

    def routes(self) -> list[Route]:
        """Return the addresses and their handlers."""
        of_model = {
            ("POST", "/learn"): self._learn,
            ("POST", "/predict"): self._predict,
            ("POST", "/label"): self._label,
            ("POST", "/forget"): self._forget,
            ("GET", "/changes"): self._changes,
            ("GET", "/regret"): self._regret,
            ("GET", "/coreset"): self._coreset,
            ("GET", "/report"): self._report,
        }
        routes = [
            Route(f"/models/{{name}}{path}", partial(self._of_model, handler), methods=[method])
            for (method, path), handler in of_model.items()
        ]
        routes.append(Route("/models/{name}", self._model, methods=["GET", "PUT"]))
        routes += [
            Route("/", live.page),
            Route("/events", partial(live.events, self.models, self.stop)),
            Route("/models", self._list),
            Route("/metrics", self._metrics),
            Route("/openapi.json", self._openapi),
        ]
        return routes + inference.routes(self.models, self.max_bytes)

    async def _model(self, request: Request) -> Response:
        if request.method == "PUT":
            return await self._create(request)
        return await self._of_model(self._info, request)

    async def _of_model(self, handler: Any, request: Request) -> Response:
        """Answer a request about one model; errors of the model become problems."""
        model = self.models.get(request.path_params["name"])
        try:
            response: Response = await handler(request, model)
            return response
        except RequestError as problem:
            model.errors.append(problem.detail)
            raise
        except (DuplicateKey, UnknownKey) as error:
            raise RequestError(409, str(error)) from error
        except StoreError as error:
            raise RequestError(503, str(error)) from error
        except (ValueError, TypeError, NotFittedError, AttributeError, MemoryError) as error:
            model.errors.append(str(error))
            raise RequestError(422, str(error)) from error

    async def _table(self, request: Request) -> Any:
        body = await read_body(request, self.max_bytes)
        return table_of(body, request.headers.get("content-type", ""))

    async def _create(self, request: Request) -> Response:
        body = await read_body(request, self.max_bytes)
        try:
            settings = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RequestError(422, f"The body must be a JSON object of options: {error}") from error
        try:
            model, is_new = await asyncio.to_thread(self.models.create, request.path_params["name"], settings)
        except StoreError as error:
            raise RequestError(503, str(error)) from error
        return answer(_info_of(model), 201 if is_new else 200)

    async def _list(self, request: Request) -> Response:
        return answer([_info_of(model) for model in self.models])

    async def _info(self, request: Request, model: ServedModel) -> Response:
        return answer(_info_of(model))

    async def _learn(self, request: Request, model: ServedModel) -> Response:
        body, kind = await read_body(request, self.max_bytes), request.headers.get("content-type", "")
        key, column = request.headers.get("idempotency-key"), request.query_params.get("key")
        row = one_row_of(body, kind) if column is None else None
        with self.metrics.learning(model):
            if row is not None and model.has_columns(row, target=True):
                first, last = await model.act(partial(model.learn_row, row, key))
            else:
                first, last = await model.act(partial(model.learn, table_of(body, kind), key, column))
        return answer(LearnResult(first, last) if last >= first else LearnResult(None, None))

    async def _predict(self, request: Request, model: ServedModel) -> Response:
        body, kind = await read_body(request, self.max_bytes), request.headers.get("content-type", "")
        column, method = request.query_params.get("key"), request.query_params.get("method")
        if method not in (None, "predict", "predict_proba", "transform"):
            raise RequestError(422, f"method must be predict, predict_proba or transform, got {method!r}.")
        row = one_row_of(body, kind) if column is None and method in (None, "predict") else None
        if row is not None and model.has_columns(row, target=False) and hasattr(model.durable.model, "predict_one"):
            return answer(PredictResult(_listed(model.predict_row(row))))
        table = table_of(body, kind)
        if column is None:
            found = await asyncio.to_thread(model.predict, table, None, method)
        else:
            found = await model.act(lambda: model.predict(table, column))
        return answer(PredictResult(_listed(found)))

    async def _label(self, request: Request, model: ServedModel) -> Response:
        table = await self._table(request)
        key, column = request.headers.get("idempotency-key"), request.query_params.get("key", "key")
        return answer(LabelResult(await model.act(lambda: model.label(table, column, key))))

    async def _forget(self, request: Request, model: ServedModel) -> Response:
        try:
            rows = msgspec.json.decode(await read_body(request, self.max_bytes), type=Forget)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RequestError(422, f'Send {{"ids": [...]}} or {{"keys": [...]}}: {error}') from error
        key = request.headers.get("idempotency-key")
        await model.act(lambda: model.durable.forget(rows.ids, keys=rows.keys, key=key))
        return answer(_info_of(model))

    async def _changes(self, request: Request, model: ServedModel) -> Response:
        since = request.query_params.get("since", "0")
        if not since.isdigit():
            raise RequestError(422, f"since must be a number of rows, got {since!r}.")
        found = [Change(**change) for change in model.changes(int(since[:18]))]
        return answer(Changes(found))

    async def _regret(self, request: Request, model: ServedModel) -> Response:
        known = await asyncio.to_thread(model.regret)
        loss, optimum, ratio = (
            value if math.isfinite(value) else None for value in (known.loss, known.optimum, known.ratio)
        )
        return answer(RegretResult(loss, optimum, ratio, int(known.rows)))

    async def _coreset(self, request: Request, model: ServedModel) -> Response:
        found = await asyncio.to_thread(lambda: model.durable.model.coreset_)
        points = found.points.toarray() if hasattr(found.points, "toarray") else np.asarray(found.points)
        targets = None if found.targets is None else np.asarray(found.targets).tolist()
        return answer(Points(found.ids.tolist(), found.weights.tolist(), points.tolist(), targets))

    async def _report(self, request: Request, model: ServedModel) -> Response:
        def report() -> str:
            with TemporaryDirectory() as folder:
                path = Path(folder) / "report.html"
                model.durable.report(path)
                return path.read_text(encoding="utf-8")

        return Response(await asyncio.to_thread(report), media_type="text/html")

    async def _metrics(self, request: Request) -> Response:
        content, kind = await asyncio.to_thread(self.metrics.exposition)
        return Response(content, media_type=kind)

    async def _openapi(self, request: Request) -> Response:
        return answer(schema.openapi())


def _info_of(model: ServedModel) -> ModelInfo:
    return ModelInfo(
        model.name,
        model.settings["task"],
        model.target,
        model.n_seen,
        max(0, model.version - 1),
        model.version,
        model.durable.n_waiting,
        model.settings,
    )


def _listed(found: Any) -> list[Any]:
    values = found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found)
    listed: list[Any] = values.tolist()
    return listed
