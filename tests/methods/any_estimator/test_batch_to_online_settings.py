"""What BatchToOnline chooses, weighs, and counts as loss."""

from __future__ import annotations

import sys
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, PoissonRegressor, Ridge, SGDClassifier
from sklearn.metrics import mean_tweedie_deviance
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from batch2online import BatchToOnline, coresets, load
from batch2online.methods.any_estimator.row_losses import LOSSES, losses_of
from batch2online.methods.any_estimator.weighted_fit import subsample
from batch2online.refresh import Geometric
from wrapped_cases import (
    N,
    data,
    squared_from,
    squared_residual,
    weighted_least_squares,
    weighted_mean,
)

# -- choices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "settings", "kind"),
    [
        (Ridge(), {}, coresets.PilotSampling),
        (Ridge(), {"window": 100}, coresets.Uniform),
        (make_pipeline(StandardScaler(), Lasso()), {}, coresets.PilotSampling),
        (make_pipeline(PCA(2), Ridge()), {"resample": True}, coresets.Uniform),
        (DecisionTreeRegressor(), {}, coresets.PilotSampling),
        (LogisticRegression(), {}, coresets.PilotSampling),
        (LogisticRegression(), {"window": 100}, coresets.Uniform),
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
    assert type(model._stream.sketch).__name__ == f"{kind.__name__}Sketch"
    assert kind.__name__ in repr(model)


def test_settings_of_a_given_construction_count_and_the_seed_given_here_wins():
    X, y = data("regression")
    given = coresets.Leverage(coreset_size=40, epsilon=0.3, random_state=9)
    model = BatchToOnline(Ridge(), coreset=given, random_state=1).fit(X, y)
    alone = coresets.Leverage(coreset_size=40, epsilon=0.3, random_state=1).add(X, y)
    assert model.coreset_ == alone.coreset()
    assert given.sketch is None
    with pytest.raises(ValueError, match="has seen rows already"):
        BatchToOnline(Ridge(), coreset=alone).fit(X, y)


def test_all_rows_are_kept_while_memory_holds_them_and_then_the_largest_sample():
    X = np.random.default_rng(0).normal(size=(30_000, 2))
    for memory, least, most in (("512MB", 30_000, 30_000), (24 * 8 * 5_000, 4_700, 5_300), ("0.96 mb", 4_700, 5_300)):
        model = BatchToOnline(weighted_mean, loss=squared_from, random_state=0, memory=memory).partial_fit(X)
        assert least <= len(model.coreset_) <= most
    given = BatchToOnline(weighted_mean, loss=squared_from, random_state=0, coreset=coresets.Uniform).partial_fit(X)
    assert 4_700 < len(given.coreset_) < 5_300


def test_kept_rows_take_no_more_than_the_memory():
    rng, memory = np.random.default_rng(0), 4_000_000
    X, y = rng.normal(size=(40_000, 10)), rng.normal(size=40_000)
    model = BatchToOnline(DecisionTreeRegressor(max_depth=3), random_state=0, memory=memory).partial_fit(X, y)
    held = sum(
        rows.points.nbytes + rows.targets.nbytes + rows.weights.nbytes + rows.ids.nbytes
        for rows in model._stream.held_rows()
    )
    assert 0.4 * memory < held < memory


def test_strings_count_towards_the_memory():
    rng, memory = np.random.default_rng(0), 1_000_000
    texts = [" ".join(map(str, rng.integers(0, 50, size=100))) for _ in range(6_000)]
    labels = rng.integers(2, size=6_000)
    words = make_pipeline(HashingVectorizer(n_features=64), SGDClassifier(loss="log_loss"))
    model = BatchToOnline(words, random_state=0, memory=memory).partial_fit(texts, labels)
    held = sum(map(sys.getsizeof, set(model.coreset_.points)))
    assert 0.3 * memory < held < memory
    pieces = BatchToOnline(words, random_state=0, memory=memory)
    for start in range(0, 6_000, 700):
        pieces.partial_fit(texts[start : start + 700], labels[start : start + 700])
    assert pieces.coreset_ == model.coreset_
    with_categories = pd.DataFrame({"a": np.array(["x" * 1_000, "y"])[labels], "b": rng.normal(size=6_000)})
    encoded = make_pipeline(make_column_transformer((OneHotEncoder(), ["a"]), remainder="passthrough"), Ridge())
    few = BatchToOnline(encoded, random_state=0, memory=memory).partial_fit(with_categories, labels.astype(float))
    assert len(few.coreset_) > 3_000, "a string counts once, however many rows hold it"


def test_linear_models_are_fitted_to_a_part_of_the_kept_rows_and_others_to_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=30_000)
    linear = BatchToOnline(LinearRegression(), random_state=0).partial_fit(X, y)
    tree = BatchToOnline(DecisionTreeRegressor(max_depth=3), random_state=0).partial_fit(X, y)
    assert len(linear.coreset_) == len(tree.coreset_) == 30_000
    assert 4_500 < max(change.n_fit_rows for change in linear.changes_) < 5_500
    assert [change.n_fit_rows for change in tree.changes_] == [change.at for change in tree.changes_]
    late = [change.at for change in tree.changes_ if change.at >= 1_000]
    assert all(later <= 1.5 * one for one, later in pairwise(late)), "a refit was skipped"


@pytest.mark.parametrize(
    ("estimator", "settings", "size"),
    [
        (KNeighborsRegressor(), {}, 512_000_000 // (24 * 8)),
        (make_pipeline(PCA(1), KNeighborsRegressor()), {}, 512_000_000 // (24 * 8)),
        (make_pipeline(PCA(1), SVR()), {}, 20_000),
        (make_pipeline(PCA(1), GaussianProcessRegressor(optimizer=None)), {}, 5_000),
        (KNeighborsRegressor(), {"memory": 2**20}, 2**20 // (24 * 8)),
        (KNeighborsRegressor(), {"coreset_size": 70}, 70),
    ],
)
def test_without_weights_all_rows_are_kept_up_to_what_the_estimator_bears(estimator, settings, size):
    X, y = np.random.default_rng(0).normal(size=(2, 30, 2))
    model = BatchToOnline(estimator, resample=True, random_state=0, **settings).partial_fit(X, y[:, 0])
    assert model._stream.sketch.settings.size == size
    shard = BatchToOnline(estimator, resample=True, random_state=0, **settings).new_shard(0).partial_fit(X, y[:, 0])
    assert shard._stream.sketch.settings.size == size


def test_models_without_weights_are_refits_on_all_rows_at_doublings():
    rng = np.random.default_rng(0)
    X, start = rng.normal(size=(12_500, 2)), 20
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=len(X))
    model = BatchToOnline(KNeighborsRegressor(), resample=True, random_state=0)
    for first in range(0, len(X), 500):
        model.partial_fit(X[first : first + 500], y[first : first + 500])
    sizes = [change.n_fit_rows for change in model.changes_]
    assert sizes == [change.at for change in model.changes_]
    assert sizes[-1] >= len(X) / 2.1
    assert len(sizes) >= np.log2(len(X) / start) - 1
    plain = KNeighborsRegressor().fit(X[: sizes[-1]], y[: sizes[-1]])
    np.testing.assert_array_equal(model.predict(X[:100]), plain.predict(X[:100]))


@pytest.mark.slow
def test_costs_of_many_rows_without_weights_are_estimated_on_some_of_them():
    X = np.random.default_rng(0).normal(size=(8_000, 2))
    coreset = coresets.Everything().add(X, X[:, 0], weights=np.linspace(1, 3, len(X))).coreset()
    some = subsample(coreset, 2_000, seed=1)
    assert len(some) == 2_000
    assert (np.diff(some.ids) > 0).all()
    np.testing.assert_array_equal(some.points, X[some.ids])
    np.testing.assert_array_equal(some.targets, X[some.ids, 0])
    np.testing.assert_array_equal(some.weights, 4 * coreset.weights[some.ids])
    totals = [subsample(coreset, 2_000, seed).weights @ X[subsample(coreset, 2_000, seed).ids] for seed in range(200)]
    error = 2 * np.sqrt(len(X) * 4 * 3 / 200)  # of the mean of 200 totals, weights are at most 3 and 2 on average
    assert (np.abs(np.mean(totals, axis=0) - coreset.weights @ X) < 6 * error).all()
    assert subsample(coreset, 8_000, seed=1) is coreset


# -- weights and resampling ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [KNeighborsRegressor(), make_pipeline(PCA(2), Ridge()), GaussianMixture(2)],
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


@pytest.mark.parametrize("estimator", [3, "Ridge"])
def test_what_is_no_estimator_is_refused(estimator):
    with pytest.raises(TypeError, match="must have a method fit"):
        BatchToOnline(estimator, loss="squared").fit(*data("regression"))


def test_a_class_in_place_of_an_object_is_named():
    with pytest.raises(TypeError, match=r"must be an object, not the class Ridge: pass Ridge\(\)"):
        BatchToOnline(Ridge).fit(*data("regression"))
    with pytest.raises(TypeError, match=r"refresh must be a policy.*pass Geometric\(\.\.\.\)"):
        BatchToOnline(Ridge(), refresh=Geometric).fit(*data("regression"))


# -- losses ----------------------------------------------------------------------------------------------


def test_prequential_loss_by_hand():
    X, y = data("regression")
    model = BatchToOnline(Ridge(), coreset=coresets.Everything, refresh=Geometric(2.0, start=50), random_state=0)
    model.partial_fit(X[:400], y[:400])
    loss = sum((y[t] - y[:t].mean()) ** 2 for t in range(1, 50))
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
    away, counts, scale = y - ridge.predict(X), np.round(np.exp(y / np.ptp(y))), np.abs(y).max()
    poisson = PoissonRegressor().fit(X / scale, counts)
    half_deviances = {
        power: np.array(
            [mean_tweedie_deviance([a], [b], power=power) / 2 for a, b in zip(counts, poisson.predict(X), strict=True)]
        )
        for power in (1, 1.5, 2)
    }
    expected = {
        "squared": (ridge, y[:, None], np.square(away)),
        "absolute": (ridge, y[:, None], np.abs(away)),
        "huber": (ridge, y[:, None], np.where(np.abs(away) < 1.35, away**2, 2.7 * np.abs(away) - 1.35**2)),
        "quantile": (ridge, y[:, None], np.abs(away) / 2),
        "poisson": (poisson, counts[:, None], half_deviances[1]),
        "gamma": (poisson, counts[:, None], half_deviances[2]),
        "tweedie": (poisson, counts[:, None], half_deviances[1.5]),
        "zero_one": (logistic, labels[:, None], logistic.predict(X) != labels),
        "log": (logistic, labels[:, None], -logistic.predict_log_proba(X)[np.arange(N), labels]),
        "distance": (kmeans, none, kmeans.transform(X).min(axis=1)),
        "squared_distance": (kmeans, none, kmeans.transform(X).min(axis=1) ** 2),
        "reconstruction": (pca, none, np.square(X - pca.inverse_transform(pca.transform(X))).sum(axis=1)),
        "negative_log_likelihood": (mixture, none, -mixture.score_samples(X)),
    }
    assert expected.keys() == LOSSES.keys()
    for name, (model, targets, losses) in expected.items():
        np.testing.assert_allclose(
            losses_of(LOSSES[name], model, X, targets)[0], losses, rtol=1e-6, atol=1e-9, err_msg=name
        )
        (losses, _), _ = LOSSES[name].warm_up().score(X, targets, np.ones(N))
        assert losses.shape == (N,)


@pytest.mark.parametrize("loss", [("quantile", 0.9), ("huber", 2.0), ("tweedie", 1.2), "poisson"])
def test_losses_of_linear_models_are_those_of_any_regressor(loss, tmp_path):
    X, y = data("regression")
    counts = np.round(np.exp(y / np.ptp(y)))
    settings = {"loss": loss, "refresh": Geometric(1.5), "random_state": 0}
    model = BatchToOnline(PoissonRegressor(), **settings).partial_fit(X, counts)
    pieces = BatchToOnline(PoissonRegressor(), **settings)
    for row in range(5):
        pieces.learn_one(X[row], counts[row])
    for start in range(5, N, 77):
        pieces.partial_fit(X[start : min(N, start + 77)], counts[start : min(N, start + 77)])
    assert pieces.regret_ == model.regret_
    assert 0 < model.regret_.loss < np.inf
    assert "mean so far" in str(model.headline())
    assert next(name for name in model.metrics_ if "loss" in name).startswith(loss[0] if len(loss) == 2 else loss)
    model.save(tmp_path / "model")
    twin = load(tmp_path / "model")
    assert twin.loss == loss
    assert twin.partial_fit(X, counts).regret_ == model.partial_fit(X, counts).regret_


@pytest.mark.parametrize("loss", ["gamma", "poisson"])
def test_targets_that_a_loss_is_not_made_for_are_refused_before_they_are_learned(loss):
    X, y = data("regression")
    model = BatchToOnline(Ridge(), loss=loss, random_state=0)
    with pytest.raises(ValueError, match=r"y must be .* for the (gamma|Poisson) loss, got -1 at row 3"):
        model.partial_fit(X, np.where(np.arange(N) == 3, -1.0, 1.0))
    model.partial_fit(X[:50], np.abs(y[:50]) + 1)
    for learn in (lambda: model.learn_one(X[0], -1.0), lambda: model.partial_fit(X[:2], [1.0, -1.0])):
        with pytest.raises(ValueError, match="got -1"):
            learn()
    with pytest.raises(ValueError, match="of one target"):
        BatchToOnline(Ridge(), loss=loss).partial_fit(X, np.stack([np.abs(y)] * 2, axis=1))
    assert model.n_seen_ == 50


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"loss": "square"}, ValueError, "loss must be a function or one of 'squared'"),
        ({"loss": 3}, TypeError, "loss must be a function or one of 'squared'"),
        ({"loss": lambda model, X, y: 1.0}, ValueError, "loss must return an array of shape"),
        ({"loss": lambda model, X, y: np.full(len(X), np.nan)}, ValueError, "loss gave NaN for row 0 of"),
        ({"coreset": 3}, TypeError, "coreset must be a coreset of batch2online.coresets"),
        ({"coreset": dict}, TypeError, "coreset must be a coreset of batch2online.coresets"),
        ({"refresh": 1.2}, TypeError, "refresh must be a policy"),
        ({"memory": 0}, ValueError, "memory must be a number of bytes, or a string such as"),
        ({"memory": "512 apples"}, ValueError, "memory must be a number of bytes"),
        ({"memory": None}, ValueError, "memory must be a number of bytes"),
    ],
)
def test_bad_settings_of_wrapped_estimators_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        BatchToOnline(Ridge(), **settings).fit(*data("regression"))


@pytest.mark.parametrize("resample", [False, True])
def test_a_coreset_without_rows_says_that_it_is_too_small(resample):
    X, y = data("regression")
    model = BatchToOnline(Ridge(), coreset=coresets.Uniform, coreset_size=1, resample=resample, random_state=0)
    with pytest.raises(ValueError, match="coreset_size is too small"):
        model.partial_fit(X, y)


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
