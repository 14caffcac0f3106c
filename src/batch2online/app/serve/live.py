"""The live page, and the events that it shows."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from batch2online.app import web
from batch2online.app.report.charts import Axis, Chart, Series, asset
from batch2online.app.serve.models import ModelFolder, ServedModel, finite
from batch2online.app.serve.routes import route

_SECONDS = 1.0
"""Time between two events of one model."""

MAX_SECONDS, MAX_POINTS = 600, 60
"""What the charts show: events since the page was opened, and points drawn of them."""


class Sample(NamedTuple):
    """What the charts show of a model at one time, in seconds."""

    time: float
    rate: float
    ratio: float | None


@cache
def _page() -> tuple[str, str]:
    """Return the page with its scripts and styles inside, and the policy that allows these alone."""
    html = files("batch2online.app.serve").joinpath("live.html").read_text(encoding="utf-8")
    html = html.replace("/*charts.css*/", asset("charts.css"))
    return html, web.policy(html, connect="'self'") + "; frame-ancestors 'none'"


@route("GET", "/", access="read")
async def page() -> Response:
    """Return the live page."""
    html, policy = _page()
    return Response(html, media_type="text/html", headers={"content-security-policy": policy})


@route("GET", "/events", access="read")
async def events(models: ModelFolder, stop: asyncio.Event, request: Request, last_event_id: str = "") -> Response:
    """Stream the figures of all models, each second, and their changes.

    The id of an event counts the changes of all models that the client has seen, ``NAME:ROWS``, separated by commas: a
    client that reconnects sends it as ``Last-Event-ID`` and receives the changes since then.
    """
    seen = _positions(last_event_id)
    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(_stream(models, stop, request, seen), media_type="text/event-stream", headers=headers)


def _positions(header: str) -> dict[str, int]:
    pairs = (pair.rpartition(":") for pair in header.split(","))
    return {name: int(rows) for name, _, rows in pairs if name and re.fullmatch("[0-9]{1,18}", rows)}


async def _stream(
    models: ModelFolder, stop: asyncio.Event, request: Request, seen: dict[str, int]
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    histories: dict[str, deque[Sample]] = {}
    while not stop.is_set() and not await request.is_disconnected():
        for model in models:
            history = histories.setdefault(model.name, deque(maxlen=MAX_SECONDS))
            figures = await asyncio.to_thread(_figures, model, seen.get(model.name, 0), history)
            if figures["changes"]:
                seen[model.name] = figures["changes"][-1].at
            ident = ",".join(f"{name}:{rows}" for name, rows in sorted(seen.items()))
            yield b"id: %b\nevent: figures\ndata: %b\n\n" % (ident.encode(), msgspec.json.encode(figures))
        try:
            await asyncio.wait_for(stop.wait(), _SECONDS)
        except TimeoutError:
            continue


def _figures(model: ServedModel, since: int, history: deque[Sample]) -> dict[str, Any]:
    """Return what the page shows of a model; its charts are those of the samples so far."""
    found: dict[str, Any] = {
        "model": model.name,
        "task": model.settings["task"],
        "time": time.time(),
        "rows": model.n_seen,
        "rate": round(model.rate(), 1),
        "waiting": model.durable.n_waiting,
        "version": model.version,
        "changes": model.changes(since),
        "errors": list(model.errors),
    }
    if model.is_fitted:
        estimator = model.durable.model
        known, order = model.regret(), estimator.order_
        found["ratio"] = finite(known.ratio)
        found["loss"] = finite(known.loss / known.weight if known.weight > 0 else math.nan)
        found["headline"] = str(estimator.headline()).splitlines()[0] if known.rows else ""
        found["order"] = finite(order.evidence)
        found["alarm"] = order.alarm
        found["weights"] = _shown_parameters(estimator)
    history.append(Sample(found["time"], found["rate"], found.get("ratio")))
    found["charts"] = charts(history)
    return found


def charts(history: Sequence[Sample]) -> dict[str, str]:
    """Return the last minutes of a model as SVG: rows a second, and the loss relative to hindsight."""
    every = -(-len(history) // MAX_POINTS)
    drawn = list(history)[::-every][::-1]
    times = [sample.time - drawn[-1].time for sample in drawn]
    x, found = Axis("time", min(times[0], -1.0), 0.0, unit="s"), {}
    for name, label, colour in (("rate", "rows a second", "accent"), ("ratio", "loss / optimum", "second")):
        values = [math.nan if value is None else value for value in (getattr(sample, name) for sample in drawn)]
        y = Axis.of(label, values, zero=name == "rate")
        found[name] = Chart(label, x, y, [Series(label, times, values, "line", colour)], height=190).svg()
    return found


def _shown_parameters(estimator: Any) -> list[dict[str, Any]]:
    """Return the coefficients that the page draws as bars, if the model has one for each column."""
    coef = np.asarray(getattr(estimator, "coef_", 0.0))
    if coef.ndim != 1:
        return []
    names = estimator.feature_names() or range(len(coef))
    return [{"name": str(name), "value": finite(value)} for name, value in zip(names[:30], coef, strict=False)]
