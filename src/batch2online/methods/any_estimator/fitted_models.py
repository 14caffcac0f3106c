"""Fitted models in files, without pickle: the form of skops, and boosters in the texts of their own libraries.

skops names the types in a file before it makes anything; those beyond its own list must be trusted by the caller.
It checks types and no numbers, and compiled code believes the numbers of a fitted model: an index that was forged
reads anywhere in memory. So objects of compiled code are stored as plain data (:data:`_PACKINGS`), and indices and
shapes are checked here before anybody predicts.
"""

from __future__ import annotations

import copy
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import check_array

from batch2online.estimator import Trusted
from batch2online.methods.any_estimator.model_checks import (
    UnusableError,
    check_children,
    check_fitted,
    check_within,
    check_xgboost,
    checked_lightgbm,
    require_sound,
)
from batch2online.storage.tree import Array, array_header

_SAFE = (
    "collections.OrderedDict",
    "collections.defaultdict",
    "lightgbm.compat._LGBMLabelEncoder",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRFClassifier",
    "xgboost.sklearn.XGBRFRegressor",
    "xgboost.sklearn.XGBRegressor",
)
"""Types that hold parameters and plain data, beside those of skops."""

_LOADERS = (
    "DTypeNode",
    "DefaultDictNode",
    "DictNode",
    "JsonNode",
    "ListNode",
    "LossNode",
    "NdArrayNode",
    "ObjectNode",
    "RandomGeneratorNode",
    "RandomStateNode",
    "SetNode",
    "SliceNode",
    "TupleNode",
    "TypeNode",
)
"""Nodes of skops that make objects of the types named in the file; others call functions."""

_DEEPEST, _MOST_VISITS = 100, 10


def check_trusted(trusted: Trusted) -> None:
    """Raise TypeError unless this is None, True, or a list of names."""
    is_list = isinstance(trusted, list | tuple | set) and all(isinstance(name, str) for name in trusted)
    if not (is_list or trusted is None or isinstance(trusted, bool)):
        raise TypeError(f"trusted must be None, True or a list of the names of types, got {trusted!r}.")


def is_installed() -> bool:
    """Whether skops is there."""
    try:
        import skops.io  # noqa: F401
    except ImportError:
        return False
    return True


def dumped(model: Any) -> Array | None:
    """Return the bytes of a fitted model; None without skops, or if skops cannot hold the model."""
    with suppress(Exception):  # the rows are stored as well, and saving warns
        import skops.io

        return np.frombuffer(skops.io.dumps(_packed(model)), dtype=np.uint8)
    return None


def loaded(content: Any, trusted: Trusted) -> Any:
    """Return the fitted model in these bytes; :class:`UnusableError` unless it is sound, and safe or trusted."""
    if content is None:
        raise UnusableError("it was saved without skops (pip install batch2online[skops]), or skops cannot hold it.")
    try:
        import skops.io
    except ImportError as error:
        raise UnusableError("skops is not installed (pip install batch2online[skops]).") from error
    data = bytes(content)
    try:
        others = _types_beside(data)
        missing = [name for name in sorted(others) if trusted is not True and name not in (trusted or ())]
        if missing:
            names = ", ".join(f'"{name}"' for name in missing)
            raise UnusableError(f"it holds {', '.join(missing)}; if you trust the file, add trusted=[{names}].")
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            model = _unpacked(skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data)))
            for part in _parts(model):
                check_fitted(part)
    except UnusableError:
        raise
    except (Exception, InconsistentVersionWarning) as error:
        raise UnusableError(f"the fitted model cannot be read: {error}") from error
    return model


# -- the archive ------------------------------------------------------------------------------------------------


def _types_beside(data: bytes) -> set[str]:
    """Return the types in an archive that are not known to be safe, after a check of the sizes that it claims."""
    import skops.io

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in members):
            raise UnusableError("it is compressed.")
        if sum(info.file_size for info in members) > len(data):
            raise UnusableError("it claims to be larger than it is.")
        for info in members:
            if info.filename.endswith(".npy"):
                array_header(archive.read(info))
        tree = _Tree()
        tree.visit(json.loads(archive.read("schema.json")))
    return tree.others | (set(skops.io.get_untrusted_types(data=data)) - set(_SAFE))


class _Tree:
    """A walk over the nodes of skops, which names a part that is in several places by its number."""

    def __init__(self) -> None:
        self.others: set[str] = set()
        """Types that are made in an uncommon way, and members that are no arrays."""

        self.sizes: dict[Any, int] = {}
        self.nodes = 0

    def visit(self, tree: Any, depth: int = 0) -> int:
        """Return how many nodes skops will visit, each part as often as it is named."""
        if depth > _DEEPEST:
            raise UnusableError("it is nested too deeply.")
        self.nodes += 1
        key = None
        if isinstance(tree, dict) and "__loader__" in tree:
            key = tree.get("__id__")
            if tree["__loader__"] not in _LOADERS:
                self.others.add(f"{tree['__module__']}.{tree['__class__']}")
            if not str(tree.get("file", ".npy")).endswith(".npy"):
                self.others.add(tree["file"])
        known = 1 if key is None else self.sizes.setdefault(key, 1)
        children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
        size = 1 + sum(self.visit(child, depth + 1) for child in children)
        if key is not None:
            size = self.sizes[key] = max(size, known)
        if size > _MOST_VISITS * self.nodes:
            raise UnusableError("its parts refer to each other too often.")
        return size


# -- objects of compiled code ------------------------------------------------------------------------------------


class _Packing(NamedTuple):
    """How an object of compiled code becomes plain data, and how the data, once checked, becomes the object."""

    pack: Callable[[Any], dict[str, Any]]
    unpack: Callable[[dict[str, Any]], Any]


def _pack_tree(tree: Any) -> dict[str, Any]:
    _, arguments, state = tree.__reduce__()
    return {"arguments": list(arguments), "state": state}


def _unpack_tree(content: dict[str, Any]) -> Any:
    from sklearn.tree._tree import Tree

    (n_features, n_classes, n_outputs), state = content["arguments"], content["state"]
    nodes, values = state["nodes"], state["values"]
    is_sound = n_outputs == len(n_classes) and values.shape == (len(nodes), n_outputs, max(n_classes))
    require_sound(is_sound, "the values of a tree are not one for each class and node.")
    require_sound(state["node_count"] == len(nodes) > 0, f"a tree has not {state['node_count']} nodes.")
    inner = nodes[nodes["left_child"] != -1]
    check_children(len(nodes), np.concatenate([inner["left_child"], inner["right_child"]]))
    check_within("feature", inner["feature"], n_features)
    tree = Tree(n_features, n_classes, n_outputs)
    tree.__setstate__(state)
    return tree


def _unpack_histogram_tree(content: dict[str, Any]) -> Any:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    nodes, bits = content["nodes"], content["raw_left_cat_bitsets"]
    inner = nodes[nodes["is_leaf"] == 0]
    require_sound(len(nodes) > 0, "a tree has no nodes.")
    check_children(len(nodes), np.concatenate([inner["left"], inner["right"]]))
    is_sound = bits.shape == (len(bits), 8) and content["binned_left_cat_bitsets"].shape == bits.shape
    require_sound(is_sound, "the categories of a tree are no sets of 256.")
    check_within("set of categories", inner["bitset_idx"][inner["is_categorical"] == 1], len(bits))
    return TreePredictor(nodes, content["binned_left_cat_bitsets"], bits)


def _pack_lightgbm(booster: Any) -> dict[str, Any]:
    return {"text": booster.model_to_string(num_iteration=-1), "best_iteration": booster.best_iteration}


def _unpack_lightgbm(content: dict[str, Any]) -> Any:
    from lightgbm import Booster

    booster = Booster(model_str=checked_lightgbm(content["text"]))
    booster.best_iteration = int(content["best_iteration"])
    return booster


def _pack_xgboost(booster: Any) -> dict[str, Any]:
    return {"text": booster.save_raw("json").decode()}


def _unpack_xgboost(content: dict[str, Any]) -> Any:
    from xgboost import Booster

    check_xgboost(content["text"])
    booster = Booster()
    booster.load_model(bytearray(content["text"].encode()))
    return booster


def _pack_array_check(function: Any) -> dict[str, Any]:
    if function.func is not check_array or function.args:
        raise TypeError("only check_array of histogram gradient boosting is stored")
    return dict(function.keywords)


_PACKINGS: Mapping[str, _Packing] = {
    "sklearn.tree._tree.Tree": _Packing(_pack_tree, _unpack_tree),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": _Packing(vars, _unpack_histogram_tree),
    "lightgbm.basic.Booster": _Packing(_pack_lightgbm, _unpack_lightgbm),
    "xgboost.core.Booster": _Packing(_pack_xgboost, _unpack_xgboost),
    "functools.partial": _Packing(_pack_array_check, lambda keywords: partial(check_array, **keywords)),
}
_MARK = "batch2online: stored as plain data"


def _packed(model: Any) -> Any:
    """Return a copy of a model with plain data in place of objects of compiled code, and without paths of caches."""
    packed = {
        id(part): {_MARK: name, "content": _PACKINGS[name].pack(part)}
        for part in _parts(model)
        if (name := _type_name(part)) in _PACKINGS
    }
    params = model.get_params() if hasattr(model, "get_params") else {}
    memories = [name for name, value in params.items() if name.split("__")[-1] == "memory" and value is not None]
    if not packed and not memories:
        return model
    model = copy.deepcopy(model, packed)  # a copy takes what its memo holds for an object
    return model.set_params(**dict.fromkeys(memories)) if memories else model


def _unpacked(model: Any) -> Any:
    """Return a model with objects of compiled code in place of their plain data, which is checked."""
    packed = [part for part in _parts(model) if isinstance(part, dict) and _MARK in part]
    made = {id(part): _PACKINGS[part[_MARK]].unpack(part["content"]) for part in packed}
    return copy.deepcopy(model, dict(made)) if made else model


def _parts(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Iterate over a model and all objects in it, but for numbers, strings and what is inside compiled objects."""
    seen = set() if seen is None else seen
    if id(value) in seen or value is None or isinstance(value, str | bytes | int | float | type):
        return
    seen.add(id(value))
    yield value
    children: Iterable[Any] = ()
    if isinstance(value, np.ndarray):
        children = value.ravel() if value.dtype == object else ()
    elif isinstance(value, dict):
        children = value.values()
    elif isinstance(value, list | tuple | set):
        children = value
    elif hasattr(value, "__dict__") and _type_name(value) not in _PACKINGS:
        children = vars(value).values()
    for child in children:
        yield from _parts(child, seen)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
