"""The Open Inference Protocol, version 2, over HTTP: clients of KServe, Seldon and Triton work unchanged.

A version of a model is a change: version 1 is the first model. The current one answers. Tensors are JSON, or binary
behind the JSON as Triton's extension sends them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Literal, NewType

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta
from starlette.responses import Response

from batch2online import __version__
from batch2online.app.serve.models import ServedModel
from batch2online.app.serve.problems import RequestError
from batch2online.app.serve.routes import HEADERS, SENT, decoded, route

Datatype = Literal[
    "BOOL", "BYTES", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"
]  # fmt: skip
_DTYPES = {
    "BOOL": np.dtype("?"),
    **{f"UINT{8 * n}": np.dtype(f"<u{n}") for n in (1, 2, 4, 8)},
    **{f"INT{8 * n}": np.dtype(f"<i{n}") for n in (1, 2, 4, 8)},
    **{f"FP{8 * n}": np.dtype(f"<f{n}") for n in (2, 4, 8)},
}
Length = Annotated[int, Meta(ge=0, description="Bytes of the JSON before binary tensors.")]
ROWS = "rows"
"""Name of a tensor (rows, columns) that holds all features, in the order of the model."""


class Parameters(msgspec.Struct, frozen=True):
    """What a request says of tensors, of all of them or of one."""

    binary_data_size: Annotated[int, Meta(ge=0)] | None = None
    binary_data: bool | None = None
    binary_data_output: bool = False


class Tensor(msgspec.Struct):
    """An input: a column, or all of them."""

    name: str
    shape: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1, max_length=2)]
    datatype: Datatype
    data: list[Any] | None = None
    parameters: Parameters = Parameters()


class WantedOutput(msgspec.Struct):
    """An output that the client names, and how it wants it."""

    name: str
    parameters: Parameters = Parameters()


class InferRequest(msgspec.Struct):
    """Body of ``POST /v2/models/NAME/infer``."""

    inputs: list[Tensor]
    id: str = ""
    outputs: list[WantedOutput] = []
    parameters: Parameters = Parameters()


InferBody = NewType("InferBody", bytes)
"""JSON, and binary tensors behind it."""

SENT[InferBody] = InferRequest
Version = Annotated[str, Meta(max_length=20, description="Number of the current version.")]
_MODEL = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")


@route("GET", "/v2", access="read", is_described=False)
async def server() -> dict[str, Any]:
    """Describe the server."""
    return {"name": "batch2online", "version": __version__, "extensions": ["binary_tensor_data"]}


@route("GET", "/v2/health/live", "/v2/health/ready", access="open", is_described=False)
async def health() -> dict[str, bool]:
    """Say that the server is live and ready."""
    return {"live": True, "ready": True}


def _check_version(model: ServedModel, version: str | None) -> None:
    if version not in (None, str(model.version)):
        raise RequestError(404, f"{model.name} has version {model.version} now; earlier ones are not kept.")


@route("GET", *(f"{path}/ready" for path in _MODEL), access="read", is_described=False)
async def ready(model: ServedModel, version: Version | None = None) -> dict[str, Any]:
    """Say whether a model can predict."""
    _check_version(model, version)
    if not model.is_fitted:
        raise RequestError(409, f"{model.name} has learned no rows yet.")
    return {"name": model.name, "ready": True}


@route("GET", *_MODEL, access="read", is_described=False)
async def metadata(model: ServedModel, version: Version | None = None) -> dict[str, Any]:
    """Describe the tensors of a model."""
    _check_version(model, version)
    names = model.columns
    inputs = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in names]
    return {
        "name": model.name,
        "versions": [str(model.version)],
        "platform": "batch2online",
        "inputs": [{"name": ROWS, "datatype": "FP64", "shape": [-1, len(names)]}, *inputs],
        "outputs": [{"name": "predictions", "datatype": "FP64", "shape": [-1]}],
    }


@route("POST", *(f"{path}/infer" for path in _MODEL), access="read")
async def infer(
    model: ServedModel, body: InferBody, version: Version | None = None, json_length: Length | None = None
) -> dict[str, Any] | Response:
    """Predict, Open Inference Protocol."""
    _check_version(model, version)
    asked, binary = _parsed(body, json_length)
    table = _table(asked, binary, model.columns)
    return _response(
        asked, model, np.asarray(await asyncio.to_thread(model.asked, partial(model.predict, table, None)))
    )


def _parsed(body: bytes, length: int | None) -> tuple[InferRequest, bytes]:
    """Return the request, and the tensors behind it."""
    end = len(body) if length is None else length
    if end > len(body):
        raise RequestError(422, f"The JSON is said to have {end} bytes, and the body has {len(body)}.")
    return decoded(body[:end], InferRequest), body[end:]


def _table(asked: InferRequest, binary: bytes, names: list[str]) -> pa.Table:
    columns: dict[str, Any] = {}
    try:
        for tensor in asked.inputs:
            size = tensor.parameters.binary_data_size
            columns |= _columns(tensor, _array(tensor, None if size is None else binary[:size]), names)
            binary = binary[size or 0 :]
        table = pa.table(columns)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise RequestError(422, f"The tensors are not columns of one table: {error}") from error
    if not table.num_rows:
        raise RequestError(422, "The tensors have no rows.")
    return table


def _array(tensor: Tensor, binary: bytes | None) -> Any:
    """Return a tensor as an array; strings as objects."""
    if tensor.datatype == "BYTES":
        values = np.array(tensor.data if binary is None else _strings(binary), dtype=object)
    elif binary is None:
        values = np.array(tensor.data, dtype=_DTYPES[tensor.datatype])
    else:
        values = np.frombuffer(binary, _DTYPES[tensor.datatype])
    return values.reshape(tensor.shape)


def _columns(tensor: Tensor, values: Any, names: list[str]) -> dict[str, Any]:
    """Return the columns in a tensor: all features, or the one of its name."""
    if values.ndim == 2 and values.shape[1] == len(names) != 1:
        return {name: pa.array(np.ascontiguousarray(values[:, j])) for j, name in enumerate(names)}
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(f"{tensor.name!r} has shape {list(values.shape)}, expected [n, {len(names)}]")
    name = names[0] if tensor.name == ROWS and len(names) == 1 else tensor.name
    return {name: pa.array(values.ravel().tolist() if values.dtype == object else values.ravel())}


def _strings(content: bytes) -> list[str]:
    """Return strings, each behind its length in four bytes."""
    found, at = [], 0
    while at + 4 <= len(content):
        end = at + 4 + int.from_bytes(content[at : at + 4], "little")
        found.append(content[at + 4 : end].decode())
        at = end
    return found


def _response(asked: InferRequest, model: ServedModel, found: Any) -> dict[str, Any] | Response:
    """Return the predictions, binary if the client wants them so."""
    is_number = found.dtype.kind in "iufb"
    values = found.astype(np.int64 if found.dtype.kind in "iub" else np.float64) if is_number else found
    datatype = "BYTES" if not is_number else "INT64" if values.dtype == np.int64 else "FP64"
    output: dict[str, Any] = {"name": "predictions", "datatype": datatype, "shape": list(values.shape)}
    head = {"model_name": model.name, "model_version": str(model.version), "id": asked.id, "outputs": [output]}
    wishes = [each.parameters.binary_data for each in asked.outputs]
    if not is_number or not (asked.parameters.binary_data_output or any(wishes)):
        output["data"] = values.ravel().tolist()
        return head
    content = values.tobytes()
    output["parameters"] = {"binary_data_size": len(content)}
    encoded = msgspec.json.encode(head)
    headers = {HEADERS["json_length"]: str(len(encoded))}
    return Response(encoded + content, media_type="application/octet-stream", headers=headers)
