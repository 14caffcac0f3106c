"""Checks of fitted models out of files: compiled code believes every index and shape that is checked here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from batch2online._types import IntArray

_MOST_THREADS = 1024
_MOST_CATEGORIES = 2**16
"""A set of categories of XGBoost takes as many bits as its largest category."""


class UnusableError(Exception):
    """There is no fitted model, or it is unsound, or it cannot be trusted."""


def require_sound(is_sound: Any, message: str) -> None:
    """Raise :class:`UnusableError` unless this holds everywhere."""
    if not np.all(is_sound):
        raise UnusableError(message)


def check_within(what: str, values: Any, n: int) -> None:
    """Check that all indices are in [0, n)."""
    values = np.asarray(values)
    require_sound((values >= 0) & (values < n), f"a {what} of a tree is not below {n}.")


def check_children(n: int, children: Any) -> None:
    """Check that children are among n nodes, none is the root, and none has two parents: no path is endless."""
    require_sound((children > 0) & (children < n), "a child of a tree is none of its nodes.")
    require_sound(len(np.unique(children)) == len(children), "a node of a tree has two parents.")


# -- estimators of scikit-learn -----------------------------------------------------------------------------------


def check_fitted(part: Any) -> None:
    """Check the numbers of a fitted estimator, or of any other part of a model, whose parts were checked."""
    module, name = type(part).__module__, type(part).__name__
    if not hasattr(part, "get_params"):
        return
    settings = vars(part)
    require_sound(settings.get("memory") is None, "it names a path.")
    require_sound(settings.get("input") not in ("filename", "file"), "it reads files that its rows name.")
    n_jobs = settings.get("n_jobs")
    require_sound(not isinstance(n_jobs, int) or abs(n_jobs) <= _MOST_THREADS, f"it asks for {n_jobs} threads.")
    if hasattr(part, "tree_") and module.startswith("sklearn.tree."):
        require_sound(part.tree_.n_features == part.n_features_in_, "a tree has other columns than its estimator.")
    if module.startswith("sklearn.ensemble.") and hasattr(part, "estimators_"):
        _check_ensemble(part)
    if module.startswith("sklearn.ensemble._hist_gradient_boosting.") and hasattr(part, "_predictors"):
        _check_histogram_boosting(part)
    if module == "sklearn.cluster._kmeans" and hasattr(part, "cluster_centers_"):
        _check_kmeans(part)
    if module == "sklearn.svm._classes" and name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"):
        _check_support_vectors(settings)
    if module.startswith("sklearn.neighbors.") and "_fit_X" in settings:
        _check_neighbours(part, settings)
    if module == "lightgbm.sklearn" and settings.get("_Booster") is not None:
        n_trees, n_classes = settings["_Booster"].num_model_per_iteration(), settings["_n_classes"]
        require_sound(n_trees == (n_classes if n_classes > 2 else 1), "its booster has other classes.")


def _check_ensemble(model: Any) -> None:
    columns = getattr(model, "estimators_features_", None)
    inside = model.estimators_.ravel() if isinstance(model.estimators_, np.ndarray) else model.estimators_
    for at, estimator in enumerate(inside):
        width = model.n_features_in_ if columns is None else len(columns[at])
        if hasattr(estimator, "tree_"):
            require_sound(estimator.tree_.n_features == width, "trees of an ensemble have other columns.")
    if type(model).__name__.startswith("GradientBoosting"):
        first = model._raw_predict_init(np.zeros((1, model.n_features_in_)))
        require_sound(first.shape[1] >= model.estimators_.shape[1], "boosting has more trees a round than outputs.")


def _check_histogram_boosting(model: Any) -> None:
    settings = vars(model)
    width = settings["_n_features"]
    require_sound(settings["_bin_mapper"].is_categorical_.shape == (width,), "bins are of other columns.")
    for tree in (tree for round_ in settings["_predictors"] for tree in round_):
        check_within("feature", tree.nodes["feature_idx"][tree.nodes["is_leaf"] == 0], width)


def _check_kmeans(model: Any) -> None:
    centers, threads = model.cluster_centers_, vars(model).get("_n_threads")
    is_array = isinstance(centers, np.ndarray) and centers.dtype in (np.float64, np.float32)
    is_sound = is_array and centers.shape == (model.n_clusters, model.n_features_in_)
    require_sound(is_sound, "its centers are no array of numbers as wide as its rows.")
    require_sound(type(threads) is int and 1 <= threads <= _MOST_THREADS, f"it asks for {threads!r} threads.")


def _check_support_vectors(fitted: dict[str, Any]) -> None:
    """Check the arrays that libsvm reads without their shapes."""
    if "support_vectors_" not in fitted:
        return
    is_sound = all(isinstance(fitted[name], np.ndarray) for name in ("support_vectors_", "_n_support", "_dual_coef_"))
    require_sound(is_sound, "its support vectors are no arrays.")
    vectors, counts, width = fitted["support_vectors_"], fitted["_n_support"], fitted["n_features_in_"]
    classes = len(fitted["classes_"]) if "classes_" in fitted else 2
    pairs = classes * (classes - 1) // 2
    require_sound(vectors.shape == (len(fitted["support_"]), width), "support vectors are not as wide as rows.")
    require_sound(fitted["_dual_coef_"].shape == (classes - 1, len(vectors)), "support vectors lack coefficients.")
    require_sound(len(fitted["_intercept_"]) == pairs, "support vectors lack intercepts.")
    require_sound(counts >= 0, "a class has less than no support vectors.")
    if "classes_" in fitted:
        require_sound(len(counts) == classes and counts.sum() == len(vectors), "support vectors are of other classes.")
    for name in ("_probA", "_probB"):
        require_sound(len(fitted[name]) in (0, pairs), "probabilities are of other classes.")


def _check_neighbours(model: Any, fitted: dict[str, Any]) -> None:
    rows, classes = fitted["_fit_X"], fitted.get("classes_")
    require_sound(rows.ndim == 2 and rows.shape[1] == model.n_features_in_, "its rows have other columns.")
    labels = fitted.get("_y")
    if classes is not None and labels is not None:
        require_sound(len(labels) == len(rows), "its rows have other labels.")
        each = classes if isinstance(classes, list) else [classes]
        for column, known in zip(np.reshape(labels, (len(rows), -1)).T, each, strict=True):
            check_within("label", column, len(known))


# -- LightGBM's text ----------------------------------------------------------------------------------------------

_OF_NODES = (
    "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child", "internal_value",
    "internal_weight", "internal_count",
)  # fmt: skip
_OF_LEAVES = ("leaf_value", "leaf_weight", "leaf_count", "leaf_const", "num_features")
_OTHERS = (
    "num_leaves", "num_cat", "cat_boundaries", "cat_threshold", "is_linear", "leaf_features", "leaf_coeff", "shrinkage",
)  # fmt: skip
_REQUIRED = ("split_feature", "threshold", "decision_type", "left_child", "right_child")


def checked_lightgbm(text: str) -> str:
    """Return the text of a booster, checked, without the sizes by which LightGBM would find its trees."""
    require_sound("\r" not in text and "\nend of trees" in text, "LightGBM: its text has no end.")
    head, *trees = re.split(r"^Tree=\d+\n", text.partition("\nend of trees")[0], flags=re.M)
    fields = _fields(line for line in head.splitlines() if "=" in line)
    width, n_classes = _number(fields["max_feature_idx"]) + 1, _number(fields["num_class"])
    require_sound(len(fields["feature_names"].split()) == width, f"LightGBM: there are no {width} columns.")
    require_sound(len(fields["feature_infos"].split()) == width, f"LightGBM: there are no {width} columns.")
    require_sound(_number(fields["num_tree_per_iteration"]) == n_classes, "LightGBM: trees are of other classes.")
    require_sound(len(trees) % n_classes == 0 and len(trees) >= n_classes, "LightGBM: trees are of other classes.")
    in_objective = re.findall(r"num_class:(\S*)", fields.get("objective", ""))
    require_sound([_number(each) == n_classes for each in in_objective], "LightGBM: the objective has other classes.")
    for tree in trees:
        _check_lightgbm_tree(_fields(line for line in tree.splitlines() if line), width)
    return re.sub(r"^tree_sizes=.*\n", "", text, flags=re.M)


def _check_lightgbm_tree(fields: dict[str, str], width: int) -> None:
    require_sound(not fields.keys() - {*_OF_NODES, *_OF_LEAVES, *_OTHERS}, "LightGBM: a tree has unknown fields.")
    are_numbers = re.fullmatch(r"[-+.0-9einfa ]*", " ".join(fields.values()))
    require_sound(are_numbers is not None, "LightGBM: a tree has other than numbers.")
    sizes = {name: len(value.split()) for name, value in fields.items()}
    leaves, n_categories = _number(fields["num_leaves"]), _number(fields["num_cat"])
    n = leaves - 1
    for names, size in ((_OF_NODES, n), (_OF_LEAVES, leaves)):
        for name in names:
            require_sound(sizes.get(name, 0) in (size, 0), f"LightGBM: {name} has other than {size} values.")
    require_sound(sizes["leaf_value"] == leaves, "LightGBM: a leaf has no value.")
    if n:
        require_sound(all(sizes[name] == n for name in _REQUIRED), "LightGBM: a node is incomplete.")
        children = _integers(f"{fields['left_child']} {fields['right_child']}")
        check_children(n, children[children >= 0])
        check_within("leaf", -1 - children[children < 0], leaves)
        check_within("feature", _integers(fields["split_feature"]), width)
        is_category = _integers(fields["decision_type"]) & 1 == 1
        if is_category.any():
            sets = np.array(fields["threshold"].split(), dtype=np.float64)[is_category]
            check_within("set of categories", sets, n_categories)
    if n_categories:
        _check_borders(_integers(fields["cat_boundaries"]), n_categories, sizes["cat_threshold"])
    if fields.get("is_linear", "0") != "0":
        used = _integers(fields["num_features"])
        is_sound = used.sum() == sizes["leaf_features"] == sizes["leaf_coeff"] and sizes["leaf_const"]
        require_sound(is_sound and (used >= 0).all(), "LightGBM: a linear leaf is incomplete.")
        check_within("feature", _integers(fields["leaf_features"]), width)


def _fields(lines: Iterable[str]) -> dict[str, str]:
    pairs = [line.partition("=")[::2] for line in lines]
    fields = dict(pairs)
    require_sound(len(fields) == len(pairs), "LightGBM: a field is there twice.")
    return fields


def _number(text: str) -> int:
    require_sound(re.fullmatch(r"\d{1,9}", text) is not None, f"{text[:20]!r} is no number.")
    return int(text)


def _integers(text: str) -> IntArray:
    require_sound(re.fullmatch(r"[-0-9 ]*", text) is not None, f"{text[:20]!r} are no integers.")
    return np.array(text.split(), dtype=np.int64)


def _check_borders(borders: Any, n: int, end: int) -> None:
    """Check that n + 1 borders ascend from 0 to the end."""
    is_sound = len(borders) == n + 1 and borders[0] == 0 and borders[-1] == end and (np.diff(borders) >= 0).all()
    require_sound(is_sound, "borders of parts do not ascend.")


# -- XGBoost's JSON -----------------------------------------------------------------------------------------------


def check_xgboost(text: str) -> None:
    """Check the JSON of a booster."""
    learner = json.loads(text, object_pairs_hook=_unique)["learner"]
    params = learner["learner_model_param"]
    width = _number(params["num_feature"])
    groups = max(_number(params["num_class"]), _number(params["num_target"]), 1)
    require_sound(len(params["base_score"].split(",")) in (1, groups), "XGBoost: base_score has other outputs.")
    for settings in learner["objective"].values():
        n_classes = settings.get("num_class", "0") if isinstance(settings, dict) else "0"
        require_sound(_number(n_classes) in (0, groups), "XGBoost: the objective has other classes.")
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        n = len(booster["model"]["weights"])
        require_sound(n == (width + 1) * groups, f"XGBoost: there are {n} coefficients of {width} columns.")
        return
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    trees = model["trees"]
    if booster["name"] == "dart":
        require_sound(len(booster["weight_drop"]) == len(trees), "XGBoost: a tree has no weight.")
    is_sound = len(model["tree_info"]) == len(trees) == _number(model["gbtree_model_param"]["num_trees"])
    require_sound(is_sound, "XGBoost: there are other trees than it claims.")
    check_within("group", model["tree_info"], groups)
    rounds = model["iteration_indptr"]
    _check_borders(rounds, len(rounds) - 1, len(trees))
    _check_recoding(model.get("cats") or {}, width)
    for tree in trees:
        _check_xgboost_tree(tree, width)


def _check_xgboost_tree(tree: dict[str, Any], width: int) -> None:
    n = _number(tree["tree_param"]["num_nodes"])
    require_sound(_number(tree["tree_param"]["size_leaf_vector"]) < 2, "XGBoost: a tree has several outputs.")
    names = ("base_weights", "default_left", "left_children", "loss_changes", "parents", "right_children", "split_type")
    numbers = {name: np.array(tree[name], dtype=np.float64) for name in (*names, "split_indices", "sum_hessian")}
    values = np.array(tree["split_conditions"], dtype=np.float64)
    require_sound([each.shape == (n,) for each in (*numbers.values(), values)], "XGBoost: a node is incomplete.")
    left, right = numbers["left_children"], numbers["right_children"]
    inner = np.flatnonzero(left != -1)
    check_children(n, np.concatenate([left[inner], right[inner]]))
    for children in (left, right):
        parents = numbers["parents"][children[inner].astype(int)]
        require_sound(parents == inner, "XGBoost: a node is no child of its parent.")
    check_within("feature", numbers["split_indices"][inner], width)
    starts, sizes = (np.array(tree[f"categories_{name}"], dtype=np.float64) for name in ("segments", "sizes"))
    nodes = np.flatnonzero(numbers["split_type"])
    is_sound = tree["categories_nodes"] == nodes.tolist() and len(nodes) == len(starts) == len(sizes)
    require_sound(is_sound, "XGBoost: a node has no categories.")
    require_sound((starts >= 0) & (sizes > 0), "XGBoost: a set of categories is incomplete.")
    require_sound(starts + sizes <= len(tree["categories"]), "XGBoost: a set of categories is incomplete.")
    check_within("category", tree["categories"], _MOST_CATEGORIES)


def _check_recoding(categories: dict[str, Any], width: int) -> None:
    """Check the categories of the rows that the booster was fitted on, by which it recodes those of others."""
    if not categories.get("enc"):
        return
    borders: Sequence[int] = categories["feature_segments"]
    _check_borders(borders, width, len(categories["sorted_idx"]))
    require_sound(len(categories["enc"]) == width, "XGBoost: categories are of other columns.")
    for start, stop, column in zip(borders[:-1], borders[1:], categories["enc"], strict=True):
        check_within("category", categories["sorted_idx"][start:stop], stop - start)
        if "offsets" not in column:
            require_sound(len(column["values"]) == stop - start, "XGBoost: a category has no value.")
        elif stop > start or column["offsets"]:
            _check_borders(column["offsets"], stop - start, len(column["values"]))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    require_sound(len(found) == len(pairs), "XGBoost: a field is there twice.")
    return found
