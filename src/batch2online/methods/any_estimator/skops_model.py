"""Fitted models of scikit-learn in the form of skops, where that is installed: no pickle, and types that can be read.

Only types that :mod:`trust` lists are accepted, and the sizes that an archive claims are checked first.
"""

from __future__ import annotations

import copy
import io
import json
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline

from batch2online.methods.any_estimator.trust import Trust, harmless_fitted
from batch2online.storage.tree import Array, array_header

_LOADERS = ("DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "TupleNode", "TypeNode")
_DEEPEST, _MOST_VISITS, _MOST_THREADS = 100, 10, 1024
_EPOCH = (1980, 1, 1, 0, 0, 0)


class UnusableError(Exception):
    """There is no fitted model, or it cannot be trusted."""


def dumped(model: Any) -> Array | None:
    """Return the bytes of a fitted model, if skops is there and can hold it."""
    with suppress(Exception):  # the rows are stored as well, and saving warns
        import skops.io

        memories = _memories(model)
        if memories:
            model = copy.deepcopy(model).set_params(**dict.fromkeys(memories))
        return np.frombuffer(_canonical(skops.io.dumps(model)), dtype=np.uint8)
    return None


def is_installed() -> bool:
    """Whether skops is there."""
    try:
        import skops.io  # noqa: F401
    except ImportError:
        return False
    return True


def _canonical(data: bytes) -> bytes:
    """Return the archive without contents that differ from run to run: addresses of objects, and times."""
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
    """Assign numbers to the objects of a tree in their order of appearance; return the new names of files."""
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


def loaded(content: Any, trust: Trust) -> tuple[Any, bool]:
    """Return the fitted model in these bytes, and whether all its types are harmless.

    :class:`UnusableError` unless they are harmless or trusted.
    """
    if content is None:
        raise UnusableError("it was saved without skops (pip install batch2online[skops]), or skops cannot hold it.")
    try:
        import skops.io
    except ImportError as error:
        raise UnusableError("skops is not installed (pip install batch2online[skops]).") from error
    data = bytes(content)
    try:
        trusted = _check(data, trust)
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            model = skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    except UnusableError:
        raise
    except (Exception, InconsistentVersionWarning) as error:
        raise UnusableError(f"the fitted model cannot be read: {error}") from error
    if _memories(model):
        raise UnusableError("it names a path.")
    _check_compiled(model)
    return model, not trusted


def _memories(model: Any) -> list[str]:
    """Return the parameters by which a model, or a part of it, caches results in files."""
    params = model.get_params() if hasattr(model, "get_params") else {}
    return [name for name, value in params.items() if name.split("__")[-1] == "memory" and value is not None]


def _check_compiled(model: Any) -> None:
    """Check the attributes of a fitted model that compiled code does not check."""
    for part in [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]:
        if isinstance(part, Pipeline):
            _check_compiled(part)
        elif isinstance(part, KMeans):
            _check_kmeans(part)


def _check_kmeans(model: Any) -> None:
    """Check that centers are as wide as the rows that are compared with them, and threads few."""
    centers, threads = vars(model).get("cluster_centers_"), vars(model).get("_n_threads")
    is_array = isinstance(centers, np.ndarray) and centers.dtype in (np.float64, np.float32)
    if not is_array or centers.shape != (model.n_clusters, vars(model).get("n_features_in_")):
        raise UnusableError("its centers are no array of numbers as wide as its rows.")
    if type(threads) is not int or not 1 <= threads <= _MOST_THREADS:
        raise UnusableError(f"it asks for {threads!r} threads.")


def _check(data: bytes, trust: Trust) -> set[str]:
    """Check sizes and types before skops uses them; return the types that are trusted and not harmless."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in members):
            raise UnusableError("it is compressed.")
        if sum(info.file_size for info in members) > len(data):
            raise UnusableError("it claims to be larger than it is.")
        walk = _Walk(archive)
        walk.visit(json.loads(archive.read("schema.json")))
    missing = sorted(name for name in walk.others if not trust.covers(name))
    if missing:
        names = ", ".join(f'"{name}"' for name in missing)
        raise UnusableError(f"it holds {', '.join(missing)}; if you trust the file, add trusted=[{names}].")
    return walk.others


class _Walk:
    """A walk over every node of the tree of skops, which names a part that is in several places by its number."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.files: set[str] = set()
        self.others: set[str] = set()
        """Types that are not known to be harmless."""

        self.sizes: dict[Any, int] = {}
        self.nodes = 0

    def visit(self, tree: Any, depth: int = 0) -> int:
        """Return how many nodes skops will visit, each part as often as it is named."""
        if depth > _DEEPEST:
            raise UnusableError("it is nested too deeply.")
        self.nodes += 1
        is_node = isinstance(tree, dict) and "__loader__" in tree
        key = tree.get("__id__") if is_node else None
        if is_node:
            self._visit_node(tree, is_new=key not in self.sizes)
        known = self.sizes.setdefault(key, 1) if key is not None else 1
        children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
        size = 1 + sum(self.visit(child, depth + 1) for child in children)
        if key is not None:
            size = self.sizes[key] = max(size, known)
        if size > _MOST_VISITS * self.nodes:
            raise UnusableError("its parts refer to each other too often.")
        return size

    def _visit_node(self, node: dict[str, Any], is_new: bool) -> None:
        name, loader = f"{node['__module__']}.{node['__class__']}", node["__loader__"]
        is_plain = name.split(".")[0] in ("builtins", "numpy") or name in harmless_fitted()
        if not is_plain or loader not in _LOADERS:
            self.others.add(name)
        if "file" not in node or not is_new:
            return
        file = node["file"]
        if file in self.files:
            raise UnusableError("an array of it is in several places.")
        self.files.add(file)
        if file.endswith(".npy"):
            array_header(self.archive.read(file))
        else:
            self.others.add(file)
