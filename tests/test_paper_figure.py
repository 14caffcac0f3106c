"""The paper's figure: its files, its numbers, and that both sides of it run on the same streams."""

import csv

import numpy as np
import pytest

from batch2online import evaluate, reference
from batch2online.paper.experiment import EPSILONS, OURS, PAPER, WARMUP, panels, paper_experiment


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    return evaluate.paper_figure(tmp_path_factory.mktemp("figure"), rows=60, seeds=2, epsilons=(0.2,), jobs=1)


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


@pytest.mark.slow
def test_processes_change_nothing():
    one, two = (paper_experiment(55, [0], (0.1,), jobs=jobs) for jobs in (1, 2))
    assert [line.curves[0].loss[-1] for line in one] == [line.curves[0].loss[-1] for line in two]
