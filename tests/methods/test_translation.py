"""Rows that are moved or scaled give a model that is moved or scaled: no digits are lost far from zero.

Rows lie on a grid, and are moved by whole numbers up to 2^30: nothing is rounded before a model sees them. What is
left is that centers far from zero are rounded themselves.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.cluster import KMeans

from batch2online import OnlineClustering, OnlineLowRank, coresets

_GRID = 2.0**-18
_RNG = np.random.default_rng(3)
_GROUPS = np.array([[0.0, 0.0, 0.0], [9.0, 2.0, 0.0], [0.0, 11.0, 3.0], [7.0, 8.0, 12.0]])
X = np.round((_GROUPS[_RNG.integers(0, 4, 900)] + _RNG.normal(size=(900, 3))) / _GRID) * _GRID
"""Four groups, each of unit spread."""

FAR = np.array([2.0**30, -(2.0**30), 3.0 * 2**28])
_ROUNDING = 4 * np.spacing(2.0**30)
CASES = [
    {"z": z, "stages": stages, "solve": solve, "history": history}
    for z, stages, solve, history in itertools.product(
        (1.0, 1.5, 2.0, 3.0), (1, 2), ("exact", "coreset"), ("memory", "coreset", "path")
    )
    if solve == "exact" or (z == 2 and history != "coreset")  # otherwise the two are the same
]


def _new(settings, folder, **others):
    own = {**settings, "history": folder} if settings["history"] == "path" else settings
    return OnlineClustering(4, coreset_size=150, random_state=1, **own, **others)


def _streamed(model, rows):
    for start in range(0, len(rows), 180):
        model.partial_fit(rows[start : start + 180])
    return model


def _learned(settings, folder, rows):
    """Models by every way of learning rows."""
    yield "stream", _streamed(_new(settings, folder / "stream"), rows)
    yield "fit", _new(settings, folder / "fit").fit(rows)
    halves = [_new(settings, folder / str(first), first_id=first).partial_fit(rows[first:][:450]) for first in (0, 450)]
    yield "merge", halves[0].merge(halves[1])
    if settings["history"] != "coreset":
        yield "forget", _streamed(_new(settings, folder / "forget"), rows).forget(np.arange(100, 300))


def _compare(plain, moved, rows, far, scale):
    """Compare a model with that of rows times ``scale`` plus ``far``."""
    z, near = plain.z, scale == 1
    loss_scale, tolerance = scale**z, {"rtol": 1e-9 if not near else 1e-6 if z == 2 else 2e-4}
    # for other z steps stop at a small gain, and rounding may decide on one more
    np.testing.assert_array_equal(moved.coreset_.ids, plain.coreset_.ids)
    np.testing.assert_allclose(moved.coreset_.weights, plain.coreset_.weights, rtol=1e-12)
    assert [event.at for event in moved.changes_] == [event.at for event in plain.changes_]
    centers = plain.cluster_centers_ * scale
    np.testing.assert_allclose(moved.cluster_centers_ - far, centers, atol=_ROUNDING * near, rtol=1e-9)
    np.testing.assert_array_equal(moved.predict(rows * scale + far), plain.predict(rows))
    np.testing.assert_allclose(
        moved.transform(rows * scale + far), plain.transform(rows) * scale, atol=4 * _ROUNDING * near, rtol=1e-9
    )
    assert moved.predict_one(rows[3] * scale + far) == plain.predict_one(rows[3])
    for name in ("loss", "optimum", "total"):
        own, other = getattr(moved.regret_, name), getattr(plain.regret_, name)
        np.testing.assert_allclose(own, other * loss_scale, err_msg=name, **tolerance)
    np.testing.assert_allclose(moved.regret_.error, plain.regret_.error, rtol=1e-6)
    np.testing.assert_allclose(moved.inertia_, plain.inertia_ * loss_scale, **tolerance)
    assert dict(moved.headline().quality).get("silhouette") == dict(plain.headline().quality).get("silhouette")


@pytest.mark.parametrize("settings", CASES, ids=lambda settings: " ".join(map(str, settings.values())))
@pytest.mark.covering(axes=lambda settings: settings.values())
@pytest.mark.slow
def test_clusters_move_with_their_rows(settings, tmp_path):
    pairs = zip(_learned(settings, tmp_path / "a", X), _learned(settings, tmp_path / "b", X + FAR), strict=True)
    for (_, plain), (_, moved) in pairs:
        _compare(plain, moved, X, FAR, 1.0)


@pytest.mark.parametrize("scale", [2.0**-160, 2.0**100])
@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("history", ["memory", "coreset"])
@pytest.mark.covering
def test_clusters_scale_with_their_rows(z, history, scale, tmp_path):
    settings = {"z": z, "history": history}
    pairs = zip(_learned(settings, tmp_path, X), _learned(settings, tmp_path, X * scale), strict=True)
    for (_, plain), (_, scaled) in pairs:
        _compare(plain, scaled, X, 0.0, scale)


@pytest.mark.parametrize("settings", [{"half_life": 200}, {"window": 300}, {"half_life": "auto"}], ids=str)
def test_clusters_that_forget_move_with_their_rows(settings, tmp_path):
    plain, moved = (
        _streamed(OnlineClustering(4, coreset_size=150, random_state=1, **settings), rows) for rows in (X, X + FAR)
    )
    _compare(plain, moved, X, FAR, 1.0)


@pytest.mark.parametrize("offset", [1e8, 1e9, 1e10])
@pytest.mark.parametrize("seed", range(3))
def test_rows_without_groups_cost_no_more_far_from_zero(seed, offset):
    """Sums over all rows decide between centers that cost nearly the same."""
    rows = np.random.default_rng(seed).normal(size=(1500, 3)) + offset
    near = rows - rows.mean(axis=0)
    best = KMeans(4, n_init=5, random_state=0).fit(near).inertia_
    model = OnlineClustering(4, coreset_size=500, random_state=seed).fit(rows)
    centers = model.cluster_centers_ - rows.mean(axis=0)
    assert np.square(near[:, None] - centers).sum(axis=2).min(axis=1).sum() < 1.03 * best
    assert model.regret_.optimum == pytest.approx(best, rel=0.03)


def test_few_rows_far_from_all_others_leave_the_others_their_digits():
    """A zero among times in seconds, say."""
    rows = X + 2.0**30
    rows[17] = -1e12
    for z in (1.0, 2.0):
        model = _streamed(OnlineClustering(5, z=z, random_state=0), rows)
        others = _streamed(OnlineClustering(4, z=z, random_state=0), np.delete(rows, 17, axis=0))
        assert model.inertia_ < 1.05 * others.inertia_


def test_the_error_of_a_coreset_does_not_depend_on_the_origin():
    near, far = (
        coresets.error(coresets.Clustering(4, coreset_size=150, random_state=0).add(rows).coreset(), rows, k=4)
        for rows in (X, X + FAR)
    )
    assert far == pytest.approx(near, rel=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{"solve": solve, "center": center} for solve in ("exact", "coreset") for center in (False, True)],
    ids=str,
)
@pytest.mark.parametrize("scale", [2.0**-160, 2.0**100])
def test_components_do_not_depend_on_the_scale(settings, scale):
    plain, scaled = _low_rank(X, **settings), _low_rank(X * scale, **settings)
    np.testing.assert_allclose(scaled.components_, plain.components_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scaled.transform(X * scale), plain.transform(X) * scale, rtol=1e-9, atol=1e-9 * scale)
    for name in ("loss", "optimum", "total"):
        assert getattr(scaled.regret_, name) == pytest.approx(getattr(plain.regret_, name) * scale**2, rel=1e-9)


WAYS = ["stream", "fit", "merge", "forget", "half_life", "window"]


@pytest.mark.parametrize("solve", ["exact", "coreset"])
@pytest.mark.parametrize("way", WAYS)
def test_centred_components_do_not_depend_on_the_origin(way, solve):
    plain, moved = (_low_rank(rows, way, center=True, solve=solve) for rows in (X, X + FAR))
    _assert_same_coreset_and_changes(moved, plain)
    np.testing.assert_allclose(moved.components_, plain.components_, atol=1e-6)
    np.testing.assert_allclose(moved.mean_ - FAR, plain.mean_, atol=1e-6)
    coordinates = plain.transform(X)
    np.testing.assert_allclose(moved.transform(X + FAR), coordinates, atol=1e-5)
    np.testing.assert_allclose(
        moved.inverse_transform(coordinates) - FAR, plain.inverse_transform(coordinates), atol=1e-5
    )
    for name in ("loss", "optimum", "total"):
        assert getattr(moved.regret_, name) == pytest.approx(getattr(plain.regret_, name), rel=1e-6)


@pytest.mark.parametrize("scale", [2.0**-160, 2.0**-8, 2.0**100])
@pytest.mark.parametrize("solve", ["exact", "coreset"])
@pytest.mark.parametrize("way", WAYS)
def test_the_coreset_of_centred_components_does_not_depend_on_the_scale(way, solve, scale):
    plain, scaled = (_low_rank(rows, way, center=True, solve=solve) for rows in (X, X * scale))
    _assert_same_coreset_and_changes(scaled, plain)
    np.testing.assert_array_equal(scaled.components_, plain.components_)
    np.testing.assert_array_equal(scaled.mean_, plain.mean_ * scale)


@pytest.mark.parametrize("offset", [0.0, 2.0**30, 1e12])
@pytest.mark.parametrize("scale", [2.0**-160, 1.0, 2.0**100])
def test_a_centred_coreset_gives_nearly_the_optimum_wherever_rows_lie(offset, scale):
    rows = X * scale if offset == 0 else X + offset
    ratios = []
    for seed in range(5):
        model = OnlineLowRank(1, center=True, solve="coreset", coreset_size=150, random_state=seed).fit(rows)
        ratios.append(-model.score(rows) * len(rows) / model.regret_.optimum)
    assert np.mean(ratios) < 1.05


def _assert_same_coreset_and_changes(one, other):
    np.testing.assert_array_equal(one.coreset_.ids, other.coreset_.ids)
    np.testing.assert_array_equal(one.coreset_.weights, other.coreset_.weights)
    assert [event.at for event in one.changes_] == [event.at for event in other.changes_]


def _low_rank(rows, way="stream", **settings):
    settings |= {"coreset_size": 150, "random_state": 1, "keep_history": way == "forget"}
    settings |= {"half_life": {"half_life": 200}, "window": {"window": 300}}.get(way, {})
    if way == "fit":
        return OnlineLowRank(2, **settings).fit(rows)
    if way == "merge":
        first = OnlineLowRank(2, **settings).partial_fit(rows[:450])
        return first.merge(OnlineLowRank(2, first_id=450, **settings).partial_fit(rows[450:]))
    model = _streamed(OnlineLowRank(2, **settings), rows)
    return model.forget(np.arange(100, 300)) if way == "forget" else model
