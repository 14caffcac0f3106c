"""Nearest centers against differences, where products would cancel too, and in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online.numerics import distances
from batch2online.numerics.distances import membership, nearest, nearest_squared, squared_distances, squared_lengths

SHAPES = [(1, 1, 1), (7, 3, 2), (500, 8, 5), (300, 40, 10), (200, 300, 3)]


def exact(points, centers):
    squared = np.square(points[:, None] - centers).sum(axis=2)
    return squared.argmin(axis=1), squared.min(axis=1)


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("entries", [10, 100_000])
def test_all_forms_agree_with_differences(monkeypatch, n, d, k, shift, entries):
    monkeypatch.setattr(distances, "_PIECE_ENTRIES", entries)
    monkeypatch.setattr(distances, "_LEAST_ROWS", 3)
    rng = np.random.default_rng(n + d + k)
    points, centers = rng.normal(size=(n, d)) + shift, rng.normal(size=(k, d)) + shift
    labels, squared = exact(points, centers)
    found, near = nearest(points, centers)
    is_nearest, again = membership(points, squared_lengths(points), centers)
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_array_equal(is_nearest, labels == np.arange(k)[:, None])
    for other in (near, again, nearest_squared(points, centers)):
        np.testing.assert_allclose(other, squared, rtol=1e-7)


def test_of_equal_centers_the_first_is_nearest():
    points = np.random.default_rng(0).normal(size=(50, 3))
    centers = points[[4, 4, 9, 9]]
    labels, squared = nearest(points, centers)
    is_nearest, _ = membership(points, squared_lengths(points), centers)
    assert set(labels.tolist()) == {0, 2}
    assert (is_nearest.sum(axis=0) == 1).all()
    assert squared[4] == squared[9] == 0.0


@pytest.mark.parametrize("d", [1, 8, 31, 32, 500])
def test_distances_by_differences_do_not_depend_on_the_company(d):
    points = np.random.default_rng(d).normal(size=(40, d))
    together = squared_distances(points, points[:3])
    alone = np.hstack([squared_distances(points[[i]], points[:3]) for i in range(40)])
    np.testing.assert_array_equal(together, alone)


def test_results_belong_to_the_caller():
    rng = np.random.default_rng(0)
    one, other, centers = rng.normal(size=(100, 4)), rng.normal(size=(100, 4)), rng.normal(size=(3, 4))
    first = [nearest(one, centers), membership(one, squared_lengths(one), centers)]
    kept = [[array.copy() for array in pair] for pair in first]
    nearest(other, centers), membership(other, squared_lengths(other), centers), nearest_squared(other, centers)
    for pair, before in zip(first, kept, strict=True):
        for array, old in zip(pair, before, strict=True):
            np.testing.assert_array_equal(array, old)


def test_rows_without_columns_are_at_every_center():
    labels, squared = nearest(np.empty((3, 0)), np.empty((2, 0)))
    assert labels.tolist() == [0, 0, 0]
    assert squared.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("d", [2, 40])
def test_points_beside_centers_that_lie_far_apart_keep_their_distance(d):
    """Distances of 1e-4 between numbers of 1e3: a product of rows would leave none of their digits."""
    rng = np.random.default_rng(d)
    centers = 1e3 * rng.normal(size=(6, d))
    points = np.concatenate([centers + 1e-4 * rng.normal(size=(6, d)), centers])
    labels, squared = exact(points, centers)
    is_nearest, again = membership(points, squared_lengths(points), centers)
    found, near = nearest(points, centers)
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_array_equal(is_nearest.argmax(axis=0), labels)
    for other in (near, again, nearest_squared(points, centers)):
        np.testing.assert_allclose(other, squared, rtol=1e-9)
        assert (other[6:] == 0).all()
