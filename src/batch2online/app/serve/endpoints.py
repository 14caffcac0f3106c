"""What the routes of models do."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta
from starlette.responses import Response

from batch2online.app.serve import routes
from batch2online.app.serve.bodies import TableBody
from batch2online.app.serve.metrics import Metrics
from batch2online.app.serve.models import Change, ModelFolder, Once, ServedModel, finite, taken_keys
from batch2online.app.serve.options import Settings
from batch2online.app.serve.problems import RequestError
from batch2online.app.serve.routes import KeyColumn, Name, answer, route

Since = Annotated[int, Meta(ge=0, le=2**62, description="Rows seen.")]
Method = Literal["predict", "predict_proba", "transform"]


class ModelInfo(msgspec.Struct):
    """A model, and how far it is; one that cannot be opened has an error alone."""

    name: str
    task: str | None = None
    target: str | None = None
    n_seen: int = 0
    n_changes: int = 0
    version: int = 0
    n_waiting: int = 0
    settings: dict[str, Any] = {}
    error: str | None = None

    @classmethod
    def of(cls, model: ServedModel) -> Self:
        """Return what there is to know about a model."""
        about = model.settings["task"], model.target, model.n_seen, model.n_changes, model.version
        return cls(model.name, *about, model.durable.n_waiting, model.settings)


@route("GET", "/models/{name}", access="read")
async def info(model: ServedModel) -> ModelInfo:
    """Describe a model."""
    return ModelInfo.of(model)


@route("PUT", "/models/{name}", access="write", statuses=(201, 200))
def create(models: ModelFolder, name: Name, body: Settings) -> ModelInfo | Response:
    """Create a model; one with the same settings stays as it is."""
    model, is_new = models.create(name, body)
    return answer(ModelInfo.of(model), 201 if is_new else 200)


@route("GET", "/models", access="read")
async def list_models(models: ModelFolder) -> list[ModelInfo]:
    """List the models."""
    broken = [ModelInfo(name, error=error) for name, error in models.broken.items()]
    return sorted([*map(ModelInfo.of, models), *broken], key=lambda each: each.name)


class LearnResult(msgspec.Struct, omit_defaults=True):
    """Ids of the first and the last row learned, None if there is none or the call had been carried out before."""

    first_id: int | None
    last_id: int | None
    notes: list[str] = []


@route("POST", "/models/{name}/learn", access="write")
async def learn(
    model: ServedModel, figures: Metrics, body: TableBody, key: KeyColumn | None = None, once: Once | None = None
) -> LearnResult:
    """Learn rows."""
    row, target = model.one_row(body) if key is None else (None, None)
    notes: list[str] = []
    if row is not None and (target is None) == (model.target is None):
        call = partial(model.learned, model.durable.learn_one, row, target)
    else:
        table, notes = model.learnable(await body.table())
        if not table.num_rows:
            return LearnResult(None, None, notes)
        call = partial(model.learn, table, key)
    with figures.learning(model):
        first, last = await model.act(call, once)
    return LearnResult(first, last, notes) if last >= first else LearnResult(None, None, notes)


class PredictResult(msgspec.Struct):
    """One prediction a row: a number, a label, a cluster, or the components of a row."""

    predictions: list[Any]


@route("POST", "/models/{name}/predict", access="read", writes_with="key")
async def predict(
    model: ServedModel, body: TableBody, key: KeyColumn | None = None, method: Method | None = None
) -> PredictResult:
    """Predict rows; those with keys are stored until their targets come."""
    row, _ = model.one_row(body) if key is None and method in (None, "predict") else (None, None)
    if row is not None and hasattr(model.durable.model, "predict_one"):
        return PredictResult(np.asarray([model.asked(partial(model.durable.predict_one, row))]).tolist())
    call = partial(model.predict, await body.table(), key, method)
    found = await (asyncio.to_thread(model.asked, call) if key is None else model.act(call))
    return PredictResult((found.to_numpy() if hasattr(found, "to_numpy") else np.asarray(found)).tolist())


class LabelResult(msgspec.Struct):
    """Number of rows learned with the targets that came."""

    n_labelled: int


@route("POST", "/models/{name}/label", access="write")
async def label(model: ServedModel, body: TableBody, key: KeyColumn = "key", once: Once | None = None) -> LabelResult:
    """Learn targets that come late."""
    keys, table = taken_keys(await body.table(), key)
    if keys is None or model.target is None or table.column_names != [model.target]:
        raise RequestError(422, f"Send the columns {key!r} and {model.target!r} alone.")
    await model.act(lambda **more: model.durable.label(keys, model.split(table)[0], **more), once)
    return LabelResult(len(keys))


class Forget(msgspec.Struct, forbid_unknown_fields=True):
    """Rows to forget, by ids or by keys."""

    ids: list[int] | None = None
    keys: list[int | str] | None = None


@route("POST", "/models/{name}/forget", access="write")
async def forget(model: ServedModel, body: Forget, once: Once | None = None) -> ModelInfo:
    """Forget rows."""
    await model.act(partial(model.durable.forget, body.ids, keys=body.keys), once)
    return ModelInfo.of(model)


class Changes(msgspec.Struct):
    """Changes of the model, oldest first."""

    changes: list[Change]


@route("GET", "/models/{name}/changes", access="read")
async def changes(model: ServedModel, since: Since = 0) -> Changes:
    """List changes of the model."""
    return Changes(model.changes(since))


class RegretResult(msgspec.Struct):
    """Loss of the stream, that of the best model in hindsight, and their ratio."""

    loss: float | None
    optimum: float | None
    ratio: float | None
    rows: int


@route("GET", "/models/{name}/regret", access="read")
def regret(model: ServedModel) -> RegretResult:
    """Compare the loss with hindsight."""
    known = model.regret()
    return RegretResult(finite(known.loss), finite(known.optimum), finite(known.ratio), int(known.rows))


class Points(msgspec.Struct):
    """The coreset, column by column."""

    ids: list[int]
    weights: list[float]
    points: list[list[float]]
    targets: list[Any] | None


@route("GET", "/models/{name}/coreset", access="read")
def coreset(model: ServedModel) -> Points:
    """Return the coreset."""
    found = model.asked(lambda: model.durable.model.coreset_)
    points = found.points.toarray() if hasattr(found.points, "toarray") else np.asarray(found.points)
    targets = None if found.targets is None else np.asarray(found.targets).tolist()
    return Points(found.ids.tolist(), found.weights.tolist(), points.tolist(), targets)


@route("GET", "/models/{name}/report", access="read")
def report(model: ServedModel) -> Response:
    """Return the report as a page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        model.asked(partial(model.durable.report, path))
        return Response(path.read_text(encoding="utf-8"), media_type="text/html")


@route("GET", "/metrics", access="read")
def metrics(figures: Metrics) -> Response:
    """Return figures for Prometheus."""
    content, kind = figures.exposition()
    return Response(content, media_type=kind)


@route("GET", "/openapi.json", access="read")
def openapi() -> Response:
    """Return the description of the service."""
    return answer(routes.openapi())
