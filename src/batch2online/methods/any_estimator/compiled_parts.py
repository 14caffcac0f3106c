"""Objects of compiled code as plain data, and back: the data is checked before any of it becomes an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from batch2online.methods.any_estimator.model_checks import (
    check_children,
    check_within,
    check_xgboost,
    checked_lightgbm,
    require_sound,
)

Content = dict[str, Any]


class Packing(NamedTuple):
    """How an object becomes plain data, and how the data becomes the object."""

    pack: Callable[[Any], Content]
    unpack: Callable[[Content], object]


def _pack_tree(tree: Any) -> Content:
    _, arguments, state = tree.__reduce__()
    return {"arguments": list(arguments), "state": state}


def _unpack_tree(content: Content) -> object:
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


def _unpack_histogram_tree(content: Content) -> object:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    nodes, bits = content["nodes"], content["raw_left_cat_bitsets"]
    inner = nodes[nodes["is_leaf"] == 0]
    require_sound(len(nodes) > 0, "a tree has no nodes.")
    check_children(len(nodes), np.concatenate([inner["left"], inner["right"]]))
    is_sound = bits.shape == (len(bits), 8) and content["binned_left_cat_bitsets"].shape == bits.shape
    require_sound(is_sound, "the categories of a tree are no sets of 256.")
    check_within("set of categories", inner["bitset_idx"][inner["is_categorical"] == 1], len(bits))
    return TreePredictor(nodes, content["binned_left_cat_bitsets"], bits)


def _pack_loss(loss: Any) -> Content:
    make, arguments, *_ = loss.__reduce__()
    return {"arguments": list(arguments) if make is type(loss) else []}  # that of several classes has none


def _unpack_loss(name: str, content: Content) -> object:
    module, _, own_name = name.rpartition(".")
    return getattr(import_module(module), own_name)(*map(float, content["arguments"]))


def _pack_lightgbm(booster: Any) -> Content:
    return {"text": booster.model_to_string(num_iteration=-1), "best_iteration": booster.best_iteration}


def _unpack_lightgbm(content: Content) -> object:
    from lightgbm import Booster

    booster = Booster(model_str=checked_lightgbm(content["text"]))
    booster.best_iteration = int(content["best_iteration"])
    return booster


def _pack_xgboost(booster: Any) -> Content:
    return {"text": booster.save_raw("json").decode()}


def _unpack_xgboost(content: Content) -> object:
    from xgboost import Booster

    check_xgboost(content["text"])
    booster = Booster()
    booster.load_model(bytearray(content["text"].encode()))
    return booster


def _pack_array_check(function: Any) -> Content:
    if function.func is not check_array or function.args:
        raise TypeError("only check_array of histogram gradient boosting is stored")
    return dict(function.keywords)


_LOSSES = (
    *(f"sklearn._loss._loss.Cy{name}Loss" for name in ("Exponential", "Huber", "Pinball", "HalfGamma", "HalfPoisson")),
    *(f"sklearn._loss._loss.CyHalf{name}Loss" for name in ("Binomial", "Multinomial", "Tweedie")),
    *(f"sklearn._loss._loss.Cy{name}" for name in ("AbsoluteError", "HalfSquaredError", "HalfTweedieLossIdentity")),
    *(f"sklearn.linear_model._sgd_fast.{name}" for name in ("Hinge", "SquaredHinge", "ModifiedHuber")),
    *(f"sklearn.linear_model._sgd_fast.{name}EpsilonInsensitive" for name in ("", "Squared")),
)

PACKINGS: Mapping[str, Packing] = {
    "sklearn.tree._tree.Tree": Packing(_pack_tree, _unpack_tree),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": Packing(vars, _unpack_histogram_tree),
    "lightgbm.basic.Booster": Packing(_pack_lightgbm, _unpack_lightgbm),
    "xgboost.core.Booster": Packing(_pack_xgboost, _unpack_xgboost),
    "functools.partial": Packing(_pack_array_check, lambda keywords: partial(check_array, **keywords)),
    **{name: Packing(_pack_loss, partial(_unpack_loss, name)) for name in _LOSSES},
}
