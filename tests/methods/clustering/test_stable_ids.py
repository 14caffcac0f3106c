"""Cluster ids outlive a change of the model, and what became of each is said."""

from __future__ import annotations

from itertools import pairwise, permutations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import KMeans

from batch2online import OnlineClustering
from batch2online.methods.clustering.problem import Centers, ClusteringProblem
from batch2online.numerics.matching import cluster_changes, matched, shared_weight
from batch2online.refresh import Geometric
from batch2online.sketches.base import Coreset

# -- matching ------------------------------------------------------------------------------------------


@st.composite
def overlaps(draw):
    k = draw(st.integers(1, 5))
    whole = st.integers(0, draw(st.sampled_from([2, 1000])))
    return draw(arrays(np.int64, (k, k), elements=whole)), draw(arrays(np.int64, (k, k), elements=st.integers(0, 9)))


@given(overlaps())
@settings(max_examples=300, deadline=None)
@pytest.mark.slow
def test_as_much_weight_as_possible_keeps_its_label_and_distance_decides_ties(overlap):
    shared, distances = overlap
    olds = np.arange(len(shared))
    worths = {
        new: (shared[olds, list(new)].sum(), -distances[olds, list(new)].sum())
        for new in permutations(range(len(shared)))
    }
    assert worths[tuple(matched(shared.astype(float), distances.astype(float)).tolist())] == max(worths.values())


def coreset_of(points, weights=None):
    points = np.asarray(points, dtype=float)
    weights = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=float)
    return SimpleNamespace(coreset=Coreset(points, None, weights, np.arange(len(points))), cache={})


def difference(old, new, points, weights=None):
    old, new = (np.asarray(centers, dtype=float).reshape(-1, 1) for centers in (old, new))
    columns = np.asarray(points, dtype=float).reshape(-1, 1)
    return ClusteringProblem(len(old)).difference(Centers(old), Centers(new), coreset_of(columns, weights))


@given(st.integers(0, 2**32), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_churn_is_the_share_of_weight_with_another_label(seed, k):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(60, 2)), rng.uniform(0, 3, size=60)
    old, new = rng.normal(size=(2, k, 2))
    labels = [np.square(points[:, None] - centers).sum(axis=2).argmin(axis=1) for centers in (old, new)]
    change = ClusteringProblem(k).difference(Centers(old), Centers(new), coreset_of(points, weights))
    assert change["churn"] == pytest.approx(weights[labels[0] != labels[1]].sum() / weights.sum(), abs=1e-12)
    assert change["magnitude"] == pytest.approx(np.linalg.norm(old - new, axis=1).max())
    for event in change["matching"]:
        own = labels[0] == event.id
        stay = weights[own & (labels[1] == event.id)].sum()
        assert event.kept == pytest.approx(stay / weights[own].sum() if own.any() else 0.0)
        assert event.moved == pytest.approx(np.linalg.norm(old[event.id] - new[event.id]))


def test_centers_that_only_move_keep_all_their_rows():
    change = difference([0, 10], [1, 12], [0, 1, 9, 10])
    assert change["churn"] == 0
    assert [(c.id, c.moved, c.kept, c.split_from, c.merged_into) for c in change["matching"]] == [
        (0, 1.0, 1.0, None, None),
        (1, 2.0, 1.0, None, None),
    ]


def test_a_cluster_that_splits_is_named_as_the_origin_of_its_part():
    points = [0] * 6 + [10] * 6 + [14] * 4
    change = difference([0, 12, 100], [0, 10, 14], points)
    kept, shrunk, part = change["matching"]
    assert (kept.kept, kept.split_from, kept.merged_into) == (1.0, None, None)
    assert (shrunk.kept, shrunk.split_from, shrunk.merged_into) == (0.6, None, None)
    assert (part.kept, part.split_from, part.merged_into) == (0.0, 1, None)
    assert change["churn"] == 4 / 16


def test_a_cluster_that_goes_into_another_says_into_which():
    points = [0] * 3 + [2] * 5 + [10] * 8
    change = difference([0, 2, 10], [50, 1, 10], points)
    gone, grown, kept = change["matching"]
    assert (gone.kept, gone.split_from, gone.merged_into) == (0.0, None, 1)
    assert (grown.kept, grown.split_from, grown.merged_into) == (1.0, None, None)
    assert (kept.kept, kept.split_from, kept.merged_into) == (1.0, None, None)
    assert change["churn"] == 3 / 16


def test_an_id_may_merge_into_one_cluster_and_begin_anew_as_part_of_another():
    shared = np.array([[0.0, 5.0, 0.0], [0.0, 6.0, 0.0], [4.0, 0.0, 9.0]])
    first, *_ = cluster_changes(shared, np.zeros(3))
    assert (first.kept, first.split_from, first.merged_into) == (0.0, 2, 1)


def test_shared_weight_counts_pairs_of_labels():
    shared = shared_weight(np.array([0, 0, 1]), np.array([1, 1, 0]), np.array([2.0, 3.0, 4.0]), 2)
    assert shared.tolist() == [[0.0, 5.0], [4.0, 0.0]]


# -- a stream whose clusters move ----------------------------------------------------------------------

CLUSTERS, CHUNK, ROWS = 5, 500, 20_000


def moving_clusters(seed=0):
    """Clusters on a circle that turns slowly, and the cluster of each row."""
    rng = np.random.default_rng(seed)
    origin = rng.integers(CLUSTERS, size=ROWS)
    angle = 2 * np.pi * origin / CLUSTERS + np.linspace(0, 0.9, ROWS)
    return 10 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.5 * rng.normal(size=(ROWS, 2)), origin


def names_given(labels, origin):
    """For each true cluster the id that most of its rows have."""
    return tuple(int(np.bincount(labels[origin == c], minlength=CLUSTERS).argmax()) for c in range(CLUSTERS))


def test_ids_change_only_with_an_event_and_moving_clusters_keep_theirs():
    X, origin = moving_clusters()
    model = OnlineClustering(CLUSTERS, refresh=Geometric(1.3), random_state=0)
    centers, names = None, set()
    for start in range(0, ROWS, CHUNK):
        changes = model.n_changes_ if start else 0
        model.partial_fit(X[start : start + CHUNK])
        if centers is not None and model.n_changes_ == changes:
            assert np.array_equal(model.cluster_centers_, centers)
        centers = model.cluster_centers_
        names.add(names_given(model.predict(X[start : start + CHUNK]), origin[start : start + CHUNK]))
    assert model.n_changes_ > 10
    assert len(names) == 1
    assert sorted(*names) == list(range(CLUSTERS))
    late = [event for event in model.changes_ if event.at > CHUNK]
    assert all(change.kept > 0.9 for event in late for change in event.matching)
    assert all(event.churn < 0.1 for event in late)


def test_refits_permute_the_ids_of_the_same_clusters():
    X, origin = moving_clusters()
    names = [
        names_given(KMeans(CLUSTERS, n_init=1, random_state=n).fit(X[:n]).predict(X[:n]), origin[:n])
        for n in range(2_000, ROWS + 1, 2_000)
    ]
    permuted = sum(one != other for one, other in pairwise(names))
    assert permuted > 0.8 * (len(names) - 1)


@pytest.mark.parametrize("warm_start", [True, False])
def test_the_log_of_changes_tells_the_labels_that_changed(warm_start):
    X = np.random.default_rng(1).normal(size=(3_000, 2))  # no clusters at all: many changes
    model = OnlineClustering(6, coreset_size=10**6, refresh=Geometric(2.0), warm_start=warm_start, random_state=0)
    model.partial_fit(X[:8])
    for at in (16, 32, 64, 128, 256, 512, 1024, 2048):
        before, changes = model.predict(X[:at]), model.n_changes_
        model.partial_fit(X[model.n_seen_ : at])
        if model.n_changes_ > changes:
            after, event = model.predict(X[:at]), model.changes_[-1]
            assert event.at == at
            assert event.churn == pytest.approx(np.mean(before != after), abs=1e-9)
    assert model.n_changes_ > 5
