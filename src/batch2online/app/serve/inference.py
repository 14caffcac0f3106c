"""The Open Inference Protocol, version 2, over HTTP: clients of KServe, Seldon and Triton work unchanged.

A version of a model is a change: version 1 is the first model. The current one answers. Tensors are JSON, or binary
behind the JSON as Triton's extension sends them.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from batch2online import __version__
from batch2online.app.serve.access import read_body
from batch2online.app.serve.models import ModelFolder, ServedModel
from batch2online.app.serve.problems import RequestError

_DTYPES = {
    "BOOL": np.dtype("?"),
    **{f"UINT{8 * n}": np.dtype(f"<u{n}") for n in (1, 2, 4, 8)},
    **{f"INT{8 * n}": np.dtype(f"<i{n}") for n in (1, 2, 4, 8)},
    **{f"FP{8 * n}": np.dtype(f"<f{n}") for n in (2, 4, 8)},
}
_LENGTH = "inference-header-content-length"
ROWS = "rows"
"""Name of a tensor (rows, columns) that holds all features, in the order of the model."""


class Tensor(msgspec.Struct):
    """An input: a column, or all of them."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: dict[str, Any] = {}


class WantedOutput(msgspec.Struct):
    """An output that the client names, and how it wants it."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct):
    """Body of ``POST /v2/models/NAME/infer``."""

    inputs: list[Tensor]
    id: str = ""
    outputs: list[WantedOutput] = []
    parameters: dict[str, Any] = {}


def routes(models: ModelFolder, max_bytes: int) -> list[Route]:
    """Return the addresses of the protocol."""
    found = [
        Route("/v2", _server),
        Route("/v2/health/live", _healthy),
        Route("/v2/health/ready", _healthy),
    ]
    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        found += [
            Route(path, partial(_metadata, models)),
            Route(f"{path}/ready", partial(_ready, models)),
            Route(f"{path}/infer", partial(_infer, models, max_bytes), methods=["POST"]),
        ]
    return found


def _json(content: Any, **headers: str) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json", headers=headers)


async def _server(request: Request) -> Response:
    return _json({"name": "batch2online", "version": __version__, "extensions": ["binary_tensor_data"]})


async def _healthy(request: Request) -> Response:
    return _json({"live": True, "ready": True})


def _model(models: ModelFolder, request: Request) -> ServedModel:
    model = models.get(request.path_params["name"])
    version = request.path_params.get("version", str(model.version))
    if version != str(model.version):
        raise RequestError(404, f"{model.name} has version {model.version} now; earlier ones are not kept.")
    return model


async def _ready(models: ModelFolder, request: Request) -> Response:
    model = _model(models, request)
    if not model.is_fitted:
        raise RequestError(409, f"{model.name} has learned no rows yet.")
    return _json({"name": model.name, "ready": True})


async def _metadata(models: ModelFolder, request: Request) -> Response:
    model = _model(models, request)
    names = [str(name) for name in getattr(model.durable.model, "feature_names_in_", ())]
    inputs = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in names]
    return _json(
        {
            "name": model.name,
            "versions": [str(model.version)],
            "platform": "batch2online",
            "inputs": [{"name": ROWS, "datatype": "FP64", "shape": [-1, len(names)]}, *inputs],
            "outputs": [{"name": "predictions", "datatype": "FP64", "shape": [-1]}],
        }
    )


async def _infer(models: ModelFolder, max_bytes: int, request: Request) -> Response:
    model = _model(models, request)
    body = await read_body(request, max_bytes)
    asked, binary = _parsed(body, request.headers.get(_LENGTH))
    table = _table(asked, binary, [str(name) for name in getattr(model.durable.model, "feature_names_in_", ())])
    try:
        found = await asyncio.to_thread(model.predict, table, None)
    except (ValueError, TypeError) as error:
        raise RequestError(422, str(error)) from error
    return _response(asked, model, np.asarray(found))


def _parsed(body: bytes, length: str | None) -> tuple[InferRequest, bytes]:
    """Return the request, and the tensors behind it."""
    if length is not None and (not length.isdigit() or int(length) > len(body)):
        raise RequestError(422, f"{_LENGTH} is {length!r}, and the body has {len(body)} bytes.")
    end = len(body) if length is None else int(length)
    try:
        return msgspec.json.decode(body[:end], type=InferRequest), body[end:]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(422, f"The body is not an inference request: {error}") from error


def _table(asked: InferRequest, binary: bytes, names: list[str]) -> pa.Table:
    columns: dict[str, Any] = {}
    for tensor in asked.inputs:
        size = tensor.parameters.get("binary_data_size")
        own = binary[:size] if isinstance(size, int) and 0 <= size <= len(binary) else None
        binary = binary[len(own) :] if own is not None else binary
        values = _array(tensor, own)
        if values.ndim == 2 and values.shape[1] == len(names) != 1:
            columns |= {name: pa.array(np.ascontiguousarray(values[:, j])) for j, name in enumerate(names)}
        elif values.ndim == 1 or values.shape[1] == 1:
            name = names[0] if tensor.name == ROWS and len(names) == 1 else tensor.name
            columns[name] = pa.array(values.ravel().tolist() if values.dtype == object else values.ravel())
        else:
            raise RequestError(
                422, f"Tensor {tensor.name!r} has shape {list(values.shape)}, expected [n, {len(names)}]."
            )
    try:
        table = pa.table(columns)
    except (pa.ArrowException, ValueError) as error:
        raise RequestError(422, f"The tensors are not columns of one table: {error}") from error
    if not table.num_rows:
        raise RequestError(422, "The tensors have no rows.")
    return table


def _array(tensor: Tensor, binary: bytes | None) -> Any:
    """Return a tensor as an array; strings as objects."""
    shape, n = tensor.shape, math.prod(tensor.shape)
    if not 1 <= len(shape) <= 2 or min(shape) < 0:
        raise RequestError(422, f"Tensor {tensor.name!r} has shape {shape}: send [n] or [n, columns].")
    try:
        if tensor.datatype == "BYTES":
            values = np.array(_strings(binary) if binary is not None else tensor.data, dtype=object)
        elif tensor.datatype not in _DTYPES:
            raise RequestError(
                422, f"Tensor {tensor.name!r} has datatype {tensor.datatype!r}: send {[*_DTYPES, 'BYTES']}."
            )
        elif binary is not None:
            values = np.frombuffer(binary, _DTYPES[tensor.datatype])
        else:
            values = np.array(tensor.data, dtype=_DTYPES[tensor.datatype])
        if values.size != n:
            raise ValueError(f"found {values.size} values, and its shape {shape} has {n}")
        return values.reshape(shape)
    except (ValueError, TypeError, OverflowError, UnicodeDecodeError) as error:
        raise RequestError(422, f"Tensor {tensor.name!r}: {error}.") from error


def _strings(content: bytes) -> list[str]:
    """Return strings, each behind its length in four bytes."""
    found, at = [], 0
    while at + 4 <= len(content):
        end = at + 4 + int.from_bytes(content[at : at + 4], "little")
        found.append(content[at + 4 : end].decode())
        at = end
    return found


def _response(asked: InferRequest, model: ServedModel, found: Any) -> Response:
    """Return the predictions, binary if the client wants them so."""
    is_number = found.dtype.kind in "iufb"
    values = found.astype(np.int64 if found.dtype.kind in "iub" else np.float64) if is_number else found
    datatype = "BYTES" if not is_number else "INT64" if values.dtype == np.int64 else "FP64"
    output: dict[str, Any] = {"name": "predictions", "datatype": datatype, "shape": list(values.shape)}
    head = {"model_name": model.name, "model_version": str(model.version), "id": asked.id, "outputs": [output]}
    default = asked.parameters.get("binary_data_output", False)
    if not is_number or not any([default, *(each.parameters.get("binary_data", default) for each in asked.outputs)]):
        output["data"] = values.ravel().tolist()
        return _json(head)
    content = values.tobytes()
    output["parameters"] = {"binary_data_size": len(content)}
    encoded = msgspec.json.encode(head)
    headers = {"Inference-Header-Content-Length": str(len(encoded))}
    return Response(encoded + content, media_type="application/octet-stream", headers=headers)
