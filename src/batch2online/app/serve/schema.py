"""The description of the service in OpenAPI 3.1, from the types of its bodies."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec

from batch2online import __version__
from batch2online.app.serve import inference, messages
from batch2online.app.serve.bodies import Row
from batch2online.app.serve.problems import ProblemBody

_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
}
_KEY = {
    "name": "key",
    "in": "query",
    "schema": {"type": "string"},
    "description": "Column that holds the keys of the rows.",
}
_SINCE = {"name": "since", "in": "query", "schema": {"type": "integer", "minimum": 0}, "description": "Rows seen."}
_ONCE = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 200}}


@cache
def openapi() -> dict[str, Any]:
    """Return the description."""
    types = [
        messages.ModelInfo,
        messages.LearnResult,
        messages.PredictResult,
        messages.LabelResult,
        messages.Forget,
        messages.Changes,
        messages.RegretResult,
        messages.Points,
        inference.InferRequest,
        ProblemBody,
    ]
    some = msgspec.Meta(min_length=1)
    rows, settings = Annotated[list[Annotated[Row, some]], some], dict[str, Any]
    (row_schema, settings_schema, *refs), components = msgspec.json.schema_components(
        [rows, settings, *types], ref_template="#/components/schemas/{name}"
    )
    components["Forget"]["oneOf"] = [
        {"required": [name], "properties": {name: {"type": "array"}}} for name in ("ids", "keys")
    ]
    ref = {kind.__name__: found for kind, found in zip(types, refs, strict=True)}

    def operation(summary: str, result: Any, body: Any = None, *parameters: Any, status: str = "200") -> dict[str, Any]:
        found: dict[str, Any] = {"summary": summary, "responses": {status: _content(result)}}
        found["responses"]["default"] = {
            "description": "What was wrong, and what to do.",
            "content": {"application/problem+json": {"schema": ref["ProblemBody"]}},
        }
        if body is not None:
            found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        if parameters:
            found["parameters"] = list(parameters)
        return found

    info, model = ref["ModelInfo"], "/models/{name}"
    created = operation("Create a model", info, settings_schema, status="201")
    created["responses"]["200"] = _content(info)
    paths = {
        "/models": {"get": operation("List the models", {"type": "array", "items": info})},
        model: {"put": created, "get": operation("Describe a model", info)},
        f"{model}/learn": {"post": operation("Learn rows", ref["LearnResult"], row_schema, _KEY, _ONCE)},
        f"{model}/predict": {"post": operation("Predict rows", ref["PredictResult"], row_schema, _KEY)},
        f"{model}/label": {
            "post": operation("Learn targets that come late", ref["LabelResult"], row_schema, _KEY, _ONCE)
        },
        f"{model}/forget": {"post": operation("Forget rows", info, ref["Forget"], _ONCE)},
        f"{model}/changes": {"get": operation("List changes of the model", ref["Changes"], None, _SINCE)},
        f"{model}/regret": {"get": operation("Compare the loss with hindsight", ref["RegretResult"])},
        f"{model}/coreset": {"get": operation("Return the coreset", ref["Points"])},
        "/v2/models/{name}/infer": {
            "post": operation("Predict, Open Inference Protocol", {"type": "object"}, ref["InferRequest"])
        },
    }
    for path, operations in paths.items():
        if "{name}" in path:
            operations["parameters"] = [_NAME]  # type: ignore[assignment]
    title = {"title": "batch2online", "version": __version__, "description": "Models that learn from a stream."}
    return {"openapi": "3.1.0", "info": title, "paths": paths, "components": {"schemas": components}}


def _content(schema: Any) -> dict[str, Any]:
    return {"description": "The result.", "content": {"application/json": {"schema": schema}}}
