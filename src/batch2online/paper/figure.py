"""The experiment of the paper's section 9: k-means with 3 and 5 clusters and regression, and low rank beside them.

Three accuracies, several seeds, the paper's algorithms (``reference``, errata repaired) and this package's estimators,
on the same streams against the same hindsight. A coreset has the size of the theory's form,
``p ln(p n / epsilon) / epsilon^2`` with p the clusters, columns or rank, times a hundredth: with it three accuracies
give three sizes on streams that the paper's algorithms can run through. Both are fitted whenever the rows have grown by
a tenth: at every row, the paper's algorithms take quadratic time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from batch2online import datasets, theory
from batch2online._types import FloatArray, IntArray
from batch2online.evaluate.loop import Arrivals, fed
from batch2online.evaluate.prequential import run_all
from batch2online.evaluate.result import COLOURS, Curve, draw_curve, pyplot
from batch2online.paper.problems import PaperProblem
from batch2online.paper.records import Record, averaged, column, lines_of, write_csv
from batch2online.refresh import Geometric

EPSILONS = (0.1, 0.01, 0.001)
OURS, PAPER = "batch2online", "the paper's algorithms"
WARMUP = 50
"""Rows at the start that are learned but not scored: with next to no data every algorithm guesses."""
GROWTH = 1.1
"""Models are fitted whenever the rows have grown by this factor."""
QUICK_ROWS, FULL_ROWS = 10_000, 100_000

_RANK = 5


@dataclass(frozen=True)
class Panel:
    """One problem on one set of rows, for our estimator and the paper's algorithm on coresets of the same size."""

    data: str
    problem: PaperProblem
    X: FloatArray
    y: FloatArray | None = None

    def stream(self, seed: int, hindsight: FloatArray) -> Arrivals:
        order = np.random.default_rng(seed).permutation(len(self.X))
        targets = None if self.y is None else self.y[order]
        return Arrivals(self.X[order], targets, hindsight[order], chunk=1, warmup=WARMUP)

    def ours(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        """Losses as the estimator counts them, which do not depend on chunks."""
        size = self.problem.size(epsilon, len(stream.X))
        settings = {"epsilon": epsilon, "coreset_size": size, "refresh": Geometric(GROWTH), "random_state": seed}
        model = self.problem.online(solve="coreset", **settings)
        ends = np.append(stream.warmup, points(len(stream.X)))
        after = [(now.regret_.loss, now.n_changes_) for now in fed(model, stream.X, stream.y, ends)]
        loss, changes = (np.array(values) - values[0] for values in zip(*after, strict=True))
        best = np.cumsum(stream.hindsight)[ends - 1]
        return Curve(OURS, seed, ends[1:], loss[1:], best[1:] - best[0], changes[1:])

    def papers(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        """Rows under the model that was last solved on all rows before them; every model is a change."""
        n, problem = len(stream.X), self.problem
        fits = [*theory.refresh_times(n, stream.warmup, GROWTH)]
        rng, steps = np.random.default_rng(seed), [at + 1 for at in fits]
        models = problem.papers_models(rng, stream.X, stream.y, epsilon, problem.size(epsilon, n), steps=steps)
        losses, changes = np.zeros(n), np.zeros(n, dtype=np.int64)
        for number, (model, rows) in enumerate(zip(models, starmap(slice, pairwise([*fits, n])), strict=True)):
            X, y = stream.X[rows], None if stream.y is None else stream.y[rows]
            losses[rows], changes[rows] = problem.loss.losses(problem.answer(model, X), X, y), number
        at = points(n)
        loss, best = (
            np.cumsum(values[stream.warmup :])[at - stream.warmup - 1] for values in (losses, stream.hindsight)
        )
        return Curve(PAPER, seed, at, loss, best, changes[at - 1])

    def measure(self, hindsight: FloatArray, algorithm: str, epsilon: float, seed: int) -> list[Record]:
        """Return the points of one curve."""
        run, n = self.ours if algorithm == OURS else self.papers, len(self.X)
        curve = run(self.stream(seed, hindsight), epsilon, seed)
        names = {"data": self.data, "problem": self.problem.title, "algorithm": algorithm, "epsilon": epsilon}
        values = (values.tolist() for values in (curve.at, curve.ratio, curve.regret, curve.changes))
        size = min(n, self.problem.size(epsilon, n))
        return [
            {**names, "rows": at, "ratio": ratio, "regret": regret, "changes": changes, "size": size}
            for at, ratio, regret, changes in zip(*values, strict=True)
        ]


def points(n: int) -> IntArray:
    """Return the row counts of a curve: fifty after the warm-up, evenly spread by logarithm."""
    return np.unique(np.geomspace(WARMUP + 1, n, 50).round().astype(np.int64))


def panels(rows: int, real: bool = True) -> list[Panel]:
    """Synthetic and real rows, up to this many, for each problem."""
    synthetic = _panels(("synthetic",) * 3, synthetic_blobs(rows), synthetic_linear(rows), synthetic_spiked(rows))
    return synthetic + (real_panels(rows) if real else [])


def real_panels(rows: int) -> list[Panel]:
    """Return the pixels of a picture, wages and letters; some of their rows if there are more."""
    pixels, letters = (datasets.load_rows(name) for name in ("china_pixels", "letter"))
    X, y = datasets.load_regression("cps1988")
    some = {len(data): np.random.default_rng(0).permutation(len(data))[:rows] for data in (pixels, letters, X)}
    linear = X[some[len(X)]], y[some[len(X)]]
    return _panels(("pixels", "wages", "letters"), pixels[some[len(pixels)]], linear, letters[some[len(letters)]])


def _panels(
    names: tuple[str, ...], clusters: FloatArray, linear: tuple[FloatArray, FloatArray], spiked: FloatArray
) -> list[Panel]:
    """Return the panels of rows for k-means, regression and low rank."""
    of_clusters, of_linear, of_spiked = names
    return [
        *(Panel(of_clusters, PaperProblem("clustering", clusters.shape[1], k), clusters) for k in (3, 5)),
        Panel(of_linear, PaperProblem("regression", linear[0].shape[1]), *linear),
        Panel(of_spiked, PaperProblem("low rank", spiked.shape[1], _RANK), spiked),
    ]


def synthetic_blobs(n: int, seed: int = 0) -> FloatArray:
    """Return a mixture of five Gaussians in the plane, of unequal weight and overlapping."""
    rng = np.random.default_rng(seed)
    centers = 4.0 * rng.normal(size=(5, 2))
    return np.asarray(centers[rng.choice(5, size=n, p=[0.35, 0.25, 0.2, 0.15, 0.05])] + rng.normal(size=(n, 2)))


def synthetic_linear(n: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Three Gaussian columns, a linear target with noise as large as the signal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.asarray(X @ rng.normal(size=3) + np.sqrt(3) * rng.normal(size=n))


def synthetic_spiked(n: int, seed: int = 0) -> FloatArray:
    """Forty columns: five directions of variance 9 to 1 in a random basis, and noise of variance 0.25."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(40, _RANK)))[0]
    return np.asarray((rng.normal(size=(n, _RANK)) * np.linspace(3, 1, _RANK)) @ basis.T + rng.normal(size=(n, 40)) / 2)


def paper_experiment(
    rows: int,
    seeds: Iterable[int],
    epsilons: Iterable[float] = EPSILONS,
    jobs: int = 1,
    progress: bool = False,
    real: bool = True,
) -> list[Record]:
    """Return the points of all lines of the figure, means over seeds; the runs are spread over processes."""
    seeds, tasks = list(seeds), []
    for panel in panels(rows, real):
        with threadpool_limits(1):
            hindsight = panel.problem.loss.hindsight(panel.X, panel.y)
        tasks += [
            partial(panel.measure, hindsight, name, epsilon, seed)
            for epsilon in epsilons
            for name in (OURS, PAPER)
            for seed in seeds
        ]
    found = run_all(tasks, jobs, "paper figure" if progress else None)
    return averaged((record for records in found for record in records), ("ratio", "regret", "changes"))


@dataclass(frozen=True)
class PaperFigure:
    """The files written, and the last point of each line as a table."""

    png: Path
    svg: Path
    csv: Path
    table: list[Record]


def paper_figure(
    folder: str | Path = ".",
    *,
    quick: bool = True,
    rows: int | None = None,
    seeds: int | Iterable[int] = 5,
    epsilons: Sequence[float] = EPSILONS,
    jobs: int = -1,
    progress: bool = False,
) -> PaperFigure:
    """Run the paper's experiment and draw it; needs matplotlib.

    Loss relative to the best model in hindsight (k-means++ with restarts on all rows; least squares; singular
    vectors) and regret, for three accuracies, with the paper's algorithms and with ours. Means over seeds, one
    standard deviation shaded.

    Parameters
    ----------
    folder : path
        Where ``paper_figure.png``, ``.svg`` and ``.csv`` are written.
    quick : bool
        Synthetic streams of 10,000 rows, in a minute; otherwise real data as well, and up to 100,000 rows.
    rows : int or None
        Another number of rows.
    seeds : int or iterable of int
        How many streams, or their seeds.
    epsilons : sequence of float
        Accuracies.
    jobs : int
        Processes; -1 is one for each core.
    progress : bool
        Show a bar on standard error.
    """
    pyplot()  # fail before the work if it cannot be drawn
    count = rows or (QUICK_ROWS if quick else FULL_ROWS)
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    records = paper_experiment(count, chosen, epsilons, jobs, progress, real=not quick)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, table = (folder / f"paper_figure.{suffix}" for suffix in ("png", "svg", "csv"))
    _draw(records, [png, svg])
    write_csv(table, records)
    return PaperFigure(png, svg, table, last_points(records))


def last_points(records: list[Record]) -> list[Record]:
    """Return the end of each line."""
    return [line[-1] for _, line in lines_of(records, "data", "problem", "epsilon", "algorithm")]


# -- the picture -----------------------------------------------------------------------------------------

_WIDTHS = (1.2, 2.2, 3.4)
_DASHES: dict[str, Any] = {OURS: "-", PAPER: (0, (4, 2))}


def _draw(records: list[Record], files: list[Path]) -> None:
    """Draw a line of panels for each problem: ratio and regret on synthetic rows, and on real ones."""
    plt = pyplot()
    problems = list(lines_of(records, "problem"))
    pairs = len({record["data"] != "synthetic" for record in records})
    styles = _styles(records)
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "b2o"}):
        size = (5.6 * pairs, 2.0 * len(problems) + 0.7)
        figure, axes = plt.subplots(len(problems), 2 * pairs, figsize=size, layout="constrained")
        for row, ((title,), of_problem) in zip(axes, problems, strict=True):
            for number, ((data,), own) in enumerate(lines_of(of_problem, "data")):
                _ratios(row[2 * number], own, styles, f"{title}, {data}")
                _regrets(row[2 * number + 1], own, styles)
        for each in axes[-1]:
            each.set_xlabel("rows n")
        handles = [plt.Line2D([], [], label=rf"$\epsilon = {epsilon:g}$", **style) for epsilon, style in styles.items()]
        handles += [plt.Line2D([], [], color="0.3", linestyle=dashes, label=name) for name, dashes in _DASHES.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3 * pairs, frameon=False)
        for file in files:
            figure.savefig(file, dpi=160)
        plt.close(figure)


def _styles(records: list[Record]) -> dict[float, dict[str, Any]]:
    """Return a colour for each accuracy; the finer, the wider, so that lines that coincide can be seen."""
    epsilons = dict.fromkeys(record["epsilon"] for record in records)
    styles = [{"color": colour, "linewidth": width} for colour, width in zip(COLOURS, _WIDTHS * 3, strict=False)]
    return dict(zip(epsilons, styles, strict=False))


def _ratios(axes: Any, own: list[Record], styles: dict[float, dict[str, Any]], title: str) -> None:
    ends = _curves(axes, own, "ratio", styles, title)
    axes.axhline(1.0, color="0.4", linewidth=0.8, zorder=0)
    axes.set(xscale="log", ylim=(0.95, 1 + 3 * max(0.05, max(ends) - 1)), ylabel="loss / hindsight")


def _regrets(axes: Any, own: list[Record], styles: dict[float, dict[str, Any]]) -> None:
    _curves(axes, own, "regret", styles, "regret")
    largest = max(record["regret"] for record in own)
    axes.set(xscale="log", yscale="log", ylim=(largest / 1000, 2 * largest))


def _curves(
    axes: Any, own: list[Record], quantity: str, styles: dict[float, dict[str, Any]], title: str
) -> list[float]:
    """Draw the lines of a panel and return where they end."""
    lines = list(lines_of(own, "epsilon", "algorithm"))
    for (epsilon, algorithm), line in reversed(lines):
        values = (column(line, name) for name in ("rows", quantity, f"{quantity}_std"))
        draw_curve(axes, *values, linestyle=_DASHES[algorithm], **styles[epsilon])
    axes.set_title(title, fontsize=9)
    axes.margins(x=0)
    return [line[-1][quantity] for _, line in lines]
