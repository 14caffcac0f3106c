"""Fitted models of scikit-learn in the form of skops, where that is installed: no pickle, and types that can be read.

What skops deems safe is narrowed to what :mod:`trust` lists, and the sizes that an archive claims are checked first.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning

from batch2online.estimators.batch_to_online.trust import Trust, harmless_fitted
from batch2online.persistence.tree import Array, array_header

_LOADERS = ("DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "TupleNode", "TypeNode")
_DEEPEST, _MOST_VISITS = 100, 10


_EPOCH = (1980, 1, 1, 0, 0, 0)


class UnusableError(Exception):
    """The fitted model is not to be believed, or cannot be: solve again."""


def dumped(model: Any) -> Array | None:
    """Return the bytes of a fitted model, if skops is there and can hold it."""
    with suppress(Exception):  # the rows are stored as well, so nothing is lost without it
        import skops.io

        if has_memory(model):
            return None
        return np.frombuffer(_canonical(skops.io.dumps(model)), dtype=np.uint8)
    return None


def _canonical(data: bytes) -> bytes:
    """Return the same archive without what differs from run to run: addresses of objects, and times."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(members.pop("schema.json"))
    numbers: dict[int, int] = {}
    names = _renumbered(tree, numbers)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("schema.json", _EPOCH), json.dumps(tree))
        for name in sorted(members, key=lambda name: names.get(name, name)):
            archive.writestr(zipfile.ZipInfo(names.get(name, name), _EPOCH), members[name])
    return buffer.getvalue()


def _renumbered(tree: Any, numbers: dict[int, int]) -> dict[str, str]:
    """Give the objects of a tree numbers in the order in which they stand there; return the new names of files."""
    names: dict[str, str] = {}
    if isinstance(tree, dict):
        if isinstance(tree.get("__id__"), int):
            tree["__id__"] = numbers.setdefault(tree["__id__"], len(numbers))
        if isinstance(tree.get("file"), str):
            name = f"{tree.get('__id__', len(numbers))}{Path(tree['file']).suffix}"
            names[tree["file"]], tree["file"] = name, name
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        names |= _renumbered(child, numbers)
    return names


def loaded(content: Any, trust: Trust) -> Any:
    """Return the fitted model in these bytes; :class:`UnusableError` unless all its types are harmless or trusted."""
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
    """A look at every node of the tree of skops, which names a part that is in several places by its number."""

    def __init__(self, archive: zipfile.ZipFile, trust: Trust) -> None:
        self.archive, self.trust = archive, trust
        self.files: set[str] = set()
        self.sizes: dict[Any, int] = {}
        self.nodes = 0

    def look_at(self, tree: Any, depth: int = 0) -> int:
        """How many nodes skops will look at, part by part, each as often as it is named."""
        if depth > _DEEPEST:
            raise UnusableError("it is nested too deeply.")
        self.nodes += 1
        is_node = isinstance(tree, dict) and "__loader__" in tree
        key = tree.get("__id__") if is_node else None
        if is_node:
            self._look_at_node(tree, is_new=key not in self.sizes)
        known = self.sizes.setdefault(key, 1) if key is not None else 1
        children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
        size = 1 + sum(self.look_at(child, depth + 1) for child in children)
        if key is not None:
            size = self.sizes[key] = max(size, known)
        if size > _MOST_VISITS * self.nodes:
            raise UnusableError("parts of it are in too many places.")
        return size

    def _look_at_node(self, node: dict[str, Any], is_new: bool) -> None:
        name, loader = f"{node['__module__']}.{node['__class__']}", node["__loader__"]
        is_plain = name.split(".")[0] in ("builtins", "numpy") or name in harmless_fitted()
        if not is_plain or loader not in _LOADERS:
            self._need(name)
        if "file" in node and is_new:
            self._look_at_file(node["file"])

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
