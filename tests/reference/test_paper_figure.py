"""The paper's figure: its files, its numbers, and that both sides of it run on the same streams."""

import csv

import numpy as np
import pytest

from batch2online import OnlineRegression, evaluate, reference
from batch2online.evaluate.paper import EPSILONS, OURS, PAPER, WARMUP, Line, panels, paper_experiment
from batch2online.evaluate.result import Curve


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
    assert len(figure.table) == len(last) == 8 * 2
    for line in figure.table:
        point = last[line["data"], line["problem"], line["algorithm"], str(line["epsilon"])]
        assert {name: float(point[name]) for name in ("ratio", "regret", "changes")} == {
            name: line[name] for name in ("ratio", "regret", "changes")
        }


def test_the_paper_changes_at_every_row_and_we_do_not(figure):
    for line in figure.table:
        after_the_warm_up = 60 - WARMUP - 1  # that of the last row would be seen at the next
        assert line["changes"] == after_the_warm_up if line["algorithm"] == PAPER else line["changes"] < 5


def test_the_papers_line_is_the_reference_itself():
    panel = panels(80)[2]
    hindsight = panel.problem.loss.hindsight(panel.X, panel.y)
    stream = panel.stream(1, hindsight)
    curve = panel.problem.papers(stream, 0.1, seed=1)
    A = np.column_stack([np.ones(80), stream.X])
    _, losses = reference.online_regression(np.random.default_rng(1), A, stream.y, 0.1, m=120)
    assert curve.loss[-1] == pytest.approx(losses[WARMUP:].sum(), rel=1e-12)
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
    curves = tuple(
        Curve(OURS, seed, np.array([1, 2]), loss, np.ones(2), np.array([0, seed])) for seed, loss in enumerate(losses)
    )
    line = Line(panels(60)[0], OURS, 0.1, curves)
    mean, deviation = line.summary("ratio")
    assert mean.tolist() == [5.0, 6.0]
    assert deviation.tolist() == [pytest.approx(np.sqrt((9 + 1 + 16) / 2)), 0.0]
    assert [value.tolist() for value in line.summary("changes")] == [[0.0, 1.0], [0.0, 1.0]]
    alone = Line(line.panel, OURS, 0.1, curves[:1])
    assert alone.summary("ratio")[1].tolist() == [0.0, 0.0]


def test_a_coreset_holds_as_many_rows_as_parameters_over_epsilon():
    sizes = [panel.problem.size(0.1) for panel in panels(60)]
    assert sizes == [30, 50, 120, 50, 30, 50, 120, 50]  # clusters, columns of [1 | a | b], rank
    assert [panel.problem.size(0.04) for panel in panels(60)][:2] == [75, 125]


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
    for panel in panels(60)[:4]:
        stream = panel.stream(0, panel.problem.loss.hindsight(panel.X, panel.y))
        panel.problem.papers(stream, 0.1, 0)
    assert given["online_clustering"] == {"sizes": (100, 50)}
    assert given["online_regression"] == {"m": 120}
    assert given["online_low_rank"] == {"m": 50}


def test_our_line_is_our_estimator_on_a_coreset_of_that_size():
    panel = panels(120)[2]
    stream = panel.stream(1, panel.problem.loss.hindsight(panel.X, panel.y))
    curve = panel.problem.ours(stream, 0.2, 1)
    model = OnlineRegression(solve="coreset", epsilon=0.2, coreset_size=60, random_state=1)
    loss = 0.0
    for row, (x, y) in enumerate(zip(stream.X, stream.y, strict=True)):
        if row >= WARMUP:
            loss += float((model.predict(x[None])[0] - y) ** 2)
        model.partial_fit(x[None], y[None])
    assert curve.loss[-1] == pytest.approx(loss, rel=1e-12)


@pytest.mark.slow
def test_processes_change_nothing():
    one, two = (paper_experiment(55, [0], (0.1,), jobs=jobs) for jobs in (1, 2))
    assert [line.curves[0].loss[-1] for line in one] == [line.curves[0].loss[-1] for line in two]
