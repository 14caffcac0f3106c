"""OnlineClustering as scikit-learn and its users meet it: conventions, kinds of input, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from batch2online import OnlineClustering, checks, load
from batch2online.checks import refuses
from batch2online.coresets import Clustering
from batch2online.refresh import Geometric

NAMES = ["a", "b", "c"]
CENTERS = np.array([[0.0, 0.0, 0.0], [20.0, 0.0, 5.0], [0.0, 20.0, -5.0]])


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(3, size=n)] + rng.normal(size=(n, 3))


X = rows()


def fresh(**settings):
    return OnlineClustering(**{"n_clusters": 3, "random_state": 0} | settings)


def seen(**settings):
    return fresh(**settings).partial_fit(X)


# -- what it gives -------------------------------------------------------------------------------------


def test_clusters_are_those_of_kmeans():
    model, batch = fresh().fit(X), KMeans(3, n_init=3, random_state=0).fit(X)
    np.testing.assert_allclose(
        sorted(model.cluster_centers_.tolist()), sorted(batch.cluster_centers_.tolist()), atol=1e-6
    )
    assert model.score(X) == pytest.approx(-batch.inertia_)
    assert len(set(zip(model.labels_.tolist(), batch.labels_.tolist(), strict=True))) == 3


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
def test_labels_distances_and_scores_agree(z):
    model = fresh(z=z).fit(X)
    distances = model.transform(X)
    np.testing.assert_allclose(distances, np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2))
    assert np.array_equal(model.predict(X), distances.argmin(axis=1))
    assert np.array_equal(model.labels_, model.predict(X))
    assert np.array_equal(model.labels_, clone(model).fit_predict(X))
    assert [model.predict_one(row) for row in X] == model.labels_.tolist()
    weights = np.arange(len(X)) % 3
    assert model.score(X) == pytest.approx(-(distances.min(axis=1) ** z).sum())
    assert model.score(X, sample_weight=weights) == pytest.approx(-(weights @ distances.min(axis=1) ** z))


def test_a_late_first_refresh_leaves_the_mean_row_as_the_only_center():
    model = fresh(refresh=Geometric(start=100)).partial_fit(X[:99])
    assert model.cluster_centers_ == pytest.approx(np.repeat(X[:99].mean(axis=0)[None], 3, axis=0), rel=1e-12)
    by_hand = sum(np.square(X[t] - X[:t].mean(axis=0)).sum() for t in range(1, 99))
    assert model.regret_.loss == pytest.approx(by_hand)
    assert len(np.unique(model.learn_one(X[99]).cluster_centers_, axis=0)) == 3


@pytest.mark.parametrize(
    "given", [np.ones((20, 3)), X[:2], np.repeat(X[:2], 5, axis=0)], ids=["one", "few", "repeated"]
)
def test_fewer_distinct_points_than_clusters_are_said_and_repeated(given):
    with pytest.warns(ConvergenceWarning, match=f"Only {len(np.unique(given, axis=0))} distinct"):
        model = fresh().fit(given)
    assert {tuple(row) for row in model.cluster_centers_} == {tuple(row) for row in given}
    assert model.score(given) == 0
    assert fresh().partial_fit(given).cluster_centers_.shape == (3, 3)


@pytest.mark.parametrize("size", [1, 2])
def test_a_coreset_of_clusters_may_turn_out_empty(size):
    models = [fresh(coreset_size=size, random_state=seed).partial_fit(X).partial_fit(X) for seed in range(12)]
    assert min(len(model.coreset_) for model in models) == 0
    assert all(np.isfinite(model.cluster_centers_).all() and np.isfinite(model.regret_.loss) for model in models)


# -- parameters and composition ------------------------------------------------------------------------


def test_a_pipeline_gives_named_frames():
    frame = pd.DataFrame(X, columns=NAMES)
    pipeline = make_pipeline(StandardScaler(), fresh()).set_output(transform="pandas").fit(frame)
    distances = pipeline.transform(frame)
    assert list(distances.columns) == ["onlineclustering0", "onlineclustering1", "onlineclustering2"]
    assert (distances.index == frame.index).all()
    alone = fresh().fit(StandardScaler().fit_transform(X))
    assert np.array_equal(pipeline.predict(frame), alone.labels_)


def test_a_path_object_names_a_folder_too(tmp_path):
    model = fresh(history=Path(tmp_path) / "rows").fit(X)
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").cluster_centers_, model.cluster_centers_)


# -- what is refused -----------------------------------------------------------------------------------


def with_cell(value):
    """Ten rows with this value at row 4, column 1."""
    return checks.with_value(X[:10], value, (4, 1))


@pytest.mark.parametrize("method", ["fit", "score"])
@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (-np.inf, "infinity"), (1e152, "large"), ("x", ""), ({"a": 1}, "")]
)
def test_cells_that_are_no_finite_numbers_are_refused_by_row_and_column(method, value, kind):
    models = [seen()] if method == "score" else [fresh(), seen()]
    place = f"{kind}.* row 4, column 1" if kind else "[Rr]ow 4, column 1"
    for model in models:
        refuses(model, lambda model: getattr(model, method)(with_cell(value)), place, (ValueError, TypeError))


@pytest.mark.parametrize(
    "parameter",
    [
        *[{"n_clusters": k} for k in (0, -1, 2.5, "3", True, None)],
        *[{"z": z} for z in (0.5, 0, -1, np.nan, np.inf, "2", None)],
        *[{"stages": stages} for stages in (0, 3, "1", None)],
        *[{"history": history} for history in (None, 3, True)],
        *[{"epsilon": epsilon} for epsilon in (0, 1, np.nan, "x")],
        *[{"coreset_size": size} for size in (0, -5, "x", True, np.nan)],
        *[{"refresh": refresh} for refresh in ("lazy", Geometric)],
        *[{"first_id": first_id} for first_id in (-1, 2**63, 1.5)],
        *[{"random_state": seed} for seed in (-1, "x", 1.5)],
    ],
    ids=str,
)
def test_parameters_of_clustering_are_checked_by_name(parameter):
    (name,) = parameter
    for act in (lambda model: model.fit(X), lambda model: model.partial_fit(X)):
        refuses(fresh().set_params(**parameter), act, name, (ValueError, TypeError))


def test_models_that_keep_their_rows_in_one_folder_do_not_meet(tmp_path):
    one, other = seen(history=str(tmp_path)), seen(history=str(tmp_path), random_state=1)
    in_memory = seen(random_state=1)
    assert one.partial_fit(X).forget([3]).n_seen_ == 799
    assert other.forget([3]).coreset_ == in_memory.forget([3]).coreset_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 4}, "n_clusters"),
        ({"z": 1.0}, "z"),
        ({"stages": 2}, "stages"),
        ({"history": "coreset"}, "history"),
    ],
)
def test_clusterings_of_other_settings_are_not_merged(settings, message):
    other = fresh(**{"first_id": 1000} | settings).partial_fit(X)
    refuses(seen(), lambda model: model.merge(other), message)


def test_a_construction_without_rows_says_so():
    built = Clustering(3, random_state=0)
    for read in (built.coreset, lambda: built.seeds):
        with pytest.raises(ValueError, match="No rows"):
            read()
