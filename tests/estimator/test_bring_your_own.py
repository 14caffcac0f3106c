"""Solvers, sensitivities, scores, losses, coresets, rivals and data sets of one's own; the examples of "Extend" run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import HuberRegressor

from batch2online import (
    BatchToOnline,
    OnlineClustering,
    baselines,
    coresets,
    datasets,
    evaluate,
    load,
    refresh,
    theory,
)
from batch2online.checks import check_estimator, check_sketch
from batch2online.extend import storable

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import lp_regression
import nmf
import own_coreset
import own_rival
import own_sensitivity
import own_solver

RNG = np.random.default_rng
ROWS = RNG(0).normal(size=(3_000, 2)) + 6 * RNG(1).integers(3, size=(3_000, 1))


# -- a solver ------------------------------------------------------------------------------------------


def first_points(points, weights, k, z, rng):
    return points[:k]


@storable
@dataclass(frozen=True)
class Farthest:
    """Points that are far from each other."""

    def __call__(self, points, weights, k, z, rng):
        chosen = points[:1]
        while len(chosen) < k:
            away = np.square(points[:, None] - chosen).sum(axis=2).min(axis=1)
            chosen = np.concatenate([chosen, points[[away.argmax()]]])
        return chosen


def test_the_example_of_a_solver():
    exact, scikit, rows = own_solver.run(4_000)
    assert np.sort(exact.cluster_centers_.ravel()) == pytest.approx([0, 4, 8, 12], abs=0.5)
    assert exact.regret_.ratio < 1.1
    assert scikit.regret_.ratio < 1.1
    promise = theory.certificate(exact, loss_bound=float(np.square(np.ptp(rows))))
    assert promise.gaps == ()
    assert promise.holds


def test_intervals_are_the_optimum_of_one_column():
    rng = RNG(3)
    points, weights = rng.normal(size=(12, 1)), rng.integers(1, 4, size=12).astype(float)
    found = own_solver.Intervals()(points, weights, 3, 2.0, rng)
    cost = weights @ np.square(points - found.T).min(axis=1)
    order = np.argsort(points[:, 0])
    least = min(
        sum(
            weights[part] @ np.square(points[part, 0] - np.average(points[part, 0], weights=weights[part]))
            for part in (order[:a], order[a:b], order[b:])
        )
        for a in range(1, 11)
        for b in range(a + 1, 12)
    )
    assert cost == pytest.approx(least)


def test_a_solver_is_given_the_coreset_and_a_seeded_generator():
    seen = []

    def spy(points, weights, k, z, rng):
        seen.append((points.copy(), weights.copy(), k, z, rng.integers(2**62)))
        return points[:k]

    settings = {"z": 1.0, "coreset_size": 100, "refresh": refresh.Geometric(3.0, start=1_000), "random_state": 7}
    models = [OnlineClustering(3, solver=spy, **settings).partial_fit(ROWS[:1_000]) for _ in range(2)]
    (points, weights, k, z, draw), (*_, again) = seen
    assert (k, z, draw) == (3, 1.0, again)
    np.testing.assert_array_equal(points, models[0].coreset_.points)
    np.testing.assert_array_equal(weights, models[0].coreset_.weights)
    assert sorted(map(tuple, models[0].cluster_centers_)) == sorted(map(tuple, points[:3]))


@pytest.mark.parametrize("solver", [own_solver.Intervals(), first_points, KMeans(n_init=1)])
def test_chunks_do_not_matter_with_a_solver(solver):
    settings = {"solver": solver, "coreset_size": 200, "refresh": refresh.Geometric(1.7), "random_state": 1}
    rows = ROWS[:, :1]
    whole, pieces = (OnlineClustering(3, **settings) for _ in range(2))
    whole.partial_fit(rows)
    for start in range(0, len(rows), 77):
        pieces.partial_fit(rows[start : start + 77])
    np.testing.assert_array_equal(whole.cluster_centers_, pieces.cluster_centers_)
    assert [event.at for event in whole.changes_] == [event.at for event in pieces.changes_]


def test_fewer_distinct_rows_than_clusters_never_reach_a_solver():
    def refuse(*given):
        raise AssertionError

    model = OnlineClustering(3, solver=refuse, random_state=0).partial_fit(np.repeat([[1.0], [2.0]], 50, axis=0))
    assert set(model.cluster_centers_.ravel()) == {1.0, 2.0}


def test_shards_of_equal_solvers_merge():
    one, other = (
        OnlineClustering(3, solver=KMeans(n_init=1), first_id=first, random_state=0).partial_fit(
            ROWS[first : first + 500]
        )
        for first in (0, 500)
    )
    assert one.merge(other).n_seen_ == 1_000


@pytest.mark.parametrize(
    ("solver", "error", "words"),
    [
        (3, TypeError, r"function \(points, weights, k, z, rng\)"),
        (DBSCAN(), TypeError, "n_clusters and fit.*which DBSCAN has not"),
        (lambda points, weights, k, z, rng: points[:1], ValueError, r"centers of shape \(3, 2\), got \(1, 2\)"),
        (lambda points, weights, k, z, rng: np.full((3, 2), np.nan), ValueError, "finite"),
    ],
)
def test_a_solver_that_cannot_be_used_is_refused(solver, error, words):
    with pytest.raises(error, match=words):
        OnlineClustering(3, solver=solver, random_state=0).partial_fit(ROWS)


def test_a_file_holds_a_storable_solver_and_refuses_a_function(tmp_path):
    model = OnlineClustering(3, solver=own_solver.Intervals(), random_state=0).partial_fit(ROWS[:500, :1])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").partial_fit(ROWS[500:, :1])
    np.testing.assert_array_equal(again.cluster_centers_, model.partial_fit(ROWS[500:, :1]).cluster_centers_)
    with pytest.raises((TypeError, ValueError), match="function"):
        OnlineClustering(3, solver=first_points, random_state=0).partial_fit(ROWS).save(tmp_path / "other")


def test_a_clustering_coreset_takes_the_parameters_of_every_coreset():
    class Wrapped(OnlineClustering):
        pass

    settings = Wrapped(3, random_state=0)._sampling()
    assert coresets.Clustering(3, **settings).keep_history
    with pytest.raises(ValueError, match="contradicts"):
        coresets.Clustering(3, history="coreset", **settings | {"keep_history": True})


# -- a sensitivity -------------------------------------------------------------------------------------


def test_the_example_of_a_sensitivity():
    model, rows = own_sensitivity.run(5_000)
    promise = theory.certificate(model, 2.0)
    assert promise.gaps == ()
    assert not promise.is_vacuous
    assert promise.holds
    assert promise.factor == pytest.approx(1.1), "all rows are kept: their cost is exact"
    estimate = own_sensitivity.measured(trials=100)
    assert estimate.low <= own_sensitivity.known(500)
    without = BatchToOnline(
        own_sensitivity.RoundedMean(), loss=own_sensitivity.squared, refresh=refresh.Geometric(1.2), random_state=0
    ).partial_fit(rows)
    assert theory.certificate(without, 2.0).is_vacuous


def test_the_certificate_is_that_of_the_bound_that_was_given():
    settings = {"loss": own_sensitivity.squared, "refresh": refresh.Geometric(1.5, start=50), "random_state": 0}
    for known in (lambda n: 0.0, lambda n: 30 / n, lambda n: 5.0):
        model = BatchToOnline(own_sensitivity.RoundedMean(), sensitivity=known, **settings).partial_fit(ROWS)
        promise = theory.certificate(model, 1.0)
        bounded = lambda n, known=known: min(1.0, known(n))  # noqa: E731
        if known(1) == 5.0:
            assert promise.gaps == ("no average sensitivity is proved for this coreset",)
        else:
            assert promise.additive == pytest.approx(theory.geometric_regret(bounded, len(ROWS), 50, 1.5))


@pytest.mark.parametrize("known", [0.1, lambda n: "much"])
def test_a_sensitivity_that_is_no_function_of_rows_is_refused(known):
    with pytest.raises(TypeError, match="sensitivity must be a function of a number of rows"):
        BatchToOnline(own_sensitivity.RoundedMean(), loss=own_sensitivity.squared, sensitivity=known).partial_fit(ROWS)


# -- a score -------------------------------------------------------------------------------------------


def share(points, weights, summary):
    return weights * np.abs(points).sum(axis=1) / summary


def total(points, weights):
    return weights @ np.abs(points).sum(axis=1)


def test_scores_that_are_sensitivities_have_the_general_bound():
    settings = {"summary": total, "coreset_size": 40, "epsilon": 0.5, "random_state": 0}
    plain = coresets.Sensitivity(share, total_score=2.0, **settings).add(ROWS)
    known = coresets.Sensitivity(share, largest_total=2.0, **settings).add(ROWS)
    both = coresets.Sensitivity(share, total_score=1.0, largest_total=2.0, **settings).add(ROWS)
    assert plain.sensitivity(10**6) == 1
    assert plain.coreset() == known.coreset()
    assert known.sensitivity(10**6) == pytest.approx(theory.general_sensitivity(10**6, 20.0, 2.0, 2.0, 0.5))
    assert both.sensitivity(10**6) == pytest.approx(theory.general_sensitivity(10**6, 40.0, 1.0, 2.0, 0.5))
    measured = evaluate.average_sensitivity(coresets.Sensitivity(share, largest_total=1.0, **settings), ROWS[:400])
    assert measured.low < coresets.Sensitivity(share, largest_total=1.0, **settings).add(ROWS).sensitivity(400)
    with pytest.raises(ValueError, match="largest_total must be a finite number above 0"):
        coresets.Sensitivity(share, summary=total, largest_total=0.0)
    with pytest.raises(ValueError, match="largest_total"):
        plain.copy().merge(known)


# -- a loss, a rival, a data set -----------------------------------------------------------------------


def test_the_example_of_a_rival():
    result = own_rival.run()
    assert set(result.models) == {"ours", "rival"}
    assert all(1 < run.ratio < 1.2 for run in result.rows)


def test_a_function_as_loss_has_the_hindsight_of_an_estimator():
    X, y = own_rival.kinked()
    best = HuberRegressor(alpha=0.0)
    loss = evaluate.Predictions(own_rival.huber, best=best)
    result = evaluate.prequential({"rival": own_rival.RecursiveLeastSquares}, X, y, loss=loss, seeds=1, chunk=100)
    expected = own_rival.huber(y, HuberRegressor(alpha=0.0).fit(X, y).predict(X)).sum()
    assert result.rows[0].optimum == pytest.approx(expected)
    assert not hasattr(best, "coef_"), "what was given is not fitted"
    unknown = evaluate.prequential(
        {"rival": own_rival.RecursiveLeastSquares}, X, y, loss=own_rival.huber, seeds=1, chunk=100
    )
    assert np.isnan(unknown.rows[0].ratio)


def entries(group):
    found = {
        "batch2online.peers": [("rls", "own_rival:PEER")],
        "batch2online.datasets.regression": [("kinked", "own_rival:kinked")],
    }
    return [EntryPoint(name, value, group) for name, value in found.get(group, [])]


def test_packages_add_rivals_and_data_sets(monkeypatch, tmp_path, capsys):
    from batch2online.app.cli.app import run_safely
    from batch2online.app.cli.commands import compare
    from batch2online.datasets import arrays

    monkeypatch.setattr(arrays, "entry_points", entries)
    monkeypatch.setattr(compare, "entry_points", entries)
    X, y = datasets.load_regression("kinked")
    np.testing.assert_array_equal(X, own_rival.kinked()[0])
    with pytest.raises(ValueError, match=r"diabetes.*kinked"):
        datasets.load_regression("kinky")
    with pytest.raises(ValueError, match="Unknown data set 'kinked' for rows"):
        datasets.load_rows("kinked")
    table = np.column_stack([X, y])[:300]
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,c,y", comments="")
    command = ["compare", str(tmp_path / "rows.csv"), "--task", "regression", "--target", "y", "--seeds", "1"]
    assert run_safely(command) == 0
    assert "recursive least squares" in capsys.readouterr().out
    assert "recursive least squares" not in {peer.name for peer in baselines.peers.PEERS}


# -- coresets and problems -----------------------------------------------------------------------------


def test_the_example_of_a_coreset_passes_the_checks():
    check_sketch(own_coreset.Lengths)
    rows = RNG(0).standard_t(4, size=(400, 3))
    settings = {"coreset_size": 20, "epsilon": 0.5}
    estimate = evaluate.average_sensitivity(own_coreset.Lengths(**settings), rows, trials=100)
    assert estimate.low < own_coreset.Lengths(**settings).add(rows).sensitivity(400) < 1
    with pytest.raises(TypeError, match="the class of a coreset or a function"):
        check_sketch(own_coreset.Lengths())


def test_the_example_of_factors():
    model, rows = nmf.run(3_000)
    every = nmf.WeightedNMF(nmf.PARTS, init="nndsvda", max_iter=500, tol=1e-3).fit(rows)
    assert nmf.loss_of(model, rows) < 1.3 * nmf.loss_of(every, rows)
    assert (model.components_ >= 0).all()
    assert model.n_changes_ < 12


@pytest.mark.parametrize("p", [1.0, 3.0])
def test_the_example_of_lp_regression(p):
    model, X, y = lp_regression.run(p, n=4_000)
    uniform = lp_regression.run(p, 4_000, coresets.Uniform(coreset_size=400))[0]
    loss, every = lp_regression.loss_for(p), lp_regression.LpRegressor(p).fit(X, y)
    ratios = [loss(each.model_, X, y).sum() / loss(every, X, y).sum() for each in (model, uniform)]
    assert 1 - 1e-4 < ratios[0] < 1.05
    assert ratios[0] < ratios[1] or p == 1
    assert model.regret_.ratio < 1.3


def test_the_solver_of_lp_regression_finds_the_optimum():
    """The gradient of the loss vanishes for p = 1.5 and 3; for p = 1 the median of one column is found."""
    rng = RNG(0)
    X, y = rng.normal(size=(200, 2)), rng.standard_t(3, size=200)
    for p in (1.5, 3.0):
        residuals = y - lp_regression.LpRegressor(p, max_iter=1_000).fit(X, y).predict(X)
        slope = np.sign(residuals) * np.abs(residuals) ** (p - 1)
        assert np.abs(np.column_stack([np.ones(200), X]).T @ slope).max() < 1e-2 * np.abs(slope).sum()
    found = lp_regression.LpRegressor(1.0, max_iter=1_000).fit(np.zeros((201, 1)), np.arange(201.0))
    assert found.intercept_ == pytest.approx(100, abs=0.5)


def test_weights_of_factors_count_rows():
    rows, counts = nmf.rows_of(60), RNG(0).integers(1, 4, size=60)
    settings = {"n_components": 2, "init": "nndsvda", "max_iter": 2_000, "tol": 1e-6}
    weighted = nmf.WeightedNMF(**settings).fit(rows, sample_weight=counts)
    repeated = nmf.WeightedNMF(**settings).fit(np.repeat(rows, counts, axis=0))
    every = np.repeat(rows, counts, axis=0)
    assert nmf.loss_of(weighted, every) == pytest.approx(nmf.loss_of(repeated, every), rel=1e-2)


def test_a_model_that_cannot_be_compared_says_what_is_read():
    class Silent(BaseEstimator):
        def fit(self, X):
            return self

    with pytest.raises(TypeError, match="Silent has none of cluster_centers_, components_, coef_, predict"):
        evaluate.average_sensitivity(Silent(), ROWS[:20], trials=1)
    assert evaluate.average_sensitivity(TruncatedSVD(1), ROWS[:20], trials=2).mean == 1


def test_the_solver_passes_the_checks_of_every_estimator():
    check_estimator(OnlineClustering(3, solver=Farthest()))
