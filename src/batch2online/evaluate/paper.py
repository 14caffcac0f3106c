"""The experiment of the paper's section 9: k-means with 3 and 5 clusters and regression, and low rank beside them.

Three accuracies, several seeds, the paper's algorithms (``reference``, errata repaired) and this package's estimators,
on the same streams against the same hindsight. A coreset holds ``p / epsilon`` rows, p the clusters, columns or rank:
the constants of the theory would keep every row of streams that the paper's quadratic algorithms can run through.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from batch2online import datasets, reference
from batch2online._types import FloatArray
from batch2online.evaluate.loop import Arrivals, curve_of, run
from batch2online.evaluate.losses import ClusteringLoss, Loss, LowRankLoss, Squared, changed
from batch2online.evaluate.prequential import ProgressBar
from batch2online.evaluate.result import COLOURS, Curve, draw_curve, pyplot
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.low_rank.estimator import OnlineLowRank

EPSILONS = (0.1, 0.01, 0.001)
OURS, PAPER = "batch2online", "the paper's algorithms"
WARMUP = 50
"""Rows at the start that are learned but not scored: with next to no data every algorithm guesses."""

_RANK = 5


@dataclass(frozen=True)
class PaperProblem:
    """One column of the figure: a loss, this package's estimator, and the paper's algorithm.

    Both are solved on coresets of the same size, so that both depend on epsilon.
    """

    title: str
    loss: Loss
    parameters: int
    estimator: Callable[..., Any]
    algorithm: Callable[..., reference.OnlineRun]

    def size(self, epsilon: float) -> int:
        return math.ceil(self.parameters / epsilon)

    def ours(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        size = self.size(epsilon)
        model = self.estimator(solve="coreset", epsilon=epsilon, coreset_size=size, random_state=seed)
        return run(OURS, seed, model, self.loss, stream)[1]

    def papers(self, stream: Arrivals, epsilon: float, seed: int) -> Curve:
        """Each row under the model solved on all rows before it.

        A change is a model unlike the one before; as for ours, those that come after the warm-up are counted.
        """
        models, losses = self.algorithm(np.random.default_rng(seed), stream.X, stream.y, epsilon, self.size(epsilon))
        moves = np.array([False, False, *(changed(old, new) for old, new in pairwise(models[1:]))])
        moves[: stream.warmup + 1] = False
        return curve_of(PAPER, seed, stream, losses, np.cumsum(moves))


def k_means(k: int) -> PaperProblem:
    def estimator(**settings: Any) -> Any:
        return OnlineClustering(k, **settings)

    def algorithm(rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int) -> reference.OnlineRun:
        return reference.online_clustering(rng, X, k, epsilon, sizes=(2 * size, size))

    return PaperProblem(f"k-means, {k} clusters", ClusteringLoss(n_clusters=k), k, estimator, algorithm)


def regression(columns: int) -> PaperProblem:
    def algorithm(rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int) -> reference.OnlineRun:
        return reference.online_regression(rng, np.column_stack([np.ones(len(X)), X]), y, epsilon, m=size)

    return PaperProblem("Regression", Squared(), columns + 2, OnlineRegression, algorithm)


def low_rank(k: int = _RANK) -> PaperProblem:
    def estimator(**settings: Any) -> Any:
        return OnlineLowRank(k, **settings)

    def algorithm(rng: np.random.Generator, X: FloatArray, y: Any, epsilon: float, size: int) -> reference.OnlineRun:
        return reference.online_low_rank(rng, X, k, epsilon, m=size)

    return PaperProblem(f"Low rank, {k} components", LowRankLoss(k), k, estimator, algorithm)


@dataclass(frozen=True)
class Panel:
    """One problem on one set of rows."""

    data: str
    problem: PaperProblem
    X: FloatArray
    y: FloatArray | None

    def stream(self, seed: int, hindsight: FloatArray) -> Arrivals:
        order = np.random.default_rng(seed).permutation(len(self.X))
        targets = None if self.y is None else self.y[order]
        return Arrivals(self.X[order], targets, hindsight[order], chunk=1, warmup=WARMUP)


def panels(rows: int) -> list[Panel]:
    """Synthetic and real rows, up to this many, for each problem."""
    digits, (diabetes, targets) = datasets.load_rows("digits")[:rows], datasets.load_regression("diabetes")
    blobs, linear, spiked = synthetic_blobs(rows), synthetic_linear(rows), synthetic_spiked(rows)
    return [
        Panel("synthetic", k_means(3), blobs, None),
        Panel("synthetic", k_means(5), blobs, None),
        Panel("synthetic", regression(linear[0].shape[1]), *linear),
        Panel("synthetic", low_rank(), spiked, None),
        Panel("digits", k_means(3), digits, None),
        Panel("digits", k_means(5), digits, None),
        Panel("diabetes", regression(diabetes.shape[1]), diabetes[:rows], targets[:rows]),
        Panel("digits", low_rank(), digits, None),
    ]


def synthetic_blobs(n: int, seed: int = 0) -> FloatArray:
    """Return a mixture of five Gaussians in the plane, of unequal weight and overlapping."""
    rng = np.random.default_rng(seed)
    centers = 4.0 * rng.normal(size=(5, 2))
    return np.asarray(centers[rng.choice(5, size=n, p=[0.35, 0.25, 0.2, 0.15, 0.05])] + rng.normal(size=(n, 2)))


def synthetic_linear(n: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Ten Gaussian columns, a linear target with noise as large as the signal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    return X, np.asarray(X @ rng.normal(size=10) + np.sqrt(10) * rng.normal(size=n))


def synthetic_spiked(n: int, seed: int = 0) -> FloatArray:
    """Forty columns: five directions of variance 9 to 1 in a random basis, and noise of variance 0.25."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(40, _RANK)))[0]
    return np.asarray((rng.normal(size=(n, _RANK)) * np.linspace(3, 1, _RANK)) @ basis.T + rng.normal(size=(n, 40)) / 2)


@dataclass(frozen=True)
class Line:
    """A line of a panel: one algorithm at one accuracy, a curve for each seed."""

    panel: Panel
    algorithm: str
    epsilon: float
    curves: tuple[Curve, ...]

    def summary(self, quantity: str) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation over seeds."""
        values = np.array([getattr(curve, quantity) for curve in self.curves], dtype=np.float64)
        return values.mean(axis=0), values.std(axis=0, ddof=1 if len(values) > 1 else 0)


def paper_experiment(
    rows: int, seeds: Iterable[int], epsilons: Iterable[float] = EPSILONS, jobs: int = 1, progress: bool = False
) -> list[Line]:
    """All lines of the figure; the runs are spread over processes."""
    seeds, lines = list(seeds), []
    for panel in panels(rows):
        with threadpool_limits(1):
            hindsight = panel.problem.loss.hindsight(panel.X, panel.y)
        lines += [(panel, hindsight, name, epsilon) for epsilon in epsilons for name in (OURS, PAPER)]
    tasks = [delayed(_curve)(*line, seed) for line in lines for seed in seeds]
    finished = Parallel(n_jobs=jobs, return_as="generator")(tasks)
    curves = list(ProgressBar(finished, len(tasks), "paper figure") if progress else finished)
    return [
        Line(panel, name, epsilon, tuple(curves[i * len(seeds) : (i + 1) * len(seeds)]))
        for i, (panel, _, name, epsilon) in enumerate(lines)
    ]


def _curve(panel: Panel, hindsight: FloatArray, name: str, epsilon: float, seed: int) -> Curve:
    stream, problem = panel.stream(seed, hindsight), panel.problem
    with threadpool_limits(1):
        return problem.ours(stream, epsilon, seed) if name == OURS else problem.papers(stream, epsilon, seed)


QUICK_ROWS, FULL_ROWS = 300, 1500
_WIDTHS = (1.2, 2.2, 3.4)
_STYLES: dict[str, Any] = {OURS: "-", PAPER: (0, (4, 2))}


@dataclass(frozen=True)
class PaperFigure:
    """The files written, and the last point of each line as a table."""

    png: Path
    svg: Path
    csv: Path
    table: list[dict[str, Any]]


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
    vectors), for three accuracies, with the paper's algorithms and with ours; the number of model changes
    below. Means over seeds, one standard deviation shaded.

    Parameters
    ----------
    folder : path
        Where ``paper_figure.png``, ``.svg`` and ``.csv`` are written.
    quick : bool
        300 rows a stream instead of 1,500: the paper's algorithms take quadratic time.
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
    lines = paper_experiment(count, chosen, epsilons, jobs, progress)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, table = (folder / f"paper_figure.{suffix}" for suffix in ("png", "svg", "csv"))
    _draw(lines, [png, svg])
    _write(lines, table)
    return PaperFigure(png, svg, table, [_last(line) for line in lines])


def _draw(lines: list[Line], files: list[Path]) -> None:
    plt = pyplot()
    titles = list(dict.fromkeys(line.panel.problem.title for line in lines if line.panel.data == "synthetic"))
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "b2o"}):
        figure, axes = plt.subplots(
            3, len(titles), figsize=(3.1 * len(titles), 7.4), sharex="col", layout="constrained"
        )
        for column, title in enumerate(titles):
            own = [line for line in lines if line.panel.problem.title == title]
            synthetic = [line for line in own if line.panel.data == "synthetic"]
            real = [line for line in own if line.panel.data != "synthetic"]
            _ratios(axes[0, column], synthetic, f"{title}\nsynthetic")
            _ratios(axes[1, column], real, real[0].panel.data)
            _changes(axes[2, column], real, f"{real[0].panel.data}, changes")
        _label(axes)
        handles = _handles(plt, lines)
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
        for file in files:
            figure.savefig(file, dpi=200)
        plt.close(figure)


def _ratios(axes: Any, lines: list[Line], title: str) -> None:
    _curves(axes, lines, "ratio", title)
    axes.axhline(1.0, color="0.4", linewidth=0.8, zorder=0)
    ends = [line.summary("ratio")[0][-1] for line in lines]
    axes.set_ylim(0.9, 1 + 3 * max(0.1, max(ends) - 1))


def _changes(axes: Any, lines: list[Line], title: str) -> None:
    _curves(axes, lines, "changes", title)
    axes.set_yscale("log")


def _curves(axes: Any, lines: list[Line], quantity: str, title: str) -> None:
    styles = _styles(lines)
    for line in reversed(lines):
        draw_curve(
            axes, line.curves[0].at, *line.summary(quantity), linestyle=_STYLES[line.algorithm], **styles[line.epsilon]
        )
    axes.set_title(title, fontsize=9)
    axes.margins(x=0)


def _styles(lines: list[Line]) -> dict[float, dict[str, Any]]:
    """Return a colour for each accuracy; the finer, the wider, so that lines that coincide can be seen."""
    epsilons = dict.fromkeys(line.epsilon for line in lines)
    styles = [{"color": colour, "linewidth": width} for colour, width in zip(COLOURS, _WIDTHS * 3, strict=False)]
    return dict(zip(epsilons, styles, strict=False))


def _label(axes: Any) -> None:
    for row, label in enumerate(["loss / hindsight", "loss / hindsight", "model changes"]):
        axes[row, 0].set_ylabel(label)
    for each in axes[-1]:
        each.set_xlabel("rows")


def _handles(plt: Any, lines: list[Line]) -> list[Any]:
    line_of = plt.Line2D
    handles = [
        line_of([], [], label=rf"$\epsilon = {epsilon:g}$", **style) for epsilon, style in _styles(lines).items()
    ]
    return handles + [line_of([], [], color="0.3", linestyle=style, label=name) for name, style in _STYLES.items()]


def _write(lines: list[Line], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _last(lines[0]).keys())
        writer.writeheader()
        for line in lines:
            writer.writerows(_point(line, i) for i in range(len(line.curves[0].at)))


def _last(line: Line) -> dict[str, Any]:
    return _point(line, -1)


def _point(line: Line, i: int) -> dict[str, Any]:
    point = {
        "data": line.panel.data,
        "problem": line.panel.problem.title,
        "algorithm": line.algorithm,
        "epsilon": line.epsilon,
        "rows": int(line.curves[0].at[i]),
    }
    for quantity in ("ratio", "regret", "changes"):
        mean, deviation = line.summary(quantity)
        point |= {quantity: float(mean[i]), f"{quantity}_std": float(deviation[i])}
    return point
