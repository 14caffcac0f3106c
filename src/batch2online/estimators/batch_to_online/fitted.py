"""Fitted models of scikit-learn in the form of skops, where that is installed: no pickle, and types that can be read.

What skops deems safe is narrowed to what :mod:`trust` lists, and the sizes that an archive claims are checked first.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning

from batch2online.estimators.batch_to_online.trust import Trust, harmless_fitted
from batch2online.persistence.tree import Array, array_header

_LEAVES = ("JsonNode", "NdArrayNode", "TypeNode")
_LOADERS = (*_LEAVES, "DictNode", "ListNode", "ObjectNode", "TupleNode")
_DEEPEST = 100


class UnusableError(Exception):
    """The fitted model is not to be believed, or cannot be: solve again."""


def dumped(model: Any) -> Array | None:
    """The bytes of a fitted model, if skops is there and can hold it."""
    with suppress(Exception):  # the rows are stored as well, so nothing is lost without it
        import skops.io

        if has_memory(model):
            return None
        return np.frombuffer(skops.io.dumps(model), dtype=np.uint8)
    return None


def loaded(content: Any, trust: Trust) -> Any:
    """The fitted model in these bytes; :class:`UnusableError` unless all its types are harmless or trusted."""
    try:
        import skops.io
    except ImportError as error:
        raise UnusableError("skops is not installed.") from error
    data = bytes(content)
    try:
        _check(data, trust)
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            model = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    except UnusableError:
        raise
    except (Exception, InconsistentVersionWarning) as error:
        raise UnusableError(f"the fitted model cannot be read: {error}") from error
    if has_memory(model):
        raise UnusableError("it names a path.")
    return model


def has_memory(model: Any) -> bool:
    """Whether a model, or a part of it, keeps what it computes in files."""
    return any(name.split("__")[-1] == "memory" and value is not None for name, value in model.get_params().items())


def _check(data: bytes, trust: Trust) -> None:
    """Sizes and types, before skops believes them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in members):
            raise UnusableError("it is compressed.")
        if sum(info.file_size for info in members) > len(data):
            raise UnusableError("it claims to be larger than it is.")
        walk = _Walk(archive, trust)
        walk.look_at(json.loads(archive.read("schema.json")))


class _Walk:
    """A look at every node of the tree of skops."""

    def __init__(self, archive: zipfile.ZipFile, trust: Trust) -> None:
        self.archive, self.trust = archive, trust
        self.files: set[str] = set()
        self.seen: set[Any] = set()

    def look_at(self, tree: Any, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise UnusableError("it is nested too deeply.")
        if isinstance(tree, dict) and "__loader__" in tree:
            self._look_at_node(tree)
        children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
        for child in children:
            self.look_at(child, depth + 1)

    def _look_at_node(self, node: dict[str, Any]) -> None:
        name, loader, key = f"{node['__module__']}.{node['__class__']}", node["__loader__"], node.get("__id__")
        is_plain = name.split(".")[0] in ("builtins", "numpy") or name in harmless_fitted()
        if not is_plain or loader not in _LOADERS:
            self._need(name)
        if key in self.seen and loader not in _LEAVES and node.get("content"):
            raise UnusableError("a part of it is in several places.")  # skops would look at it once for each
        if "file" in node and key not in self.seen:
            self._look_at_file(node["file"])
        if key is not None:
            self.seen.add(key)

    def _need(self, name: str) -> None:
        if not self.trust.covers(name):
            raise UnusableError(f"it holds {name}.")

    def _look_at_file(self, name: str) -> None:
        if name in self.files:
            raise UnusableError("an array of it is in several places.")
        self.files.add(name)
        if name.endswith(".npy"):
            array_header(self.archive.read(name))
        else:
            self._need(name)
