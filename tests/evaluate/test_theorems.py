"""The figures of the theorems: their numbers by hand, and their files."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from batch2online import OnlineRegression, coresets, evaluate, refresh, theory
from batch2online.paper import reference, theorem_plots, theorems
from batch2online.paper.records import averaged
from batch2online.paper.theorems import ChangesLine, RegretPanel, SensitivityPoint, TheoremProblem

PROBLEMS = [TheoremProblem("regression", 3), TheoremProblem("low rank", 5, 2), TheoremProblem("clustering", 2, 3)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_streams_are_random_orders_of_the_same_bounded_rows(problem):
    X, _ = problem.rows(200)
    first, second = (problem.stream(200, seed)[0] for seed in (0, 1))
    assert sorted(first.tolist()) == sorted(second.tolist()) == sorted(X.tolist())
    assert np.mean(np.all(first == second, axis=1)) < 0.1
    assert np.mean(np.all(first == X, axis=1)) < 0.1
    assert np.abs(X - np.median(X, axis=0)).max() < 20


def test_regret_is_loss_minus_that_of_the_best_model_of_the_same_rows():
    problem = TheoremProblem("regression", 3)
    records = RegretPanel(problem, (0.3, "exact")).measure(400, seed=1)
    X, y = problem.stream(400, 1)
    A = np.column_stack([np.ones(400), X])
    model = OnlineRegression(solve="coreset", epsilon=0.3, refresh=refresh.Geometric(1.1), random_state=1)
    start = 0
    for record in records[: len(records) // 2]:
        n = record["rows"]
        loss, start = model.partial_fit(X[start:n], y[start:n]).regret_.loss, n
        optimum = float(np.linalg.lstsq(A[:n], y[:n], rcond=None)[1][0])
        assert record["regret"] == pytest.approx(loss - optimum, abs=1e-6)
        assert record["approximate_regret"] == pytest.approx(loss - 1.3 * optimum, abs=1e-6)
        assert record["rate"] == pytest.approx(3 * math.log(n) * math.log(3 * n / 0.3) / 0.3**3)
    exact = records[-1]
    assert exact["epsilon"] == "exact"
    assert 0 < exact["regret"] == exact["approximate_regret"] < exact["bound"]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_bound_of_regret_is_the_promise_less_the_optimum_that_it_is_relative_to(problem):
    """Approximate regret is relative to 1 + epsilon times the optimum, the promise to its own factor."""
    records = RegretPanel(problem, (0.3, "auto")).measure(200, seed=1)
    X, y = problem.stream(200, 1)
    largest = max(problem.optima(X, y, [200])[0])
    for epsilon, factor, record in ((0.3, 1.3, records[1]), ("auto", 1.0, records[3])):
        model = problem.estimator(epsilon, refresh=refresh.Geometric(1.1), random_state=1)
        promise = theory.certificate(model.partial_fit(X, *(() if y is None else (y,))), largest)
        promised = promise.factor * record["optimum"] + promise.additive
        assert record["bound"] == pytest.approx(promised - factor * record["optimum"])


@pytest.mark.parametrize("problem", PROBLEMS[1:], ids=lambda problem: problem.name)
def test_no_model_is_better_than_the_optimum(problem):
    X, y = problem.stream(500, 0)
    for n, best in zip((200, 500), problem.optima(X, y, (200, 500)), strict=True):
        assert len(best) == n
        model = problem.estimator(0.1, random_state=0).fit(X[:n])
        loss = evaluate.LowRankLoss(problem.k) if problem.name == "low rank" else evaluate.ClusteringLoss(problem.z)
        answer = (model.components_,) if problem.name == "low rank" else model.cluster_centers_
        assert best.sum() <= loss.losses(answer, X[:n], None).sum() * (1 + 1e-3)  # centers are the best known


def test_changes_of_the_papers_algorithm_are_those_of_the_reference():
    problem = TheoremProblem("regression", 3)
    records = ChangesLine(problem, "transport", 200).measure(seed=2)
    X, y = problem.stream(200, 2)
    A = np.column_stack([np.ones(200), X])
    models = reference.online_regression(np.random.default_rng(2), A, y, 0.5, m=30, consistent=True).models
    for record in records:
        moved = [evaluate.changed(*models[t : t + 2]) for t in range(record["rows"] - 1)]
        assert record["changes"] == sum(moved)
        assert record["bound"] == pytest.approx(sum(min(1.0, 30 * 4 / t) for t in range(1, record["rows"])))
        assert record["changes"] <= record["bound"]


def test_the_papers_algorithms_are_given_the_size_of_the_figure(monkeypatch):
    given = {}
    for name in ("online_regression", "online_low_rank", "online_clustering"):
        run = lambda *_, name=name, **settings: given.update({name: settings}) or reference.OnlineRun([0.0] * 120, [])  # noqa: E731
        monkeypatch.setattr(reference, name, run)
    for problem in PROBLEMS:
        assert ChangesLine(problem, "transport", 120).measure(seed=0)[-1]["changes"] == 0
    assert given["online_regression"] == given["online_low_rank"] == {"m": 30, "consistent": True}
    assert given["online_clustering"] == {"sizes": (60, 30), "constant": 1, "consistent": True}


def test_changes_of_policies_are_below_their_bounds():
    for name in ("OnChange", "Geometric", "Adaptive"):
        for record in ChangesLine(TheoremProblem("regression", 3), name, 110).measure(seed=0):
            assert 0 < record["changes"] <= record["bound"]


@pytest.mark.parametrize("epsilon", [0.5, 0.8])
def test_a_point_of_sensitivity_is_that_of_the_coreset(epsilon):
    (record,) = SensitivityPoint("Leverage", 300, epsilon, trials=10).measure()
    X, y = TheoremProblem("regression", 3).rows(300)
    own = evaluate.average_sensitivity(
        coresets.Leverage(epsilon=epsilon, coreset_size=30), X, y, trials=10, random_state=300
    )
    assert (record["sensitivity"], record["low"], record["high"]) == (own.mean, own.low, own.high)
    assert record["bound"] == pytest.approx(30 / 300 * (1 + 2 + 1 / epsilon))


@pytest.mark.parametrize("name", ["problem", "d", "k", "z", "epsilon", "algorithm", "coreset", "rows"])
def test_other_settings_are_not_averaged(name):
    records = [{name: setting, "changes": value} for setting, value in ((1, 1.0), (2, 5.0), (1, 3.0))]
    assert [found["changes"] for found in averaged(records, ("changes",))] == [2.0, 5.0]


def test_slopes_are_those_of_the_last_decade():
    names = {"problem": "p", "d": 1, "k": 2, "z": 2.0, "epsilon": 0.1, "kept": 5, "regret_std": 0.0, "bound": 9.0}
    points = [
        {**names, "rows": n, "regret": math.sqrt(n), "approximate_regret": 10 - n / 100} for n in (100, 1000, 10_000)
    ]
    (found,) = theorems.slopes(points)
    assert found["slope"] == pytest.approx(0.5)
    assert found["per_fold"] == pytest.approx((100 - math.sqrt(1000)) / math.log(10))
    assert found["largest_approximate_regret"] == 9.0
    assert found["regret"] == 100


@pytest.fixture(scope="module")
def tables():
    """Tables of the right shape, with numbers that were not measured."""
    regret = [
        record | {"regret_std": 1.0, "approximate_regret_std": 1.0}
        for panel in theorems.regret_panels()
        for epsilon in panel.epsilons
        for record in (
            {**theorems._names(panel.problem), "epsilon": epsilon, "rows": n, "regret": n, "approximate_regret": -n}
            | {"optimum": 2.0 * n, "bound": 9.0 * n}
            for n in (100, 1000)
        )
    ]
    changes = [
        {"problem": line.problem.name, "algorithm": line.algorithm, "rows": n, "changes": n // 10, "bound": math.nan}
        | {"changes_std": 1.0}
        for line in theorems.changes_lines()
        for n in (100, 900)
    ]
    sensitivity = [
        {"coreset": p.coreset, "epsilon": p.epsilon, "rows": p.rows, "sensitivity": 0.1, "low": 0.0, "high": 0.2}
        | {"bound": 0.3}
        for p in theorems.sensitivity_points()
    ]
    return {"regret": regret, "changes": changes, "sensitivity": sensitivity}


@pytest.mark.slow
def test_pictures_and_tables_are_written(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(theorems, "measured", lambda **_: tables)
    found = evaluate.theorem_figures(tmp_path, quick=True)
    names = {path.name for path in found.files}
    assert names >= {"regret.csv", "changes.csv", "sensitivity.csv", "regret.svg", "regret.png", "regret_sweeps.svg"}
    assert all(path.stat().st_size > 500 for path in found.files)
    with (tmp_path / "regret.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(tables["regret"])


@pytest.mark.slow
def test_pictures_have_labelled_axes(tables):
    plt = theorem_plots.pyplot()
    for table, draw in theorem_plots.FIGURES.values():
        figure = draw(tables[table])
        assert figure.get_size_inches()[0] < 6  # readable on a telephone
        assert all(axes.get_xlabel() for axes in figure.axes[-1:])
        assert all(axes.get_title() or axes.get_ylabel() or axes.lines for axes in figure.axes)
        plt.close(figure)


@pytest.mark.slow
def test_processes_give_the_same_tables():
    one, two = (theorems.measured(("regret",), quick=True, rows=200, seeds=1, jobs=jobs)["regret"] for jobs in (1, 2))
    assert [record["regret"] for record in one] == [record["regret"] for record in two]
