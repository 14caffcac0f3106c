"""Figures that show the theorems: regret, changes of the model and average sensitivity over the number of rows.

Rows are bounded, as the theorems ask: uniform noise around a linear function, a subspace, or centers. They come in
random order. Regret after n rows is that of a stream of these n rows, against the best model of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from batch2online import coresets, theory
from batch2online._types import FloatArray
from batch2online.evaluate.loop import fed
from batch2online.evaluate.losses import changed
from batch2online.evaluate.prequential import run_all
from batch2online.evaluate.result import pyplot
from batch2online.methods.clustering import solver
from batch2online.paper import theorem_plots
from batch2online.paper.certificates import certificate
from batch2online.paper.problems import PaperProblem
from batch2online.paper.records import Record, averaged, lines_of, write_csv
from batch2online.paper.sensitivity import average_sensitivity
from batch2online.refresh import Adaptive, Geometric, OnChange

AUTO, EXACT = "auto", "exact"
GROWTH = 1.1
"""A new model whenever the rows have grown by so much (Theorem 2): nearly the bound of a new model at every row."""


# -- streams -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TheoremProblem(PaperProblem):
    """One of the three problems, with bounded rows."""

    def rows(self, n: int) -> tuple[FloatArray, FloatArray | None]:
        """Return bounded rows, and targets for regression."""
        rng = np.random.default_rng([self.d, self.k])
        if self.name == "regression":
            coefficients, X = rng.normal(size=self.d), rng.uniform(-1, 1, size=(n, self.d))
            return X, X @ coefficients + rng.uniform(-1, 1, size=n)
        if self.name == "low rank":
            basis = np.linalg.qr(rng.normal(size=(self.d, self.k)))[0]
            scores = rng.uniform(-1, 1, size=(n, self.k)) * np.linspace(3, 1, self.k)
            return scores @ basis.T + rng.uniform(-0.5, 0.5, size=(n, self.d)), None
        centers = 4 * rng.normal(size=(self.k, self.d))
        return centers[rng.integers(self.k, size=n)] + rng.uniform(-2, 2, size=(n, self.d)), None

    def stream(self, n: int, seed: int) -> tuple[FloatArray, FloatArray | None]:
        """Return the rows in a random order."""
        X, y = self.rows(n)
        order = np.random.default_rng(seed).permutation(n)
        return X[order], None if y is None else y[order]

    def estimator(self, epsilon: float | str, **settings: Any) -> Any:
        """Return the online estimator in the paper's form, on a coreset; EXACT is from the moments of all rows."""
        settings |= {} if epsilon == EXACT else {"solve": "coreset", "epsilon": epsilon}
        settings |= {"warm_start": False} if self.name == "clustering" else {}
        return self.online(**settings)

    def optima(self, X: FloatArray, y: FloatArray | None, at: Sequence[int]) -> list[FloatArray]:
        """Return the loss of each row under the best model of the first n rows, for each n."""
        if self.name != "clustering":
            return [self.loss.hindsight(X[:n], None if y is None else y[:n]) for n in at]
        some = X[:_SAMPLE]
        start = solver.solve(some, np.ones(len(some)), self.k, self.z, seed=0)
        best = (solver.solve(X[:n], np.ones(n), self.k, self.z, seed=0, current=start, starts=1) for n in at)
        return [solver.losses(X[:n], centers, self.z) for n, centers in zip(at, best, strict=True)]

    def rate(self, epsilon: float, n: int) -> float:
        """Return the rate of the paper's theorem, hidden constants one."""
        if self.name == "regression":
            return theory.regression_regret(self.d, epsilon, n)
        if self.name == "low rank":
            return theory.low_rank_regret(self.k, epsilon, n)
        return theory.clustering_regret(self.k, self.z, epsilon, n)


_SAMPLE = 20_000
"""Rows on which the starting centers of the best model are searched for."""


def checkpoints(n: int, a_decade: int = 3, first: int = 100) -> list[int]:
    """Return row counts up to n, evenly spread by logarithm.

    >>> checkpoints(1_000, a_decade=2)
    [100, 316, 1000]
    """
    steps = round(a_decade * math.log10(n / first))
    return sorted({round(n / 10 ** (step / a_decade)) for step in range(steps + 1)})


# -- regret ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegretPanel:
    """Accuracies that are compared on the same streams of one problem, of a share of the rows."""

    problem: TheoremProblem
    epsilons: tuple[float | str, ...]
    share: float = 1.0

    def measure(self, rows: int, seed: int) -> list[Record]:
        n = round(self.share * rows)
        X, y = self.problem.stream(n, seed)
        at = checkpoints(n)
        optima = self.problem.optima(X, y, at)
        bound = float(optima[-1].max())
        found = []
        for epsilon in self.epsilons:
            model = self.problem.estimator(epsilon, refresh=Geometric(GROWTH), random_state=seed)
            for rows, best, now in zip(at, optima, fed(model, X, y, at), strict=True):
                found.append(self._record(epsilon, rows, float(best.sum()), now, bound))
        return found

    def _record(self, epsilon: float | str, rows: int, optimum: float, model: Any, bound: float) -> Record:
        loss, promise = model.regret_.loss, certificate(model, bound)
        allowed = 0.0 if isinstance(epsilon, str) else epsilon
        slack = (promise.factor - 1 - allowed) * optimum
        return {
            **_names(self.problem),
            "epsilon": epsilon,
            "rows": rows,
            "regret": loss - optimum,
            "approximate_regret": loss - (1 + allowed) * optimum,
            "optimum": optimum,
            "kept": len(model.coreset_),
            "bound": math.nan if promise.gaps else promise.additive + slack,
            "rate": self.problem.rate(allowed, rows) if allowed else math.nan,
        }


def _names(problem: TheoremProblem) -> Record:
    is_clustering = problem.name == "clustering"
    return {"problem": problem.name, "d": problem.d, "k": problem.k or "", "z": problem.z if is_clustering else ""}


def regret_panels(quick: bool = False) -> list[RegretPanel]:
    """Return the three problems with all accuracies; a tenth of the rows with other z, k and d at epsilon = 0.1."""
    fixed: tuple[float | str, ...] = (0.3, 0.1, 0.03, AUTO)
    main = [
        RegretPanel(TheoremProblem("regression", 10), (*fixed, EXACT)),
        RegretPanel(TheoremProblem("low rank", 20, 5), (*fixed, EXACT)),
        RegretPanel(TheoremProblem("clustering", 5, 5), fixed),
    ]
    further = [
        *(TheoremProblem("clustering", 5, 5, z) for z in (1.0, 3.0)),
        *(TheoremProblem("clustering", 5, k) for k in (2, 10)),
        *(TheoremProblem("clustering", d, 5) for d in (2, 20)),
        *(TheoremProblem("low rank", 20, k) for k in (2, 10)),
        *(TheoremProblem("low rank", d, 5) for d in (10, 40)),
        *(TheoremProblem("regression", d) for d in (3, 30)),
    ]
    share = 1.0 if quick else 0.1
    return main + [RegretPanel(problem, (0.1, AUTO), share) for problem in further[: 2 if quick else None]]


# -- changes -----------------------------------------------------------------------------------------------

CHANGES_EPSILON, CHANGES_SIZE = 0.5, 30
"""A wide perturbation and a small coreset: with these the changes of the paper's algorithms get rare at all."""

TRANSPORT = "transport"


@dataclass(frozen=True)
class ChangesLine:
    """One algorithm on one problem, up to so many rows."""

    problem: TheoremProblem
    algorithm: str
    rows: int

    def measure(self, seed: int) -> list[Record]:
        X, y = self.problem.stream(self.rows, seed)
        at = checkpoints(self.rows)
        found = self._transported(X, y, at, seed) if self.algorithm == TRANSPORT else self._counted(X, y, at, seed)
        names = {**_names(self.problem), "algorithm": self.algorithm, "epsilon": CHANGES_EPSILON, "size": CHANGES_SIZE}
        return [
            {**names, "rows": n, "changes": changes, "bound": bound}
            for n, (changes, bound) in zip(at, found, strict=True)
        ]

    def _counted(self, X: FloatArray, y: FloatArray | None, at: list[int], seed: int) -> Iterator[tuple[float, float]]:
        """Yield changes of our estimator and their bound."""
        settings = {"refresh": POLICIES[self.algorithm], "coreset_size": CHANGES_SIZE, "random_state": seed}
        for model in fed(self.problem.estimator(CHANGES_EPSILON, **settings), X, y, at):
            yield model.n_changes_, certificate(model, 1.0).models_promised - 1

    def _transported(
        self, X: FloatArray, y: FloatArray | None, at: list[int], seed: int
    ) -> Iterator[tuple[float, float]]:
        """Yield changes of the paper's algorithm and their bound."""
        rng, own = np.random.default_rng(seed), {"constant": 1} if self.problem.name == "clustering" else {}
        models = self.problem.papers_models(rng, X, y, CHANGES_EPSILON, CHANGES_SIZE, consistent=True, **own)
        moves = np.cumsum([False, *(changed(old, new) for old, new in pairwise(models))])
        for n in at:
            yield int(moves[n - 1]), self._bound_of_transport(n)

    def _bound_of_transport(self, n: int) -> float:
        """Return the sum of m K / t, at most one each, for leverage scores; NaN for others.

        The last of t rows has a share of 1/t of the probabilities on average. So much of a draw moves with the row, and
        (1 + 1/epsilon) / t with the interval of its weight.
        """
        if self.problem.name != "regression":
            return math.nan
        total = CHANGES_SIZE * theory.reaction(CHANGES_EPSILON)
        return float(np.minimum(1.0, total / np.arange(1, n)).sum())


POLICIES: dict[str, Any] = {"OnChange": OnChange(), "Geometric": Geometric(1.2), "Adaptive": Adaptive()}


def changes_lines(quick: bool = False) -> list[ChangesLine]:
    """Return all algorithms on the three problems; those that work at every row up to fewer rows."""
    transported, on_change, others = (600, 300, 10_000) if quick else (3_000, 5_000, 1_000_000)
    rows = {TRANSPORT: transported, "OnChange": on_change, "Geometric": others, "Adaptive": others}
    problems = (TheoremProblem("regression", 3), TheoremProblem("low rank", 10, 2), TheoremProblem("clustering", 2, 3))
    return [ChangesLine(problem, name, n) for problem in problems for name, n in rows.items()]


# -- average sensitivity -----------------------------------------------------------------------------------

SENSITIVITY_SIZE, SENSITIVITY_EPSILON, SENSITIVITY_ROWS = 30, 0.5, 1_000


@dataclass(frozen=True)
class SensitivityPoint:
    """A coreset of so many rows at one accuracy."""

    coreset: str
    rows: int
    epsilon: float
    trials: int

    def measure(self) -> list[Record]:
        problem, make = CORESETS[self.coreset]
        X, y = problem.rows(self.rows)
        empty = make(epsilon=self.epsilon, coreset_size=SENSITIVITY_SIZE)
        found = average_sensitivity(empty, X, y, trials=self.trials, random_state=self.rows)
        filled = make(epsilon=self.epsilon, coreset_size=SENSITIVITY_SIZE, random_state=0)
        bound = filled.add(X, *(() if y is None else (y,))).sensitivity(self.rows)
        settings = {"coreset": self.coreset, "epsilon": self.epsilon, "size": SENSITIVITY_SIZE, "rows": self.rows}
        numbers = {"sensitivity": found.mean, "low": found.low, "high": found.high}
        return [settings | numbers | {"bound": bound if bound < 1 else math.nan}]


def _clustering(stages: int) -> Callable[..., Any]:
    return lambda **settings: coresets.Clustering(3, stages=stages, **settings)


CORESETS: dict[str, tuple[TheoremProblem, Callable[..., Any]]] = {
    "Uniform": (TheoremProblem("low rank", 5, 2), coresets.Uniform),
    "Leverage": (TheoremProblem("regression", 3), coresets.Leverage),
    "RidgeLeverage": (TheoremProblem("low rank", 5, 2), lambda **settings: coresets.RidgeLeverage(2, **settings)),
    "Clustering": (TheoremProblem("clustering", 2, 3), _clustering(1)),
    "Clustering, two stages": (TheoremProblem("clustering", 2, 3), _clustering(2)),
    "Sensitivity, Lewis": (
        TheoremProblem("regression", 3),
        lambda **settings: coresets.Sensitivity(coresets.LewisScore(1.0), **settings),
    ),
}


def sensitivity_points(quick: bool = False) -> list[SensitivityPoint]:
    """Return all coresets over the number of rows and over the accuracy."""
    rows = (250, 1_000) if quick else (250, 500, 1_000, 2_000, 4_000)
    epsilons = (0.1, 0.9) if quick else (0.03, 0.1, 0.3, 0.9)
    trials, middle = (30, 1_000) if quick else (150, SENSITIVITY_ROWS)
    over_rows = [(n, SENSITIVITY_EPSILON) for n in rows]
    over_epsilon = [(middle, epsilon) for epsilon in epsilons]
    return [SensitivityPoint(name, n, e, trials) for name in CORESETS for n, e in over_rows + over_epsilon]


# -- files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TheoremFigures:
    """The files written, and the tables in them."""

    files: list[Path]
    regret: list[Record] = field(repr=False)
    changes: list[Record] = field(repr=False)
    sensitivity: list[Record] = field(repr=False)


def theorem_figures(
    folder: str | Path = ".",
    *,
    quick: bool = False,
    rows: int | None = None,
    seeds: int | Iterable[int] = 5,
    jobs: int = -1,
    progress: bool = False,
) -> TheoremFigures:
    """Measure regret, changes and average sensitivity, and draw them beside their bounds; needs matplotlib.

    Parameters
    ----------
    folder : path
        Where ``regret``, ``changes`` and ``sensitivity`` are written, as ``.csv``, ``.svg`` and ``.png``, and
        ``regret_sweeps`` as pictures.
    quick : bool
        Streams of 10,000 rows instead of 1,000,000, and fewer settings: under two minutes.
    rows : int or None
        Another number of rows for the regret.
    seeds : int or iterable of int
        How many streams, or their seeds.
    jobs : int
        Processes; -1 is one for each core.
    progress : bool
        Show a bar on standard error.
    """
    pyplot()  # fail before the work if it cannot be drawn
    tables = measured(quick=quick, rows=rows, seeds=seeds, jobs=jobs, progress=progress)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = [write_csv(folder / f"{name}.csv", table) for name, table in tables.items()]
    return TheoremFigures([*files, *theorem_plots.draw(tables, folder)], **tables)


def measured(
    tables: Iterable[str] = ("regret", "changes", "sensitivity"),
    *,
    quick: bool,
    rows: int | None = None,
    seeds: int | Iterable[int] = 5,
    jobs: int = 1,
    progress: bool = False,
) -> dict[str, list[Record]]:
    """Return these tables: means over seeds, and standard deviations."""
    chosen = list(range(seeds) if isinstance(seeds, int) else seeds)
    n = rows or (10_000 if quick else 1_000_000)
    tasks: dict[str, list[Callable[[], list[Record]]]] = {
        "regret": [partial(panel.measure, n, seed) for seed in chosen for panel in regret_panels(quick)],
        "changes": [partial(line.measure, seed) for seed in chosen for line in changes_lines(quick)],
        "sensitivity": [point.measure for point in sensitivity_points(quick)],
    }
    names = list(tables)
    found = iter(run_all([task for name in names for task in tasks[name]], jobs, "theorems" if progress else None))
    return {name: averaged((r for _ in tasks[name] for r in next(found)), _QUANTITIES[name]) for name in names}


_QUANTITIES = {
    "regret": ("regret", "approximate_regret", "optimum", "kept", "bound"),
    "changes": ("changes", "bound"),
    "sensitivity": (),
}


# -- slopes ------------------------------------------------------------------------------------------------


def slopes(regret: list[Record]) -> list[Record]:
    """Return for each line of regret its value at the end, its log-log slope over the last decade, and its bound."""
    return [_slope(points) for _, points in lines_of(regret, "problem", "d", "k", "z", "epsilon")]


def _slope(points: list[Record]) -> Record:
    last = points[-1]
    first = min(points, key=lambda point: abs(math.log(10 * point["rows"] / last["rows"])))
    folds = math.log(last["rows"] / first["rows"])
    names = {name: last[name] for name in ("problem", "d", "k", "z", "epsilon", "rows", "kept")}
    growth = last["regret"] / first["regret"] if first["regret"] > 0 < last["regret"] else math.nan
    return {
        **names,
        "regret": last["regret"],
        "regret_std": last["regret_std"],
        "slope": math.log(growth) / folds,
        "per_fold": (last["regret"] - first["regret"]) / folds,
        "approximate_regret": last["approximate_regret"],
        "largest_approximate_regret": max(point["approximate_regret"] for point in points),
        "bound": last["bound"],
    }
