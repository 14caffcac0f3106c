"""The paper's figure: its files, its numbers, and that both sides of it run on the same streams."""

import csv

import numpy as np
import pytest

from batch2online import OnlineRegression, evaluate, refresh, theory
from batch2online.paper import figure as paper
from batch2online.paper import reference
from batch2online.paper.figure import EPSILONS, GROWTH, OURS, PAPER, WARMUP, Panel, panels, paper_experiment
from batch2online.paper.problems import CONSTANT
from batch2online.paper.records import averaged


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    return evaluate.paper_figure(tmp_path_factory.mktemp("figure"), rows=60, seeds=1, epsilons=(0.2,), jobs=1)


@pytest.mark.slow
def test_the_files_are_what_they_are_called(figure):
    assert figure.png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in figure.svg.read_text()[:1000]
    with figure.csv.open() as file:
        points = list(csv.DictReader(file))
    assert {point["algorithm"] for point in points} == {OURS, PAPER}
    assert all(np.isfinite(float(point["ratio"])) for point in points)


def test_the_table_is_the_end_of_each_curve(figure):
    with figure.csv.open() as file:
        last = {tuple(point.values())[:4]: point for point in csv.DictReader(file)}
    assert len(figure.table) == len(last) == 4 * 2
    for line in figure.table:
        point = last[line["data"], line["problem"], line["algorithm"], str(line["epsilon"])]
        assert {name: float(point[name]) for name in ("ratio", "regret", "changes")} == {
            name: line[name] for name in ("ratio", "regret", "changes")
        }


def test_both_are_fitted_whenever_rows_have_grown_by_a_tenth(figure):
    fits = len(list(theory.refresh_times(60, WARMUP, GROWTH)))
    for line in figure.table:
        assert line["changes"] == fits - 1 if line["algorithm"] == PAPER else line["changes"] <= fits


def test_the_papers_line_is_the_reference_itself():
    panel = panels(80, real=False)[2]
    hindsight = panel.problem.loss.hindsight(panel.X, panel.y)
    stream = panel.stream(1, hindsight)
    curve = panel.papers(stream, 0.1, seed=1)
    A = np.column_stack([np.ones(80), stream.X])
    fits = [50, 56, 62, 69, 76]
    size = panel.problem.size(0.1, 80)
    models, _ = reference.online_regression(
        np.random.default_rng(1), A, stream.y, 0.1, m=size, steps=[at + 1 for at in fits]
    )
    loss = 0.0
    for model, start, stop in zip(models, fits, [*fits[1:], 80], strict=True):
        loss += np.square(A[start:stop] @ model - stream.y[start:stop]).sum()
    assert curve.loss[-1] == pytest.approx(loss, rel=1e-12)
    assert curve.optimum[-1] == pytest.approx(stream.hindsight[WARMUP:].sum(), rel=1e-12)


def test_the_accuracies_are_those_of_the_paper_and_the_panels_its_problems():
    assert EPSILONS == (0.1, 0.01, 0.001)
    titles = {panel.problem.title for panel in panels(60)}
    assert titles >= {"k-means, 3 clusters", "k-means, 5 clusters", "Regression"}


@pytest.mark.parametrize("number", range(8))
def test_streams_are_random_orders_of_the_panels_rows(number):
    panel = panels(80)[number]
    hindsight = panel.problem.loss.hindsight(panel.X, panel.y)
    targets = np.zeros(80) if panel.y is None else panel.y
    given = np.column_stack([panel.X, targets, hindsight])
    orders = []
    for seed in (0, 1):
        stream = panel.stream(seed, hindsight)
        own = np.column_stack([stream.X, np.zeros(80) if stream.y is None else stream.y, stream.hindsight])
        assert (stream.chunk, stream.warmup) == (1, WARMUP)
        assert sorted(own.tolist()) == sorted(given.tolist())  # rows, targets and losses in hindsight move together
        orders.append(own)
    assert all(np.mean(np.all(order == given, axis=1)) < 0.2 for order in orders)
    assert np.mean(np.all(orders[0] == orders[1], axis=1)) < 0.2


def test_the_spread_over_seeds_is_the_standard_deviation_of_a_sample():
    losses = np.array([[2.0, 6.0], [4.0, 6.0], [9.0, 6.0]])
    points = [
        {"problem": "p", "rows": rows, "ratio": loss, "changes": number * seed}
        for seed, own in enumerate(losses)
        for number, (rows, loss) in enumerate(zip((7, 9), own, strict=True))
    ]
    first, last = averaged(points, ("ratio", "changes"))
    assert [first[name] for name in ("rows", "ratio", "changes", "changes_std")] == [7, 5.0, 0.0, 0.0]
    assert [last[name] for name in ("rows", "ratio", "ratio_std", "changes")] == [9, 6.0, 0.0, 1.0]
    assert first["ratio_std"] == pytest.approx(np.sqrt((9 + 1 + 16) / 2))
    assert averaged(points[:1], ("ratio",))[0]["ratio_std"] == 0.0


def test_a_line_is_the_mean_of_the_curves_of_its_own_seeds(monkeypatch):
    def measure(panel, _, algorithm, epsilon, seed):
        names = {"data": panel.data, "problem": panel.problem.title, "algorithm": algorithm, "epsilon": epsilon}
        return [names | {"rows": 60, "ratio": seed + epsilon, "regret": len(algorithm), "changes": panel.problem.k}]

    monkeypatch.setattr(Panel, "measure", measure)
    lines = paper_experiment(60, [3, 4], (0.1, 0.2), real=False)
    assert len(lines) == 4 * 2 * 2
    for line in lines:
        assert line["ratio"] == pytest.approx(3.5 + line["epsilon"])
        assert line["regret"] == len(line["algorithm"])
        assert line["seeds"] == 2
    assert [line["changes"] for line in lines[::4]] == [3, 5, 0, 5]


def test_synthetic_rows_have_the_variances_they_are_said_to_have():
    n = 20_000
    spectrum = np.linalg.eigvalsh(np.cov(paper.synthetic_spiked(n).T))[::-1]
    assert spectrum[:5] == pytest.approx(np.linspace(3, 1, 5) ** 2 + 0.25, rel=0.05)
    assert spectrum[5:] == pytest.approx(np.full(35, 0.25), rel=0.15)
    X, y = paper.synthetic_linear(n)
    assert np.linalg.lstsq(X, y, rcond=None)[1][0] / n == pytest.approx(3.0, rel=0.05)


def test_sizes_have_the_form_of_the_theory_and_accuracies_differ():
    problems = [panel.problem for panel in panels(60)]
    parameters = [3, 5, 5, 5, 3, 5, 11, 5]  # clusters, [1 | a | b], rank
    for p, problem in zip(parameters, problems, strict=True):
        assert problem.size(0.1, 20_000) == np.ceil(CONSTANT * np.ceil(p * np.log(p * 20_000 / 0.1) / 0.1**2))
    for p, problem in zip(parameters[:4], problems, strict=False):
        coarse, fine, finest = (min(problem.size(epsilon, 20_000), 20_000) for epsilon in EPSILONS)
        assert p < coarse < fine / 10 < 2_000
        assert fine < 10_000 < finest


def test_the_papers_algorithms_are_given_that_size(monkeypatch):
    """The paper's coresets of clustering have two sizes, of the seeds and of the sample."""
    given = {}

    def remember(name):
        original = getattr(reference, name)

        def wrapped(*arguments, **settings):
            given[name] = settings
            return original(*arguments, **settings)

        monkeypatch.setattr(reference, name, wrapped)

    for name in ("online_clustering", "online_regression", "online_low_rank"):
        remember(name)
    for panel in panels(60, real=False):
        stream = panel.stream(0, panel.problem.loss.hindsight(panel.X, panel.y))
        panel.papers(stream, 0.1, 0)
    steps = [51, 57]
    size = panels(60, real=False)[1].problem.size(0.1, 60)
    assert given["online_clustering"] == {"sizes": (2 * size, size), "steps": steps}
    assert given["online_regression"] == {"m": size, "steps": steps}
    assert given["online_low_rank"] == {"m": size, "steps": steps}


def test_our_line_is_our_estimator_on_a_coreset_of_that_size():
    panel = panels(120, real=False)[2]
    stream = panel.stream(1, panel.problem.loss.hindsight(panel.X, panel.y))
    curve = panel.ours(stream, 0.2, 1)
    size = panel.problem.size(0.2, 120)
    settings = {"coreset_size": size, "refresh": refresh.Geometric(GROWTH), "random_state": 1}
    model = OnlineRegression(solve="coreset", epsilon=0.2, **settings)
    loss = 0.0
    for row, (x, y) in enumerate(zip(stream.X, stream.y, strict=True)):
        if row >= WARMUP:
            loss += float((model.predict(x[None])[0] - y) ** 2)
        model.partial_fit(x[None], y[None])
    assert curve.loss[-1] == pytest.approx(loss, rel=1e-9)
    assert curve.optimum[-1] == pytest.approx(stream.hindsight[WARMUP:].sum(), rel=1e-12)


@pytest.mark.slow
def test_processes_change_nothing():
    one, two = (paper_experiment(55, [0], (0.1,), jobs=jobs, real=False) for jobs in (1, 2))
    assert one == two
