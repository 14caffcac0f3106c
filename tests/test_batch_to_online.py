"""Any batch algorithm online: the same models for any chunks, the wrapped estimator's own contract, honest losses."""

from __future__ import annotations

import copy
import warnings
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier, is_clusterer, is_regressor
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

from batch2online import BatchToOnline, OnlineRegression, coresets, load, storage
from batch2online.refresh import EveryStep, Geometric, Lazy, OnChange
from batch2online.solvers.losses import LOSSES
from batch2online.solvers.weighted_fit import copies
from batch2online.solvers.wrapped import LossBoundWarning
from streams import stream

N, SIZE = 1_000, 150


def weighted_mean(points, weights):
    return np.average(points, axis=0, weights=weights)


def squared_from(theta, points):
    return np.square(points - theta).sum(axis=1)


def weighted_least_squares(points, weights, targets):
    root = np.sqrt(weights)
    return np.linalg.lstsq(points * root[:, None], targets * root, rcond=None)[0]


def squared_residual(theta, points, targets):
    return np.square(points @ theta - targets)


CASES = {
    "Ridge": (Ridge(), "regression", {}),
    "HuberRegressor": (HuberRegressor(max_iter=1000), "regression", {}),
    "Lasso": (Lasso(alpha=0.01), "regression", {}),
    "LogisticRegression": (LogisticRegression(max_iter=1000), "labels", {}),
    "DecisionTreeRegressor": (DecisionTreeRegressor(max_depth=4, max_features=3), "regression", {}),
    "GradientBoostingRegressor": (GradientBoostingRegressor(n_estimators=10, subsample=0.5), "regression", {}),
    "RandomForestClassifier": (RandomForestClassifier(n_estimators=5), "words", {}),
    "KMeans": (KMeans(3, n_init=2), "rows", {}),
    "GaussianMixture": (GaussianMixture(2, reg_covar=1e-3), "rows", {"resample": True}),
    "PCA": (PCA(2), "rows", {}),
    "TruncatedSVD": (TruncatedSVD(2), "rows", {}),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), "regression", {}),
    "labels without probabilities": (LinearSVC(), "labels", {}),
    "function": (weighted_mean, "rows", {"loss": squared_from}),
    "function of targets": (weighted_least_squares, "regression", {"loss": squared_residual}),
}

every_case = pytest.mark.parametrize("name", CASES)


@cache
def data(kind):
    X, y = stream("gaussian", N, seed=2)
    rng = np.random.default_rng(3)
    side = X[:, 0] - X[:, 1] + rng.normal(size=N) > 0
    if kind == "rows":
        X[:, :2] += 4 * rng.integers(3, size=(N, 1))
    targets = {"rows": None, "regression": y, "labels": side.astype(int), "words": np.where(side, "yes", "no")}
    return X, targets[kind]


def new(name, **settings):
    estimator, _, own = CASES[name]
    return BatchToOnline(
        estimator, **{"coreset_size": SIZE, "refresh": Geometric(1.5), "random_state": 4, **own, **settings}
    )


def learn(model, name, chunk, rows=slice(None)):
    X, y = data(CASES[name][1])
    X, y = X[rows], None if y is None else y[rows]
    for start in range(0, len(X), chunk):
        piece = slice(start, start + chunk)
        model.partial_fit(X[piece], None if y is None else y[piece])
    return model


@cache
def learned(name):
    return learn(new(name), name, N)


def output(model, X):
    """All that the model says about rows, as one array."""
    for method in ("predict_proba", "score_samples", "predict", "transform"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(X))
    return np.asarray(model.model_)


def assert_same(one, other, name):
    X, _ = data(CASES[name][1])
    np.testing.assert_array_equal(output(one, X), output(other, X))
    assert one.changes_ == other.changes_
    assert one.regret_ == other.regret_
    assert one.coreset_ == other.coreset_


# -- equality ------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("chunk", [97, 500])
def test_chunks_do_not_matter(name, chunk):
    assert_same(learned(name), learn(new(name), name, chunk), name)
    assert len(learned(name).changes_) > 5


@every_case
def test_single_rows_do_not_matter(name):
    X, y = data(CASES[name][1])
    model = new(name)
    for i, x in enumerate(X[:300]):
        model.learn_one(x, None if y is None else y[i])
    assert_same(model, learn(new(name), name, 300, slice(0, 300)), name)


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
    weights = {"sample_weight": np.ones(400)} if has_fit_parameter(by_hand, "sample_weight") else {}
    by_hand.set_params(**seeds).fit(X[:400], None if y is None else y[:400], **weights)
    np.testing.assert_allclose(output(model, X), output(by_hand, X), atol=1e-6)


@every_case
def test_copies_continue_as_the_original(name):
    half = learn(new(name), name, N, slice(0, N // 2))
    twin = copy.deepcopy(half)
    learn(twin, name, 200, slice(N // 2, N))
    assert half.n_seen_ == N // 2
    assert_same(twin, learned(name), name)


@every_case
def test_shards_merge_to_the_model_of_all_rows(name):
    left = learn(new(name), name, N, slice(0, 400))
    right = learn(new(name, first_id=400), name, N, slice(400, N))
    whole = clone(learned(name)).fit(*data(CASES[name][1]))
    merged = left.merge(right)
    X, _ = data(CASES[name][1])
    assert merged.coreset_ == whole.coreset_
    np.testing.assert_array_equal(output(merged, X), output(whole, X))


@every_case
def test_forgetting_gives_the_model_of_the_other_rows(name):
    X, y = data(CASES[name][1])
    model = learn(new(name, keep_history=True), name, N).forget(np.arange(500))
    other = new(name, keep_history=True, first_id=500).fit(X[500:], None if y is None else y[500:])
    assert model.coreset_ == other.coreset_
    np.testing.assert_array_equal(output(model, X), output(other, X))


@pytest.mark.parametrize("policy", [EveryStep(), OnChange(), Lazy(1.5, 0.1), Geometric(2.0, start=30)])
def test_every_policy_works(policy):
    whole = learn(new("Ridge", refresh=policy), "Ridge", N, slice(0, 120))
    assert_same(whole, learn(new("Ridge", refresh=policy), "Ridge", 7, slice(0, 120)), "Ridge")


def test_the_seed_decides():
    assert learn(new("KMeans", random_state=5), "KMeans", N).coreset_ != learned("KMeans").coreset_


def test_an_unchanged_coreset_gives_an_unchanged_model_even_of_a_random_estimator():
    settings = {"estimator": RandomForestClassifier(n_estimators=2), "coreset_size": 5, "epsilon": 0.9}
    X, y = data("labels")
    always = BatchToOnline(**settings, refresh=EveryStep(), random_state=0).partial_fit(X[:100], y[:100])
    on_change = BatchToOnline(**settings, refresh=OnChange(), random_state=0).partial_fit(X[:100], y[:100])
    np.testing.assert_array_equal(output(always, X), output(on_change, X))
    assert 5 < always.n_changes_ == on_change.n_changes_ < 60


# -- checkpoints ---------------------------------------------------------------------------------------


@every_case
def test_checkpoints_continue_as_the_original(name, tmp_path):
    estimator, _, settings = CASES[name]
    half = learn(new(name), name, N, slice(0, N // 2))
    half.save(tmp_path / "model")
    if hasattr(estimator, "fit"):
        twin = load(tmp_path / "model")
        assert repr(twin) == repr(half)
    else:
        with pytest.raises(storage.CheckpointError, match=r"estimator was function .*restore\(path, estimator="):
            load(tmp_path / "model")
        twin = BatchToOnline.restore(tmp_path / "model", estimator=estimator, **settings)
    X, _ = data(CASES[name][1])
    np.testing.assert_array_equal(output(half, X), output(twin, X))
    assert_same(learn(twin, name, 200, slice(N // 2, N)), learned(name), name)


def test_a_checkpoint_before_the_first_model(tmp_path):
    X, y = data("regression")
    BatchToOnline(Ridge(), random_state=0).partial_fit(X[:5], y[:5]).save(tmp_path / "model")
    twin = load(tmp_path / "model").partial_fit(X[5:], y[5:])
    assert twin.n_seen_ == N
    assert twin.coef_.shape == (5,)


class OwnRegressor(Ridge):
    pass


def test_estimators_from_elsewhere_are_never_looked_up(tmp_path):
    X, y = data("regression")
    model = BatchToOnline(OwnRegressor(), random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    with pytest.raises(storage.CheckpointError, match="estimator was OwnRegressor"):
        load(tmp_path / "model")
    twin = BatchToOnline.restore(tmp_path / "model", estimator=OwnRegressor())
    np.testing.assert_array_equal(twin.coef_, model.coef_)


def forged(path, module, name):
    BatchToOnline(Ridge(), random_state=0).fit(*data("regression")).save(path)
    state = storage.deserialise(path.read_bytes())
    state["params"]["estimator"] |= {"module": module, "class": name}
    path.write_bytes(storage.serialise(state))


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("os", "system", "cannot name os.system"),
        ("sklearn.utils", "shuffle", "is no estimator"),
        ("sklearn.linear_model", "Gone", "has no sklearn.linear_model.Gone"),
    ],
)
def test_forged_checkpoints_are_refused(tmp_path, module, name, message):
    forged(tmp_path / "model", module, name)
    with pytest.raises(storage.CheckpointError, match=message):
        load(tmp_path / "model")


def test_restore_refuses_what_is_not_its_own(tmp_path):
    OnlineRegression(random_state=0).fit(*data("regression")).save(tmp_path / "other")
    with pytest.raises(storage.CheckpointError, match="holds no BatchToOnline"):
        BatchToOnline.restore(tmp_path / "other")
    learned("Ridge").save(tmp_path / "model")
    with pytest.raises(TypeError, match="does not have: \\['alpha'\\]"):
        BatchToOnline.restore(tmp_path / "model", alpha=1)


# -- choices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "settings", "kind"),
    [
        (Ridge(), {}, coresets.Leverage),
        (make_pipeline(StandardScaler(), Lasso()), {}, coresets.Leverage),
        (make_pipeline(PCA(2), Ridge()), {"resample": True}, coresets.Uniform),
        (DecisionTreeRegressor(), {}, coresets.Leverage),
        (LogisticRegression(), {}, coresets.Uniform),
        (KMeans(2, n_init=1), {}, coresets.Clustering),
        (PCA(2), {}, coresets.RidgeLeverage),
        (PCA(0.9), {}, coresets.Uniform),
        (GaussianMixture(2), {"resample": True}, coresets.Uniform),
        (weighted_least_squares, {"loss": squared_residual}, coresets.Uniform),
        (Ridge(), {"coreset": coresets.Everything}, coresets.Everything),
        (Ridge(), {"coreset": coresets.Uniform(coreset_size=40)}, coresets.Uniform),
        (Ridge(), {"coreset": partial(coresets.Sensitivity, coresets.LewisScore(1.0))}, coresets.Sensitivity),
    ],
)
def test_the_construction_suits_the_estimator_and_repr_says_so(estimator, settings, kind):
    model = BatchToOnline(estimator, **settings, random_state=0)
    X, y = data("labels" if isinstance(estimator, LogisticRegression) else "regression")
    model.partial_fit(X[:200], y[:200])
    assert type(model._engine.construction) is kind
    assert kind.__name__ in repr(model)


def test_settings_of_a_given_construction_count_and_the_seed_given_here_wins():
    X, y = data("regression")
    given = coresets.Leverage(coreset_size=40, epsilon=0.3, random_state=9)
    model = BatchToOnline(Ridge(), coreset=given, random_state=1).fit(X, y)
    alone = coresets.Leverage(coreset_size=40, epsilon=0.3, random_state=1).add(X, y)
    assert model.coreset_ == alone.coreset()
    assert given.shape is None
    with pytest.raises(ValueError, match="has seen rows already"):
        BatchToOnline(Ridge(), coreset=alone).fit(X, y)


def test_5000_rows_are_kept_when_nothing_is_said():
    X = np.random.default_rng(0).normal(size=(30_000, 2))
    model = BatchToOnline(weighted_mean, loss=squared_from, random_state=0).partial_fit(X)
    assert 4_700 < len(model.coreset_) < 5_300


# -- weights and resampling ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [KNeighborsRegressor(), make_pipeline(MinMaxScaler(), Ridge()), GaussianMixture(2), AgglomerativeClustering(2)],
)
def test_without_sample_weight_the_error_names_the_remedy(estimator):
    with pytest.raises(TypeError, match=r"takes no sample_weight.*pass resample=True"):
        BatchToOnline(estimator).fit(*data("regression"))


@pytest.mark.parametrize("estimator", [PCA(2), TruncatedSVD(2)])
def test_weighted_decompositions_are_those_of_repeated_rows(estimator):
    X, _ = data("rows")
    X = X[:60]
    times = np.random.default_rng(0).integers(1, 5, size=60)
    weighted = BatchToOnline(estimator, coreset=coresets.Everything, random_state=0)
    weighted.fit(X, sample_weight=times.astype(float))
    repeated = clone(weighted.model_).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(np.abs(weighted.components_), np.abs(repeated.components_), atol=1e-6)
    np.testing.assert_allclose(weighted.singular_values_, repeated.singular_values_, rtol=1e-6)
    if isinstance(estimator, PCA):
        np.testing.assert_allclose(weighted.mean_, repeated.mean_, atol=1e-9)
        np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-6)
        np.testing.assert_allclose(weighted.noise_variance_, repeated.noise_variance_, rtol=1e-6)


def test_copies_follow_the_weights_and_belong_to_the_point():
    X = np.random.default_rng(0).standard_t(3, size=(20_000, 2))
    coreset = coresets.Leverage(coreset_size=2_000, random_state=0).add(X).coreset()
    times = copies(coreset, 0.1, seed=0)
    scale = coreset.weights.sum() / times.sum()
    assert 0.9 < times.sum() / len(coreset) < 1.2
    # a sum of roundings, each with a variance of at most 1/4: six standard deviations are a chance of 2e-9
    assert abs(times.sum() - (coreset.weights / scale).sum()) <= 3 * np.sqrt(len(coreset))
    later = coresets.Leverage(coreset_size=2_000, random_state=0).add(X).add(X[:1]).coreset()
    both, mine, theirs = np.intersect1d(coreset.ids, later.ids, return_indices=True)
    assert (times[mine] != copies(later, 0.1, seed=0)[theirs]).sum() < 0.01 * len(both)
    assert (copies(coresets.Everything().add(X[:50]).coreset(), 0.1, seed=0) == 1).all()


def test_sample_weights_count_as_repetitions():
    X, y = data("regression")
    weights = np.random.default_rng(0).integers(0, 4, size=300).astype(float)
    model = BatchToOnline(LinearRegression(), coreset=coresets.Everything, random_state=0)
    model.fit(X[:300], y[:300], sample_weight=weights)
    by_hand = LinearRegression().fit(X[:300], y[:300], sample_weight=weights)
    np.testing.assert_allclose(model.coef_, by_hand.coef_, rtol=1e-9)


class OnlyFit:
    """No scikit-learn at all."""

    def fit(self, X, y, sample_weight):
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_any_object_with_fit_will_do():
    X, y = data("regression")
    model = BatchToOnline(OnlyFit(), loss="squared", random_state=0).fit(X, y)
    assert model.predict(X[:3]).tolist() == [pytest.approx(y.mean())] * 3
    with pytest.raises(ValueError, match="loss is needed for this estimator"):
        BatchToOnline(OnlyFit()).fit(X, y)


@pytest.mark.parametrize("estimator", [3, "Ridge", Ridge])
def test_what_is_no_estimator_is_refused(estimator):
    with pytest.raises(TypeError, match=r"must have a method fit|takes no sample_weight|missing"):
        BatchToOnline(estimator, loss="squared").fit(*data("regression"))


# -- losses --------------------------------------------------------------------------------------------


def test_prequential_loss_by_hand():
    X, y = data("regression")
    model = BatchToOnline(Ridge(), coreset=coresets.Everything, refresh=Geometric(2.0, start=50), random_state=0)
    model.partial_fit(X[:400], y[:400])
    loss = np.square(y[:50]).sum()
    for start, stop in [(50, 100), (100, 200), (200, 400)]:
        by_hand = Ridge().fit(X[:start], y[:start])
        loss += np.square(y[start:stop] - by_hand.predict(X[start:stop])).sum()
    assert model.regret_.loss == pytest.approx(loss, rel=1e-9)
    last = Ridge().fit(X[:400], y[:400])
    assert model.regret_.optimum == pytest.approx(np.square(y[:400] - last.predict(X[:400])).sum(), rel=1e-9)
    assert [event.at for event in model.changes_] == [100, 200, 400]


def test_named_losses_are_what_they_say():
    X, y = data("regression")
    labels = data("labels")[1]
    ridge, logistic = Ridge().fit(X, y), LogisticRegression().fit(X, labels)
    kmeans, pca = KMeans(3, n_init=1, random_state=0).fit(X), PCA(2).fit(X)
    mixture = GaussianMixture(2, random_state=0).fit(X)
    none = np.empty((N, 0))
    expected = {
        "squared": (ridge, y[:, None], np.square(y - ridge.predict(X))),
        "absolute": (ridge, y[:, None], np.abs(y - ridge.predict(X))),
        "zero_one": (logistic, labels[:, None], logistic.predict(X) != labels),
        "log": (logistic, labels[:, None], -logistic.predict_log_proba(X)[np.arange(N), labels]),
        "distance": (kmeans, none, kmeans.transform(X).min(axis=1)),
        "squared_distance": (kmeans, none, kmeans.transform(X).min(axis=1) ** 2),
        "reconstruction": (pca, none, np.square(X - pca.inverse_transform(pca.transform(X))).sum(axis=1)),
        "negative_log_likelihood": (mixture, none, -mixture.score_samples(X)),
    }
    assert expected.keys() == LOSSES.keys()
    for name, (model, targets, losses) in expected.items():
        np.testing.assert_allclose(LOSSES[name](model, X, targets), losses, rtol=1e-6, atol=1e-9, err_msg=name)
        assert LOSSES[name].without_model(X, targets).shape == (N,)


def test_a_loss_bound_clips_and_says_so():
    X, y = data("regression")
    with pytest.warns(LossBoundWarning, match=r"outside \[0, 1\]"):
        clipped = BatchToOnline(Ridge(), loss_bound=1.0, random_state=0).partial_fit(X, y)
    free = BatchToOnline(Ridge(), random_state=0).partial_fit(X, y)
    assert clipped.regret_.loss < N
    assert clipped.regret_.loss + clipped.regret_.excess == pytest.approx(free.regret_.loss)
    np.testing.assert_array_equal(clipped.coef_, free.coef_)


def test_a_loss_bound_that_holds_says_nothing():
    X, y = data("regression")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BatchToOnline(Ridge(), loss_bound=1e6, random_state=0).partial_fit(X, y)
    assert model.regret_.excess == 0


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"loss": "square"}, ValueError, "loss must be a function or one of 'squared'"),
        ({"loss": 3}, TypeError, "loss must be a function or one of 'squared'"),
        ({"loss": lambda model, X, y: 1.0}, ValueError, "one number for each of"),
        ({"loss": lambda model, X, y: np.full(len(X), np.nan)}, ValueError, "loss gave NaN for row 0"),
        ({"loss_bound": 0}, ValueError, "loss_bound must be a finite number above 0"),
        ({"coreset": 3}, TypeError, "coreset must be a construction"),
        ({"coreset": dict}, TypeError, "coreset must be a construction"),
        ({"refresh": 1.2}, TypeError, "refresh must be a policy"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        BatchToOnline(Ridge(), **settings).fit(*data("regression"))


def test_a_failed_refresh_leaves_the_model_as_it_was():
    X, y = data("regression")
    calls = []

    def fails_at_the_third(points, weights, targets):
        calls.append(len(points))
        if len(calls) == 3:
            raise ArithmeticError("no solution")
        return weighted_least_squares(points, weights, targets)

    model = BatchToOnline(fails_at_the_third, loss=squared_residual, refresh=Geometric(2.0, start=50), random_state=0)
    model.partial_fit(X[:150], y[:150])
    before = model.model_.copy()
    with pytest.raises(ArithmeticError):
        model.partial_fit(X[150:250], y[150:250])
    assert model.n_seen_ == 150
    np.testing.assert_array_equal(model.model_, before)
    assert model.partial_fit(X[150:250], y[150:250]).n_seen_ == 250


# -- labels --------------------------------------------------------------------------------------------


def test_a_single_class_is_predicted_until_another_comes():
    X, _ = data("labels")
    y = np.array([7] * 100 + [9, 7] * 200)
    model = BatchToOnline(LogisticRegression(), random_state=0, refresh=Geometric(2.0, start=50)).partial_fit(
        X[:100], y[:100]
    )
    assert model.classes_.tolist() == [7]
    assert model.predict(X[:3]).tolist() == [7, 7, 7]
    model.partial_fit(X[100:500], y[100:500])
    assert model.classes_.tolist() == [7, 9]
    assert model.regret_.loss > 34


@pytest.mark.parametrize("labels", [[0, 1], [-3, 2**40], [True, False], ["a", "b"], [2.0, 3.0]])
def test_labels_come_back_as_they_were(labels):
    X, y = data("labels")
    given = np.array(labels)[y]
    model = BatchToOnline(LogisticRegression(), random_state=0).fit(X, given)
    assert sorted(model.classes_.tolist()) == sorted(labels)
    assert type(model.predict(X[:1])[0]) is type(given[0]) or given.dtype.kind == "U"
    assert (model.predict(X) == given).mean() > 0.8


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0.0, np.nan] * 50), "NaN or infinity at row 1"),
        (np.zeros((100, 2)), r"shape \(n,\)"),
        (np.array(["a", 1] * 50, dtype=object), r"not supported between|all text or all numbers"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BatchToOnline(LogisticRegression()).fit(data("labels")[0][:100], y)


def test_labels_of_another_kind_are_refused_and_leave_no_trace():
    X, y = data("labels")
    model = BatchToOnline(LogisticRegression(), random_state=0).partial_fit(X[:500], y[:500])
    with pytest.raises(ValueError, match="all text or all numbers"):
        model.partial_fit(X[500:600], np.where(y[500:600], "yes", "no"))
    assert model.partial_fit(X[500:], y[500:]).n_seen_ == N


# -- as scikit-learn and its users meet it -------------------------------------------------------------


def expected_failures(estimator):
    reason = "KMeans draws its starts by row, so a row of weight two is not two rows to it"
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(checks, reason) if isinstance(estimator.estimator, KMeans) else {}


@parametrize_with_checks(
    [
        BatchToOnline(Ridge(), random_state=0),
        BatchToOnline(LogisticRegression(), random_state=0),
        BatchToOnline(KMeans(3, n_init=1), random_state=0),
        BatchToOnline(PCA(1), random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_kinds_are_those_of_the_wrapped():
    assert is_regressor(BatchToOnline(Ridge()))
    assert is_classifier(BatchToOnline(LogisticRegression()))
    assert is_clusterer(BatchToOnline(KMeans(2)))
    assert not is_regressor(BatchToOnline(weighted_mean))


def test_methods_and_attributes_are_those_of_the_wrapped():
    model = BatchToOnline(Ridge(), random_state=0)
    assert hasattr(model, "predict")
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "coef_")
    assert not hasattr(BatchToOnline(weighted_mean), "predict")
    with pytest.raises(NotFittedError, match="seen no rows"):
        model.predict([[1.0]])
    X, y = data("regression")
    with pytest.raises(NotFittedError, match="no model before the first refresh, at 20 rows: 5 seen"):
        model.partial_fit(X[:5], y[:5]).predict(X[:5])
    model.partial_fit(X[5:], y[5:])
    assert model.coef_.shape == (5,)
    assert model.score(X, y) > 0.8
    assert model.score(X, y, sample_weight=np.ones(N)) == model.score(X, y)
    assert model.predict_one(X[0]) == pytest.approx(model.predict(X[:1])[0])
    with pytest.raises(AttributeError, match="no attribute 'classes_'"):
        _ = model.classes_


def test_transformers_transform_back():
    X, _ = data("rows")
    model = learned("PCA")
    np.testing.assert_array_equal(model.transform(X), model.model_.transform(X))
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), model.model_.inverse_transform(model.transform(X))
    )
    logistic = learned("LogisticRegression")
    X, _ = data("labels")
    np.testing.assert_array_equal(logistic.decision_function(X), logistic.model_.decision_function(X))
    np.testing.assert_allclose(np.exp(logistic.predict_log_proba(X)), logistic.predict_proba(X))


def test_data_frames_and_names():
    X, y = data("regression")
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = new("Ridge").partial_fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), learned("Ridge").predict(X))
    assert model.predict_one(dict(zip("abcde", X[0], strict=True))) == pytest.approx(model.predict(frame[:1])[0])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])


def test_several_targets():
    X, y = stream("multi_output", 400)
    model = BatchToOnline(Ridge(), random_state=0).partial_fit(X, y)
    assert model.predict(X).shape == (400, 2)
    assert model.regret_.ratio < 3


def test_grid_search_reaches_the_wrapped_estimator():
    X, y = data("regression")
    search = GridSearchCV(BatchToOnline(Ridge(), random_state=0), {"estimator__alpha": [0.1, 1e6]}, cv=3).fit(X, y)
    assert search.best_params_ == {"estimator__alpha": 0.1}
    assert search.best_estimator_.model_.alpha == 0.1


def test_a_pipeline_around_it_scales_first():
    X, y = data("regression")
    pipeline = make_pipeline(StandardScaler(), BatchToOnline(Ridge(), random_state=0)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    alone = BatchToOnline(Ridge(), random_state=0).fit(scaled, y)
    np.testing.assert_array_equal(pipeline.predict(X), alone.predict(scaled))


def test_clone_keeps_parameters_and_no_rows():
    twin = clone(learned("Ridge"))
    assert not hasattr(twin, "model_")
    assert twin.get_params()["estimator__alpha"] == 1.0


def test_only_shards_of_the_same_settings_merge():
    left = learn(new("Ridge"), "Ridge", N, slice(0, 100))
    right = clone(new("Ridge", first_id=100)).set_params(estimator__alpha=2)
    right.partial_fit(*(part[100:200] for part in data("regression")))
    with pytest.raises(ValueError, match="same estimator"):
        left.merge(right)


class Counting(BaseEstimator):
    """Has an estimator inside and passes what it is given on to it, as searches do."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y, **params):
        self.inside_ = clone(self.estimator).fit(X, y, **params)
        return self

    def predict(self, X):
        return self.inside_.predict(X)


def test_weights_reach_an_estimator_inside():
    X, y = data("regression")
    model = BatchToOnline(Counting(Ridge()), loss="squared", coreset_size=SIZE, random_state=4).fit(X, y)
    assert model.predict(X[:2]).shape == (2,)
    with pytest.raises(TypeError, match=r"Counting\.fit takes no sample_weight"):
        BatchToOnline(Counting(KNeighborsRegressor()), loss="squared").fit(X, y)
