"""What each problem says of a model, against sums over all rows written out: costs, optimum, losses, magnitudes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

from batch2online.coresets import Clustering, Everything, Leverage, RidgeLeverage, Uniform
from batch2online.methods.any_estimator.fitted_estimator import FittedEstimator
from batch2online.methods.any_estimator.problem import EstimatorProblem
from batch2online.methods.any_estimator.row_losses import LOSSES, loss_of, losses_of
from batch2online.methods.clustering.problem import Centers, ClusteringProblem
from batch2online.methods.least_squares.problem import LeastSquares, LinearModel
from batch2online.methods.low_rank.problem import LowRank, Subspace
from batch2online.rows import Rows
from batch2online.sketches.base import Snapshot

RNG = np.random.default_rng


def ready(built):
    """Return what a problem reads of a coreset, as at a refit."""
    return Snapshot(built.sketch.prepared(built.history), built.history)


every_power = pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])


# -- clustering ------------------------------------------------------------------------------------------


def clusters(n=60, weighted=True):
    rng = RNG(0)
    points = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 7.0]], n // 3, axis=0) + rng.normal(size=(n, 2))
    return points, rng.uniform(0.2, 3, size=n) if weighted else np.ones(n)


def plain_cost(points, weights, centers, z):
    return float(weights @ np.linalg.norm(points[:, None] - centers, axis=2).min(axis=1) ** z)


@every_power
def test_the_cost_of_centers_is_that_of_the_coreset_for_every_power(z):
    points, weights = clusters()
    construction = ready(Clustering(3, z, coreset_size=20, random_state=0).add(points, weights=weights))
    problem, centers, coreset = ClusteringProblem(3, z), points[:3], construction.coreset
    assert len(coreset) < len(points)
    expected = plain_cost(coreset.points, coreset.weights, centers, z)
    np.testing.assert_allclose(problem.cost(Centers(centers), construction), expected, rtol=1e-9)
    losses, distances = problem.losses(Centers(centers), points, np.empty((len(points), 0)))
    np.testing.assert_allclose(weights @ losses, plain_cost(points, weights, centers, z), rtol=1e-9)
    np.testing.assert_allclose(weights @ distances, plain_cost(points, weights, centers, 1.0), rtol=1e-9)


@every_power
@pytest.mark.parametrize("history", ["memory", "coreset"])
def test_the_optimum_is_the_best_of_a_new_solution_and_the_model(z, history):
    points, weights = clusters()
    construction = ready(
        Clustering(3, z, coreset_size=25, random_state=0, history=history).add(points, weights=weights)
    )
    coreset, problem = construction.coreset, ClusteringProblem(3, z)
    judged = (points, weights) if history == "memory" else (coreset.points, coreset.weights)
    bad = Centers(np.full((3, 2), 50.0))
    fresh = problem.fit(construction, bad).model
    optimum = problem.optimum(construction, bad)
    if history == "memory":  # passes over all rows start from the new solution and only improve it
        assert 0.8 * plain_cost(*judged, fresh.points, z) < optimum <= plain_cost(*judged, fresh.points, z)
    else:
        assert optimum == pytest.approx(plain_cost(*judged, fresh.points, z))
    assert optimum < plain_cost(*judged, bad.points, z) / 3
    all_of_it = ready(Clustering(3, z, coreset_size=10**6, random_state=1).add(judged[0], weights=judged[1]))
    # centers solved on all that is judged: no solution on another coreset is better
    best = problem.fit(all_of_it, None).model
    assert problem.optimum(construction, best) <= plain_cost(*judged, best.points, z) * (1 + 1e-12)
    again = problem.fit(construction, best).model
    either = min(plain_cost(*judged, each.points, z) for each in (best, again))
    assert 0.95 * either <= problem.optimum(construction, best) <= either * (1 + 1e-12)


def test_a_good_model_is_not_above_its_own_optimum():
    """The new solution comes from a coreset of few rows, and is worse than a model that was solved on all rows."""
    points, weights = clusters(300)
    all_rows = ready(Clustering(3, coreset_size=10**6, random_state=0).add(points, weights=weights))
    problem = ClusteringProblem(3, warm_start=False)
    best = problem.fit(all_rows, None).model
    few = ready(Clustering(3, coreset_size=8, random_state=0).add(points, weights=weights))
    cost = plain_cost(points, weights, best.points, 2.0)
    assert plain_cost(points, weights, problem.fit(few, None).model.points, 2.0) > 1.001 * cost
    assert problem.optimum(few, best) == pytest.approx(cost)


def test_the_magnitude_of_a_change_is_the_largest_move_and_ids_are_taken_over():
    points, weights = clusters()
    construction = ready(Clustering(3, coreset_size=1000, random_state=0).add(points, weights=weights))
    old = np.array([[0.0, 7.0], [0.0, 0.0], [9.0, 0.0]])
    new = old + np.array([[0.0, 0.1], [0.3, 0.4], [0.0, 0.2]])
    problem = ClusteringProblem(3, warm_start=False)
    difference = problem.difference(Centers(old), Centers(new), construction)
    assert difference["magnitude"] == pytest.approx(0.5)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        found = problem.fit(construction, Centers(old[order])).model.points
        assert np.linalg.norm(found - old[order], axis=1).max() < 1.0


# -- regression ------------------------------------------------------------------------------------------


def regression_rows(n_targets, shift):
    rng = RNG(1)
    points, weights = rng.normal(size=(80, 3)) + shift, rng.uniform(0.2, 4, size=80)
    targets = points @ rng.normal(size=(3, n_targets)) + 2.0 + shift + rng.normal(size=(80, n_targets))
    return points, targets, weights


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_costs_optimum_and_magnitude_of_linear_models_are_sums_over_all_rows(intercept, n_targets, shift):
    points, targets, weights = regression_rows(n_targets, shift)
    construction = ready(Leverage(intercept=intercept, coreset_size=20, random_state=0).add(points, targets, weights))
    rng, problem = RNG(2), LeastSquares()
    old, new = (LinearModel(rng.normal(size=(n_targets, 3)), rng.normal(size=n_targets) * intercept) for _ in range(2))
    residuals = points @ old.coefficients.T + old.intercepts - targets
    squared = np.square(residuals).sum(axis=1)
    np.testing.assert_allclose(problem.cost(old, construction), weights @ squared, rtol=1e-7)
    losses, second = problem.losses(old, points, targets)
    np.testing.assert_allclose(losses, squared, rtol=1e-9)
    np.testing.assert_allclose(second, np.sqrt(squared), rtol=1e-9)
    design = np.column_stack([np.ones(80), points]) if intercept else points
    root = np.sqrt(weights)[:, None]
    solution = np.linalg.lstsq(design * root, targets * root, rcond=None)[0]
    optimum = float(weights @ np.square(design @ solution - targets).sum(axis=1))
    np.testing.assert_allclose(problem.optimum(construction, old), optimum, rtol=1e-6)
    moved = points @ (new.coefficients - old.coefficients).T + new.intercepts - old.intercepts
    expected = np.sqrt(weights @ np.square(moved).sum(axis=1) / weights.sum())
    np.testing.assert_allclose(problem.difference(old, new, construction)["magnitude"], expected, rtol=1e-7)


# -- low rank --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e120])
def test_costs_optimum_and_angles_of_subspaces_are_sums_over_all_rows(center, scale):
    rng = RNG(3)
    points = (rng.normal(size=(60, 5)) * [9, 6, 2, 1, 1] + [1, 2, 3, 4, 5]) * scale
    weights = rng.uniform(0.2, 4, size=60)
    construction = ready(
        RidgeLeverage(2, intercept=center, coreset_size=15, random_state=0).add(points, weights=weights)
    )
    problem = LowRank(2, center)
    old, new = (np.linalg.qr(rng.normal(size=(5, 2)))[0].T for _ in range(2))
    model = Subspace(old, scale * rng.normal(size=5) * center)

    def cost(components, mean):
        apart = (points - mean) / scale
        return float(weights @ np.square(apart - apart @ components.T @ components).sum(axis=1))

    expected = cost(old, model.mean)
    if scale < 1e100:
        np.testing.assert_allclose(problem.cost(model, construction) / scale**2, expected, rtol=1e-7)
        losses, second = problem.losses(model, points, np.empty((60, 0)))
        np.testing.assert_allclose(weights @ losses / scale**2, expected, rtol=1e-7)
        np.testing.assert_allclose(second, np.sqrt(losses), rtol=1e-9)
        mean = np.average(points, axis=0, weights=weights) * center
        right = np.linalg.svd((points - mean) * np.sqrt(weights)[:, None], full_matrices=False)[2][:2]
        np.testing.assert_allclose(problem.optimum(construction, model) / scale**2, cost(right, mean), rtol=1e-7)
    angle = problem.difference(model, Subspace(new, model.mean), construction)["angle"]
    np.testing.assert_allclose(angle, subspace_angles(old.T, new.T)[0], rtol=1e-7)


def test_the_optimum_of_rows_that_need_a_factor_is_in_the_units_of_the_rows():
    """One row a billion times the others: a plain Gram matrix would lose them."""
    rng = RNG(4)
    points = rng.normal(size=(40, 4))
    points[7] = [1e9, 1e9, 0.0, 0.0]
    construction = ready(RidgeLeverage(1, coreset_size=10**4, random_state=0).add(points))
    assert construction.sketch.moments.gram is None
    expected = np.square(np.linalg.svd(points, compute_uv=False)[1:]).sum()
    np.testing.assert_allclose(LowRank(1).lower_bound(construction), expected, rtol=1e-6)


# -- any estimator ---------------------------------------------------------------------------------------


def wrapped(loss="squared", **settings):
    return EstimatorProblem(LinearRegression(), loss_of(loss), seed=0, start=10, epsilon=0.1, **settings)


def fitted(points, targets, weights):
    model = LinearRegression().fit(points, targets[:, 0], sample_weight=weights)
    return FittedEstimator(model, Rows(points, targets, weights, np.arange(len(points))))


@pytest.mark.parametrize("keep_history", [False, True])
def test_costs_and_optimum_of_any_estimator_are_weighted_sums(keep_history, monkeypatch):
    monkeypatch.setattr(EstimatorProblem, "is_flexible", lambda *_: False)  # else the optimum is out of sample
    points, targets, weights = regression_rows(1, 0.0)
    settings = {"coreset_size": 30, "random_state": 0, "keep_history": keep_history}
    construction, problem = ready(Uniform(**settings).add(points, targets, weights)), wrapped()
    coreset = construction.coreset

    def cost(model, rows, values, own):
        return float(own @ np.square(model.predict(rows) - np.ravel(values)))

    best = fitted(points, targets, weights)
    expected = cost(best.model, coreset.points, coreset.targets, coreset.weights)
    np.testing.assert_allclose(problem.cost(best, construction), expected, rtol=1e-9)
    judged = (points, targets, weights) if keep_history else (coreset.points, coreset.targets, coreset.weights)
    fresh = problem.fit(construction, None).model
    both = [cost(each.model, *judged) for each in (best, fresh)]
    assert (both[0] < both[1]) == keep_history
    np.testing.assert_allclose(problem.optimum(construction, best), min(both), rtol=1e-9)
    losses = [np.square(each.model.predict(coreset.points) - np.ravel(coreset.targets)) for each in (best, fresh)]
    expected = np.average(np.abs(losses[1] - losses[0]), weights=coreset.weights)
    np.testing.assert_allclose(problem.difference(best, fresh, construction)["magnitude"], expected, rtol=1e-9)


def test_models_of_the_same_rows_with_other_weights_are_others():
    points, targets, weights = regression_rows(1, 0.0)
    problem, one = wrapped(), fitted(points, targets, weights)
    other = fitted(points, targets, weights[::-1].copy())
    assert problem.same(one, fitted(points, targets, weights))
    assert not problem.same(one, other)


class Probabilities:
    classes_ = np.array(["a", "b"])

    def predict_proba(self, points):
        return np.tile([0.25, 0.75], (len(points), 1))


def test_named_losses_by_hand():
    targets = np.array([[1.0, 2.0], [0.0, -2.0]])
    model = DummyRegressor(strategy="constant", constant=[1.0, 0.0]).fit(np.zeros((2, 1)), targets)
    for name, second in (("squared", 5.0), ("absolute", 5**0.5)):
        losses, _ = losses_of(LOSSES[name], model, np.zeros((2, 1)), targets)
        assert losses.tolist() == [{"squared": 4.0, "absolute": 2.0}[name], pytest.approx(second)]
    labels = np.array([["a"], ["b"], ["c"]])
    expected = [-np.log(0.25), -np.log(0.75), -np.log(1e-15)]
    losses, errors = losses_of(LOSSES["log"], Probabilities(), np.zeros((3, 1)), labels)
    np.testing.assert_allclose(losses, expected)
    assert errors.tolist() == [1.0, 0.0, 1.0]


def test_everything_is_its_own_coreset():
    points, targets, weights = regression_rows(1, 0.0)
    coreset = Everything(random_state=0).add(points, targets, weights).coreset()
    assert np.array_equal(coreset.points, points)
    assert np.array_equal(coreset.weights, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_centers_of_clusters_that_lie_apart_are_the_weighted_means_of_all_rows(weighted):
    points = np.repeat([[0.0, 0.0], [90.0, 0.0], [0.0, 70.0]], 200, axis=0) + RNG(7).normal(size=(600, 2))
    weights = RNG(8).uniform(0.2, 3, size=600) if weighted else np.ones(600)
    construction = ready(Clustering(3, coreset_size=30, random_state=0).add(points, weights=weights))
    assert len(construction.coreset) < 100
    found = ClusteringProblem(3, exact=True).fit(construction, None).model.points
    groups = [np.arange(600) // 200 == j for j in range(3)]
    expected = [np.average(points[own], axis=0, weights=weights[own]) for own in groups]
    np.testing.assert_allclose(found[np.argsort(found @ [1.0, 3.0])], expected, rtol=1e-9, atol=1e-9)
