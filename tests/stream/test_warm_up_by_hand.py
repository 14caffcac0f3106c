"""What rows cost before there is a model: each by the rows before it alone, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batch2online.warm_up import LabelsSoFar, MeanSoFar

RNG = np.random.default_rng


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("of_targets", [False, True])
def test_a_row_costs_its_distance_to_the_weighted_mean_of_the_rows_before_it(z, of_targets):
    points, targets, weights = (
        RNG(0).normal(size=(12, 2)) + 50.0,
        RNG(1).normal(size=(12, 1)),
        RNG(2).uniform(0.2, 3, 12),
    )
    values = targets if of_targets else points
    means = [np.average(values[:i], axis=0, weights=weights[:i]) if i else values[0] for i in range(13)]
    apart = np.array([np.linalg.norm(value - mean) for value, mean in zip(values, means, strict=False)])
    warm_up = MeanSoFar(of_targets, z)
    for part in (slice(0, 5), slice(5, 6), slice(6, 12)):
        (losses, unsquared), warm_up = warm_up.score(points[part], targets[part], weights[part])
        np.testing.assert_allclose(losses, apart[part] ** z, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(unsquared, apart[part], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(warm_up.prediction, means[part.stop], rtol=1e-12)


def test_shares_of_labels_and_of_a_new_one_add_to_one():
    """The log loss of every label that may come next, known ones and a new one, is that of a distribution."""
    codes, weights = np.array([[3.0], [3.0], [5.0], [8.0], [5.0]]), np.array([1.0, 2.0, 0.5, 1.0, 1.0])
    warm_up = LabelsSoFar(is_log=True)
    for code, weight in zip(codes, weights, strict=True):
        warm_up = warm_up.score(np.empty((1, 0)), code[None], np.array([weight]))[1]
    chances = []
    for code in (3.0, 5.0, 8.0, 99.0):
        (losses, _), _ = warm_up.score(np.empty((1, 0)), np.array([[code]]), np.ones(1))
        chances.append(math.exp(-losses[0]))
    assert sum(chances) == pytest.approx(1.0)
    assert chances[0] == pytest.approx(3.5 / 7.5)
