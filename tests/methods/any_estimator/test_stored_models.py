"""Fitted models in files: they predict as before, and forged ones are refused before compiled code reads them."""

from __future__ import annotations

import io
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, TweedieRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from batch2online.methods.any_estimator.model_checks import UnusableError
from batch2online.methods.any_estimator.stored_models import model_of, stored_model

try:
    from lightgbm import LGBMClassifier, LGBMRegressor
except ImportError:
    LGBMClassifier = LGBMRegressor = None
try:
    from xgboost import XGBClassifier, XGBRegressor
except ImportError:
    XGBClassifier = XGBRegressor = None

rng = np.random.default_rng(0)
N = 300
X = rng.normal(size=(N, 4))
X[:, 3] = rng.integers(0, 6, N)
Y = X[:, 0] * X[:, 1] + (X[:, 3] == 2) + rng.normal(size=N) / 4
WORDS = np.where(Y > 1, "b", np.where(Y > 0, "a", "c"))
IS_LARGE = (Y > 0).astype(int)
TABLE = pd.DataFrame({"number": X[:, 0], "string": rng.choice(["u", "v", "w"], N)})
CATEGORIES = TABLE.astype({"string": "category"})
SMALL = {"n_estimators": 4}
LIGHT = SMALL | {"verbose": -1, "n_jobs": 1, "min_child_samples": 5}


def encoded(last):
    return make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["string"]), remainder="passthrough"), last
    )


CASES = {
    "Ridge": (lambda: Ridge(), X, Y),
    "Tweedie": (lambda: TweedieRegressor(link="identity", power=0), X, Y),
    "LogisticRegression": (lambda: LogisticRegression(), X, WORDS),
    "network": (lambda: MLPRegressor(hidden_layer_sizes=(3,), tol=10.0), X, Y),
    "histogram boosting": (lambda: HistGradientBoostingRegressor(max_iter=4), X, Y),
    "histogram boosting of classes": (lambda: HistGradientBoostingClassifier(max_iter=4), X, WORDS),
    "histogram boosting of categories": (
        lambda: HistGradientBoostingRegressor(max_iter=4, categorical_features=[3]),
        *(X, Y),
    ),
    "histogram boosting of a table": (
        lambda: HistGradientBoostingRegressor(max_iter=4, categorical_features="from_dtype"),
        *(CATEGORIES, Y),
    ),
    "forest": (lambda: RandomForestRegressor(4), X, Y),
    "forest of classes": (lambda: RandomForestClassifier(4), X, WORDS),
    "extra trees": (lambda: ExtraTreesClassifier(4), X, WORDS),
    "isolation forest": (lambda: IsolationForest(n_estimators=4), X, None),
    "tree": (lambda: DecisionTreeClassifier(), X, WORDS),
    "gradient boosting": (lambda: GradientBoostingClassifier(n_estimators=4), X, WORDS),
    "support vectors": (lambda: SVC(), X, WORDS),
    "neighbours": (lambda: KNeighborsClassifier(algorithm="brute"), X, WORDS),
    "k-means": (lambda: KMeans(4, n_init=1), X, None),
    "pipeline": (lambda: encoded(make_pipeline(SimpleImputer(), Ridge())), TABLE, Y),
    "pipeline of a forest": (lambda: encoded(RandomForestClassifier(4)), TABLE, WORDS),
    "bagging": (lambda: BaggingRegressor(DecisionTreeClassifier(), 4, max_features=0.5), X, IS_LARGE),
    "bagged forests": (lambda: BaggingRegressor(RandomForestRegressor(2), 2), X, Y),
    "voting": (lambda: VotingRegressor([("one", Ridge()), ("two", RandomForestRegressor(4))]), X, Y),
    "LightGBM": (lambda: LGBMRegressor(**LIGHT), X, Y),
    "LightGBM of classes": (lambda: LGBMClassifier(**LIGHT), X, WORDS),
    "LightGBM of categories": (lambda: LGBMRegressor(**LIGHT), CATEGORIES, Y),
    "LightGBM of linear leaves": (lambda: LGBMRegressor(**LIGHT, linear_tree=True), X, Y),
    "pipeline of LightGBM": (lambda: encoded(LGBMRegressor(**LIGHT)), TABLE, Y),
    "XGBoost": (lambda: XGBRegressor(**SMALL), X, Y),
    "XGBoost of classes": (lambda: XGBClassifier(**SMALL), X, np.digitize(Y, [0, 1])),
    "XGBoost of categories": (lambda: XGBRegressor(**SMALL, enable_categorical=True), CATEGORIES, Y),
    "XGBoost of linear models": (lambda: XGBRegressor(**SMALL, booster="gblinear"), X, Y),
    "XGBoost with dropout": (lambda: XGBRegressor(**SMALL, booster="dart"), X, Y),
}


def fitted(name):
    """Return a fitted model and rows."""
    if is_missing(name):
        pytest.skip("needs the extra boosters")
    make, rows, targets = CASES[name]
    return make().fit(rows, *(() if targets is None else (targets,))), rows


@pytest.mark.parametrize("name", CASES)
def test_a_model_of_a_file_predicts_as_before_and_nothing_needs_trust(name):
    model, rows = fitted(name)
    twin = model_of(stored_model(model), None)
    assert type(twin) is type(model)
    for method in ("predict", "predict_proba", "decision_function", "score_samples"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(twin, method)(rows), getattr(model, method)(rows))


def test_writing_changes_no_model():
    model, rows = fitted("forest")
    before = model.predict(rows)
    stored_model(model)
    np.testing.assert_array_equal(model.predict(rows), before)


def test_functions_need_trust():
    model = make_pipeline(FunctionTransformer(os.path.abspath, validate=False), Ridge())
    with pytest.raises(UnusableError, match=r"posixpath\.abspath.*trusted="):
        model_of(stored_model(model), None)


# -- forgeries --------------------------------------------------------------------------------------------------


def with_field(field, value):
    """Change a field of the first node of the first tree."""

    def change(text, arrays):
        for at, stored in enumerate(arrays):
            array = np.lib.format.read_array(io.BytesIO(stored.tobytes()))
            if field in (array.dtype.names or ()):
                array[field][0] = value
                return text, [*arrays[:at], as_bytes(array), *arrays[at + 1 :]]
        raise AssertionError("nothing was forged")

    return change


def with_shape(shape, new):
    """Replace all arrays of this shape by zeros of another."""

    def change(text, arrays):
        found = [np.lib.format.read_array(io.BytesIO(stored.tobytes())) for stored in arrays]
        assert any(array.shape == shape for array in found), "nothing was forged"
        return text, [as_bytes(np.zeros(new, each.dtype) if each.shape == shape else each) for each in found]

    return change


def as_bytes(array):
    content = io.BytesIO()
    np.lib.format.write_array(content, array)
    return np.frombuffer(content.getvalue(), dtype=np.uint8)


def with_text(old, new):
    """Change the first match in the text, where numbers and the texts of boosters are."""

    def change(text, arrays):
        text, n = re.subn(old, new, text, count=1)
        assert n, "nothing was forged"
        return text, arrays

    return change


def with_entry(name, value):
    """Change a number of an object."""
    return with_text(rf'(\["{name}", )\d+', rf"\g<1>{value}")


FORGERIES = {
    "a child far away": ("tree", with_field("left_child", 10**9)),
    "a child before its parent": ("forest", with_field("right_child", 0)),
    "a node with two parents": ("forest", with_field("left_child", 2)),
    "a feature far away": ("forest of classes", with_field("feature", 10**8)),
    "more nodes than there are": ("tree", with_entry("node_count", 10**9)),
    "a child of a boosted tree": ("gradient boosting", with_field("left_child", -7)),
    "a child of a histogram tree": ("histogram boosting", with_field("left", 2**31)),
    "a feature of a histogram tree": ("histogram boosting", with_field("feature_idx", 10**6)),
    "categories of a histogram tree": ("histogram boosting of categories", with_field("bitset_idx", 10**6)),
    "a tree of a pipeline": ("pipeline of a forest", with_field("left_child", 10**9)),
    "columns of a forest": ("forest", with_entry("n_features_in_", 9)),
    "narrow centers": ("k-means", with_shape((4, 4), (4, 1))),
    "many threads": ("k-means", with_entry("_n_threads", 10**6)),
    "few support vectors": ("support vectors", with_shape((3,), (2,))),
    "labels of neighbours": ("neighbours", with_shape((3,), (1,))),
    "a child in LightGBM": ("LightGBM", with_text(r"(left_child=)-?\d+", r"\g<1>99999999")),
    "a leaf in LightGBM": ("LightGBM", with_text(r"(right_child=)-?\d+", r"\g<1>-99999999")),
    "a feature in LightGBM": ("LightGBM", with_text(r"(split_feature=)\d+", r"\g<1>99999999")),
    "sizes in LightGBM": ("LightGBM", with_text(r"(num_leaves=)\d+", r"\g<1>99999999")),
    "a field of LightGBM twice": ("LightGBM", with_text(r"(\\nnum_leaves=)", r"\\nnum_cat=0\g<1>")),
    "many threads of LightGBM": ("LightGBM", with_entry("n_jobs", 10**6)),
    "classes of a regressor": ("LightGBM", with_text(r'(\["_n_classes", )-1', r"\g<1>1000000")),
    "classes of LightGBM": ("LightGBM of classes", with_text(r"(num_tree_per_iteration=)\d+", r"\g<1>1000000")),
    "categories in LightGBM": ("LightGBM of categories", with_text(r"(cat_boundaries=0 )\d+", r"\g<1>9999999")),
    "linear leaves of LightGBM": ("LightGBM of linear leaves", with_text(r"(num_features=)\d+", r"\g<1>9999999")),
    "LightGBM in a pipeline": ("pipeline of LightGBM", with_text(r"(left_child=)-?\d+", r"\g<1>99999999")),
    "a child in XGBoost": ("XGBoost", with_text(r"(left_children[^\[]*\[)\d+", r"\g<1>99999999")),
    "a feature in XGBoost": ("XGBoost", with_text(r"(split_indices[^\[]*\[)\d+", r"\g<1>99999999")),
    "groups in XGBoost": ("XGBoost of classes", with_text(r"(tree_info[^\[]*\[)\d+", r"\g<1>99999999")),
    "rounds in XGBoost": ("XGBoost of classes", with_text(r"(iteration_indptr[^\[]*\[)\d+", r"\g<1>99999999")),
    "categories in XGBoost": ("XGBoost of categories", with_text(r"(categories_sizes[^\[]*\[)\d+", r"\g<1>99999999")),
    "nodes with categories in XGBoost": (
        "XGBoost of categories",
        with_text(r"(categories_nodes[^\[]*\[)\d+", r"\g<1>99"),
    ),
    "linear models in XGBoost": ("XGBoost of linear models", with_text(r"(num_feature[^\d]*)\d+", r"\g<1>99999")),
    "weights of trees in XGBoost": ("XGBoost with dropout", with_text(r"(weight_drop[^\[]*\[)", r"\g<1>1.0,")),
}

LOADED = """
import pickle, sys
from pathlib import Path
from batch2online.methods.any_estimator.stored_models import UnusableError, model_of
for path in sorted(Path(sys.argv[1]).iterdir()):
    print(path.name, flush=True)
    for trusted in (None, True):
        try:
            model_of(pickle.loads(path.read_bytes()), trusted)
            print("was loaded", flush=True)
        except UnusableError:
            pass
print("end", flush=True)
"""


def is_missing(name):
    return ("LightGBM" in name and LGBMRegressor is None) or ("XGBoost" in name and XGBRegressor is None)


def loaded_elsewhere(folder):
    """Return what loading all models of a folder prints, in a process that a single wrong index would end."""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", LOADED, str(folder)], capture_output=True, text=True)
    return run.stdout.splitlines(), run.stderr[-500:]


def test_forged_models_are_refused_even_if_trusted(tmp_path):
    known = {}
    for number, (what, (name, change)) in enumerate(FORGERIES.items()):
        if not is_missing(name):
            if name not in known:
                known[name] = stored_model(fitted(name)[0])
            (tmp_path / f"{number:02} {what}").write_bytes(pickle.dumps(change(*known[name])))
    lines, error = loaded_elsewhere(tmp_path)
    assert lines == [*sorted(path.name for path in tmp_path.iterdir()), "end"], error


@pytest.mark.full
def test_other_numbers_end_in_an_error_or_in_a_model(tmp_path):
    draws = np.random.default_rng(1)
    for name in CASES:
        if is_missing(name):
            continue
        text, arrays = stored_model(fitted(name)[0])
        for number in range(20):
            changed = [np.array(each) for each in arrays]
            for array in changed:
                array[draws.integers(len(array), size=len(array) // 500)] ^= np.uint8(1 << draws.integers(8))
            numbers = list(re.finditer(r"\d+", text))
            at = numbers[draws.integers(len(numbers))]
            other = f"{text[: at.start()]}{draws.integers(2**40)}{text[at.end() :]}"
            (tmp_path / f"{name} {number}").write_bytes(pickle.dumps((other, changed)))
    lines, error = loaded_elsewhere(tmp_path)
    assert lines[-1] == "end", (lines[-2:], error)
