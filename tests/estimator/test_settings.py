"""Settings declared once: constructors, documentation, checks, options and requests say the same of each."""

from __future__ import annotations

import inspect
from dataclasses import MISSING

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

import batch2online
from batch2online.app.learners import all_options, check_options, estimator_of, options_of
from batch2online.declaration import settings_of
from batch2online.refresh import Every

ESTIMATORS = ("OnlineRegression", "OnlineClassifier", "OnlineLowRank", "OnlineClustering", "BatchToOnline")
TAKEN_BACK = {"background", "loss_bound", "budget_seconds_per_million_rows"}
X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_constructors_are_those_of_the_oracle(name):
    oracle = pytest.importorskip("batch2online_oracle")
    new, old = (inspect.signature(getattr(package, name)).parameters for package in (batch2online, oracle))
    assert new.keys() >= old.keys() - TAKEN_BACK
    for each in old.keys() - TAKEN_BACK - {"columns"}:
        assert (new[each].default, new[each].kind) == (old[each].default, old[each].kind)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_each_setting_is_a_parameter_with_an_allowed_default_and_a_description(name):
    cls = getattr(batch2online, name)
    model = cls(Ridge()) if name == "BatchToOnline" else cls()
    assert clone(model).get_params().keys() == model.get_params().keys()
    declared = settings_of(cls)
    assert {each.name for each in declared} == set(cls._get_param_names())
    for each in declared:
        assert each.default is MISSING or each.allows(each.default)
        assert f"\n{each.name} : {each.words}" in cls.__doc__
        assert each.brief.endswith(".")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"alpha": -1}, "alpha must be a finite number that is not negative, got -1"),
        ({"alpha": "x"}, "alpha must be a finite number"),
        ({"alpha": float("nan")}, "alpha must be a finite number"),
        ({"loss": "l3"}, 'loss must be "squared", '),
        ({"quantile": 1.0}, r"quantile must be between 0 and 1 \(exclusive\), got 1.0"),
        ({"delta": 1}, "delta must be a finite number above 1"),
        ({"half_life": 0}, 'half_life must be a positive integer, "auto" or None, got 0'),
        ({"half_life": "always"}, 'half_life must be a positive integer, "auto" or None'),
        ({"window": 2.5}, "window must be a positive integer or None"),
        ({"coreset_size": True}, 'coreset_size must be a positive integer, "theory", "audit" or None'),
        ({"keep_history": "no"}, "keep_history must be True or False"),
        ({"fit_intercept": None}, "fit_intercept must be True or False"),
        ({"solve": X}, 'solve must be "exact" or "coreset"'),
        ({"columns": "all"}, 'columns must be "auto"'),
    ],
    ids=str,
)
def test_a_value_that_is_not_declared_is_refused_before_a_row_is_learned(given, expected):
    model = batch2online.OnlineRegression(**given)
    with pytest.raises(ValueError, match=expected):
        model.partial_fit(X, X[:, 0])
    assert not hasattr(model, "n_features_in_")


def test_numbers_of_numpy_are_numbers():
    model = batch2online.OnlineRegression(alpha=np.float32(0.5), window=np.int64(50), fit_intercept=np.bool_(True))
    assert model.fit(X, X[:, 0]).n_seen_ == 60


def test_a_constructor_of_a_subclass_is_its_own():
    class Named(batch2online.OnlineRegression):
        def __init__(self, label="x"):
            super().__init__(random_state=0)
            self.label = label

    assert settings_of(Named) == ()
    assert Named().fit(X, X[:, 0]).get_params() == {"label": "x"}


# -- written ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "name", "text", "value"),
    [
        ("regression", "half_life", "auto", "auto"),
        ("regression", "half_life", "10000", 10_000),
        ("regression", "alpha", "1e-3", 0.001),
        ("clustering", "k", "5", 5),
        ("clustering", "history", "/tmp/rows", "/tmp/rows"),
        ("density", "memory", "2GB", "2GB"),
    ],
)
def test_words_become_values(task, name, text, value):
    assert options_of(task)[name].parsed(text) == value


@pytest.mark.parametrize(
    ("task", "name", "text"),
    [("regression", "half_life", "-1"), ("regression", "alpha", "inf"), ("clustering", "k", "2.5")],
)
def test_other_words_are_refused(task, name, text):
    with pytest.raises(ValueError, match=f"^{name} must be .*, got '{text}'"):
        options_of(task)[name].parsed(text)


@pytest.mark.parametrize(
    ("task", "target", "given", "expected"),
    [
        ("regression", "y", {"k": 3}, "--task regression has no --k: remove it"),
        ("regression", "y", {"quantile": 0.2}, "--quantile needs --loss quantile"),
        ("regression", "y", {"quantile": 0.2, "loss": "huber"}, "--quantile needs --loss quantile"),
        ("regression", "y", {"l1_ratio": 0.2}, "--l1-ratio needs --alpha"),
        ("regression", None, {}, "--task regression needs --target, the column to predict"),
        ("lowrank", None, {}, "--task lowrank needs --k, the number of components"),
        ("density", None, {}, "--task density needs --estimator, such as sklearn"),
    ],
)
def test_options_that_do_not_fit_are_refused(task, target, given, expected):
    with pytest.raises(ValueError, match=expected):
        check_options(task, target, given)


def test_defaults_may_differ_where_they_are_written():
    found = estimator_of("clustering", {"k": 3, "refresh": "every:10"}).get_params()
    assert {"n_clusters": 3, "refresh": Every(10), "history": "coreset", "random_state": 0}.items() <= found.items()


def test_no_request_may_send_a_path():
    options = pytest.importorskip("batch2online.app.serve.options")
    assert {name for name, of in all_options().items() if any(each.is_path for each in of.values())} == {"history"}
    with pytest.raises(Exception, match="history must be"):
        options.estimator_of({"task": "clustering", "k": 2, "history": "rows"}, ("sklearn",))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"task": "lowrank", "k": 2, "center": True, "basis": "variance"}, {"center": True, "basis": "variance"}),
        ({"task": "regression", "target": "y", "solve": "coreset", "epsilon": "auto"}, {"epsilon": "auto"}),
        ({"task": "density", "estimator": "sklearn.mixture.GaussianMixture", "memory": 1000}, {"memory": 1000}),
    ],
    ids=str,
)
def test_a_request_may_send_every_other_setting(settings, found):
    options = pytest.importorskip("batch2online.app.serve.options")
    assert found.items() <= options.estimator_of(settings, ("sklearn",)).get_params().items()
