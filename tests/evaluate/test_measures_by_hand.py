"""Hindsight, losses and counts of the evaluation, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from batch2online.evaluate import losses
from batch2online.evaluate.result import Outcome, Result

RNG = np.random.default_rng


# -- losses and hindsight ------------------------------------------------------------------------------------


def test_hindsight_of_regression_has_an_intercept():
    X, y = RNG(0).normal(size=(60, 3)) + 5.0, RNG(1).normal(size=(60, 2)) + 100.0
    best = losses.loss_of("squared").hindsight(X, y).sum()
    around = X - X.mean(axis=0)
    coefficients = np.linalg.lstsq(around, y - y.mean(axis=0), rcond=None)[0]
    expected = np.square(y - y.mean(axis=0) - around @ coefficients).sum()
    assert best == pytest.approx(expected)
    each = losses.loss_of("absolute").losses(np.zeros((60, 2)), X, y)
    np.testing.assert_allclose(each, np.linalg.norm(y, axis=1))


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
def test_losses_of_centers_for_every_power(z):
    X, centers = RNG(2).normal(size=(40, 2)), RNG(3).normal(size=(3, 2))
    loss = losses.ClusteringLoss(z, n_clusters=2)
    expected = np.linalg.norm(X[:, None] - centers, axis=2).min(axis=1) ** z
    np.testing.assert_allclose(loss.losses(centers, X, None), expected)
    # two far groups: the best two centers are found by looking at each group alone
    groups = np.concatenate([X, X + 1e3])
    alone = losses.ClusteringLoss(z, n_clusters=1).hindsight(X, None).sum()
    assert loss.hindsight(groups, None).sum() == pytest.approx(2 * alone, rel=1e-3)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("squared", [False, True])
def test_hindsight_of_subspaces_is_that_of_singular_values(center, squared):
    X = RNG(4).normal(size=(50, 4)) * [5, 3, 1, 1] + 7.0
    loss = losses.LowRankLoss(2, center, squared)
    around = X - X.mean(axis=0) * center
    right = np.linalg.svd(around, full_matrices=False)[2][:2]
    apart = np.square(around - around @ right.T @ right).sum(axis=1)
    np.testing.assert_allclose(loss.hindsight(X, None), apart if squared else np.sqrt(apart), rtol=1e-6)


@pytest.mark.parametrize("squared", [False, True])
def test_before_the_first_subspace_the_loss_is_the_distance_to_the_mean_so_far(squared):
    X, loss = np.array([[0.0, 0.0], [3.0, 4.0], [7.5, 10.0]]), losses.LowRankLoss(1, squared=squared)
    each = loss.before_model(X, None)
    assert each == pytest.approx([0.0, 25.0, 100.0] if squared else [0.0, 5.0, 10.0])


def test_components_that_are_not_orthonormal_are_made_so():
    X, skewed = RNG(5).normal(size=(20, 3)), np.array([[2.0, 0.0, 0.0], [3.0, 1.0, 0.0]])
    np.testing.assert_allclose(losses.LowRankLoss(2).losses((skewed,), X, None), X[:, 2] ** 2, atol=1e-12)


def test_ratios_by_hand():
    def ratio(loss, optimum):
        return Outcome("m", 0, loss, optimum, 0, 0.0, 1.0).ratio

    assert ratio(3.0, 2.0) == 1.5
    assert ratio(0.0, 0.0) == 1.0
    assert ratio(1.0, 0.0) == math.inf


def test_a_summary_has_means_over_seeds_and_the_largest_memory():
    runs = tuple(Outcome("m", s, 2.0 + s, 2.0, s, 0.5 * s, 1.0, m) for s, m in enumerate((70, 90, 80)))
    (line,) = Result(runs, (), {}).summary()
    assert (line["loss"], line["ratio"], line["regret"], line["changes"], line["churn"]) == (3.0, 1.5, 1.0, 1.0, 0.5)
    assert (line["seeds"], line["peak_memory"]) == (3, 90)


def test_measures_of_change_by_hand():
    old, new = np.linalg.qr(RNG(8).normal(size=(5, 2)))[0].T, np.linalg.qr(RNG(9).normal(size=(5, 2)))[0].T
    assert losses.subspace_angle(old, new) == pytest.approx(subspace_angles(old.T, new.T).max())
    points = np.array([[0.0], [1.0], [2.0], [9.0]])
    assert losses.label_churn(np.array([[0.0], [9.0]]), np.array([[0.0], [2.5]]), points) == 0.25
