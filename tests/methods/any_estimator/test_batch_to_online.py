"""Any batch algorithm online: the same models for any chunks, shards, deletions and interruptions."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import forging
from batch2online import BatchToOnline, OnlineRegression, coresets, load
from batch2online.refresh import Adaptive, EveryStep, Geometric, OnChange
from batch2online.storage.tree import CheckpointError
from wrapped_cases import (
    CASES,
    N,
    assert_same,
    data,
    every_case,
    learn,
    learned,
    new,
    output,
)

pytestmark = pytest.mark.few(5)  # of the wrapped estimators, others for each test


@every_case
def test_chunks_single_rows_and_copies_do_not_matter(name):
    X, y = data(CASES[name][1])
    model = new(name)
    for i in range(60):
        model.learn_one(X[i], None if y is None else y[i])
    half = learn(model, name, 37, slice(60, N // 2))
    twin = learn(copy.deepcopy(half), name, 250, slice(N // 2, N))
    assert half.n_seen_ == N // 2
    assert_same(twin, learned(name), name)
    assert len(learned(name).changes_) > 3


@every_case
def test_the_model_is_that_of_the_estimator_fitted_by_hand(name):
    """While the coreset holds all rows, the model is the wrapped estimator's on all rows, up to its own seed."""
    estimator, kind, settings = CASES[name]
    X, y = data(kind)
    model = BatchToOnline(estimator, **settings, coreset=coresets.Everything, refresh=Geometric(2.0), random_state=4)
    model.fit(X[:400], None if y is None else y[:400])
    if not hasattr(estimator, "fit"):
        by_hand = estimator(X[:400], np.ones(400), *(() if y is None else (y[:400],)))
        np.testing.assert_array_equal(model.model_, by_hand)
        return
    by_hand = clone(estimator)
    seeds = {k: v for k, v in model.model_.get_params().items() if k.endswith("random_state")}
    by_hand.set_params(**seeds).fit(X[:400], None if y is None else y[:400])
    np.testing.assert_allclose(output(model, X), output(by_hand, X), atol=1e-6)


@every_case
def test_shards_merge_to_the_model_of_all_rows(name):
    """Where the coreset is a pure function of the set of rows; by default that of regressors and classifiers is not."""
    kind = CASES[name][1]
    pure = {} if kind == "rows" else {"coreset": coresets.Leverage if kind == "regression" else coresets.Uniform}
    left = learn(new(name, **pure), name, N, slice(0, 400))
    right = learn(new(name, **pure, first_id=400), name, N, slice(400, N))
    whole = new(name, **pure).fit(*data(kind))
    merged = left.merge(right)
    X, _ = data(CASES[name][1])
    assert merged.coreset_ == whole.coreset_
    np.testing.assert_array_equal(output(merged, X), output(whole, X))


@every_case
def test_forgetting_gives_the_model_of_the_other_rows(name):
    X, y = data(CASES[name][1])
    model = learn(new(name, keep_history=True), name, N).forget(np.arange(200))
    other = new(name, keep_history=True, first_id=200).fit(X[200:], None if y is None else y[200:])
    assert model.coreset_ == other.coreset_
    np.testing.assert_array_equal(output(model, X), output(other, X))


@pytest.mark.parametrize("policy", [EveryStep(), OnChange(), Adaptive(growth=1.5, floor=0.1), Geometric(2.0, start=30)])
def test_every_policy_works(policy):
    whole, pieces = (learn(new("Ridge", refresh=policy), "Ridge", chunk, slice(0, 60)) for chunk in (N, 7))
    assert_same(whole, pieces, "Ridge")


@pytest.mark.slow
def test_an_unchanged_coreset_gives_an_unchanged_model_even_of_a_random_estimator():
    settings = {"estimator": RandomForestClassifier(n_estimators=2), "coreset_size": 5, "epsilon": 0.9}
    X, y = data("labels")
    always = BatchToOnline(**settings, refresh=EveryStep(), random_state=0).partial_fit(X[:100], y[:100])
    on_change = BatchToOnline(**settings, refresh=OnChange(), random_state=0).partial_fit(X[:100], y[:100])
    np.testing.assert_array_equal(output(always, X), output(on_change, X))
    assert 5 < always.n_changes_ == on_change.n_changes_ < 60


# -- checkpoints -----------------------------------------------------------------------------------------


@every_case
def test_checkpoints_continue_as_the_original(name, tmp_path):
    estimator, _, settings = CASES[name]
    half = learn(new(name), name, N, slice(0, N // 2))
    half.save(tmp_path / "model")
    if hasattr(estimator, "fit"):
        twin = load(tmp_path / "model")
        assert repr(twin) == repr(half)
    else:
        with pytest.raises(CheckpointError, match=r"estimator was function .*restore\(path, estimator="):
            load(tmp_path / "model")
        twin = BatchToOnline.restore(tmp_path / "model", estimator=estimator, **settings)
    X, _ = data(CASES[name][1])
    np.testing.assert_array_equal(output(half, X), output(twin, X))
    assert_same(learn(twin, name, 200, slice(N // 2, N)), learned(name), name)


def test_a_checkpoint_with_history_forgets_as_the_original(tmp_path):
    model = learn(new("Ridge", keep_history=True), "Ridge", N)
    model.save(tmp_path / "model")
    twin = load(tmp_path / "model").forget(np.arange(100, 300))
    assert_same(twin, model.forget(np.arange(100, 300)), "Ridge")


def test_a_checkpoint_before_the_first_model(tmp_path):
    X, y = data("regression")
    BatchToOnline(Ridge(), random_state=0).partial_fit(X[:5], y[:5]).save(tmp_path / "model")
    twin = load(tmp_path / "model").partial_fit(X[5:], y[5:])
    assert twin.n_seen_ == N
    assert twin.coef_.shape == (5,)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(class_weight={0: 1.0, 1: 2.0}),
        make_pipeline(OneHotEncoder(dtype=np.float32, handle_unknown="ignore"), Ridge()),
        make_pipeline(make_column_transformer((StandardScaler(), [0, 1]), ("drop", slice(3, 5))), Ridge()),
    ],
)
def test_parameters_of_estimators_come_back(estimator, tmp_path):
    X, y = data("labels")
    model = BatchToOnline(estimator, random_state=0).partial_fit(np.round(X[:200]), y[:200])
    model.save(tmp_path / "model")
    twin = load(tmp_path / "model")
    assert repr(twin.estimator) == repr(estimator)
    np.testing.assert_array_equal(twin.predict(np.round(X)), model.predict(np.round(X)))


class OwnRegressor(Ridge):
    pass


def test_estimators_from_elsewhere_are_never_looked_up(tmp_path):
    X, y = data("regression")
    model = BatchToOnline(OwnRegressor(), random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="estimator was OwnRegressor"):
        load(tmp_path / "model")
    twin = BatchToOnline.restore(tmp_path / "model", estimator=OwnRegressor())
    np.testing.assert_array_equal(twin.coef_, model.coef_)


def forge_an_estimator(path, module, name):
    BatchToOnline(Ridge(), random_state=0).fit(*data("regression")).save(path)
    manifest, members = forging.opened(path.read_bytes())
    stored = manifest["state"]["dict"]["params"]["dict"]["estimator"]["dict"]
    stored["parts"] = stored["parts"].replace("sklearn.linear_model._ridge.Ridge", f"{module}.{name}")
    path.write_bytes(forging.forged(manifest, members))


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("os", "system", "cannot name os.system"),
        ("sklearn.utils", "shuffle", "is no estimator"),
        ("sklearn.linear_model", "Gone", "has no sklearn.linear_model.Gone"),
    ],
)
def test_forged_checkpoints_are_refused(tmp_path, module, name, message):
    forge_an_estimator(tmp_path / "model", module, name)
    for trusted in (None, True):
        with pytest.raises(CheckpointError, match=message):
            load(tmp_path / "model", trusted=trusted)


def test_restore_refuses_what_is_not_its_own(tmp_path):
    OnlineRegression(random_state=0).fit(*data("regression")).save(tmp_path / "other")
    with pytest.raises(CheckpointError, match="holds no BatchToOnline"):
        BatchToOnline.restore(tmp_path / "other")
    learned("Ridge").save(tmp_path / "model")
    with pytest.raises(TypeError, match="does not have: \\['alpha'\\]"):
        BatchToOnline.restore(tmp_path / "model", alpha=1)
