"""Results of an evaluation: one record per run, curves, tables, plots, JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from batch2online._types import FloatArray, IntArray


@dataclass(frozen=True)
class Outcome:
    """One learner on one stream. Reads by attribute and by name; ``dict(run)`` gives a plain dictionary.

    Attributes
    ----------
    model, seed : which learner, and the seed of the order and of its randomness
    loss, optimum : prequential loss, and the loss of the best single model in hindsight on the same rows
    ratio, regret : ``loss / optimum`` and ``loss - optimum``
    changes : number of changes of the model; the first model does not count
    churn : how far it moved in all, in the problem's measure, on a fixed set of probe rows: share of rows whose
        label changed, largest angle of the subspaces, root mean square change of predictions; summed over changes
    rows_per_second : of the learner alone, predicting and learning, on one thread
    peak_memory : bytes, or None where it was not asked for
    """

    model: str
    seed: int
    loss: float
    optimum: float
    changes: int
    churn: float
    rows_per_second: float
    peak_memory: int | None = None

    @property
    def ratio(self) -> float:
        if self.optimum > 0 or math.isnan(self.optimum):
            return self.loss / self.optimum
        return 1.0 if self.loss == 0 else math.inf

    @property
    def regret(self) -> float:
        return self.loss - self.optimum

    def keys(self) -> tuple[str, ...]:
        return COLUMNS

    def __getitem__(self, name: str) -> Any:
        if name not in COLUMNS:
            raise KeyError(name)
        return getattr(self, name)


_NUMBERS = ("loss", "optimum", "ratio", "regret", "changes", "churn", "rows_per_second")
COLUMNS = ("model", "seed", *_NUMBERS, "peak_memory")


@dataclass(frozen=True)
class Curve:
    """Sums over the first ``at`` rows of one run: loss, loss in hindsight, changes so far."""

    model: str
    seed: int
    at: IntArray
    loss: FloatArray
    optimum: FloatArray
    changes: IntArray

    @property
    def ratio(self) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.loss / self.optimum

    @property
    def regret(self) -> FloatArray:
        return self.loss - self.optimum


@dataclass(frozen=True)
class Result:
    """All runs of an evaluation.

    Attributes
    ----------
    rows : one :class:`Outcome` for each learner and seed; iterating over the result gives them too
    curves : one :class:`Curve` for each of them
    settings : the arguments: loss, order, chunk, warmup, number of rows and columns
    """

    rows: tuple[Outcome, ...]
    curves: tuple[Curve, ...]
    settings: dict[str, object]

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def models(self) -> list[str]:
        """Names of the learners, in the order given."""
        return list(dict.fromkeys(run.model for run in self.rows))

    def mean(self, model: str, column: str) -> float:
        """Mean of a column over the seeds of one learner."""
        return float(np.mean([run[column] for run in self.rows if run.model == model]))

    def curve(self, model: str, quantity: str = "ratio") -> tuple[IntArray, FloatArray, FloatArray]:
        """Row counts, mean and standard deviation over seeds of "ratio", "regret", "loss" or "changes"."""
        own = [curve for curve in self.curves if curve.model == model]
        if not own:
            raise KeyError(model)
        values = np.array([getattr(curve, quantity) for curve in own], dtype=np.float64)
        return own[0].at, values.mean(axis=0), values.std(axis=0, ddof=1 if len(own) > 1 else 0)

    def summary(self) -> list[dict[str, Any]]:
        """One dictionary a learner: means over its seeds, and the standard deviation of the ratio."""
        lines = []
        for model in self.models:
            own = [run for run in self.rows if run.model == model]
            memory = [run.peak_memory for run in own if run.peak_memory is not None]
            line: dict[str, Any] = {name: self.mean(model, name) for name in _NUMBERS}
            line |= {"model": model, "seeds": len(own), "ratio_std": float(np.std([run.ratio for run in own]))}
            lines.append(line | {"peak_memory": max(memory, default=None)})
        return lines

    def to_frame(self) -> Any:
        """Return the runs as a pandas data frame; needs pandas."""
        import pandas

        return pandas.DataFrame([dict(run) for run in self.rows], columns=list(COLUMNS))

    def plot(self, quantity: str = "ratio", axes: Any = None) -> Any:
        """Curves with a shaded standard deviation, on matplotlib axes; needs matplotlib."""
        return plot_curves(self, quantity, axes)

    def to_json(self, path: str | Path | None = None) -> str:
        """Everything as JSON, also written to a file if a path is given."""
        state = {
            "settings": self.settings,
            "rows": [{name: _plain(value) for name, value in asdict(run).items()} for run in self.rows],
            "curves": [{name: _plain(value) for name, value in asdict(curve).items()} for curve in self.curves],
        }
        text = json.dumps(state, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> Self:
        """Return the result in a JSON text, or in the file at a path."""
        is_text = isinstance(source, str) and source.lstrip().startswith("{")
        state = json.loads(str(source) if is_text else Path(source).read_text(encoding="utf-8"))
        runs = [Outcome(**run | {"optimum": _number(run["optimum"])}) for run in state["rows"]]
        return cls(tuple(runs), tuple(map(_curve, state["curves"])), state["settings"])

    def __str__(self) -> str:
        lines = [f"{'model':32} {'ratio':>9} {'std':>8} {'regret':>12} {'changes':>8} {'churn':>9} {'rows/s':>11}"]
        lines += [
            f"{line['model'][:32]:32} {line['ratio']:9.4f} {line['ratio_std']:8.4f} {line['regret']:12.5g} "
            f"{line['changes']:8.1f} {line['churn']:9.3f} {line['rows_per_second']:11,.0f}"
            for line in self.summary()
        ]
        return "\n".join(lines)


def _plain(value: object) -> object:
    """Return lists for arrays, None for what is not known: JSON has neither."""
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value.tolist()]
    return None if isinstance(value, float) and math.isnan(value) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _curve(state: dict[str, Any]) -> Curve:
    at, changes = (np.array(state[name], dtype=np.int64) for name in ("at", "changes"))
    loss, optimum = (np.array(state[name], dtype=np.float64) for name in ("loss", "optimum"))
    return Curve(state["model"], state["seed"], at, loss, optimum, changes)


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's palette, which colour-blind readers can distinguish."""

LABELS = {
    "ratio": "loss / hindsight",
    "regret": "regret",
    "loss": "prequential loss",
    "changes": "model changes",
}


def pyplot() -> Any:
    """Return the pyplot module of matplotlib, or raise ImportError with the command that installs it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'batch2online[plot]'.") from error
    return plt


def plot_curves(result: Result, quantity: str = "ratio", axes: Any = None) -> Any:
    """Mean over seeds of a quantity for each learner, one standard deviation shaded; the axes are returned."""
    if axes is None:
        axes = pyplot().subplots(figsize=(6, 4), layout="constrained")[1]
    for number, model in enumerate(result.models):
        draw_curve(axes, *result.curve(model, quantity), label=model, color=COLOURS[number % len(COLOURS)])
    if quantity == "ratio":
        axes.axhline(1.0, color="0.4", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel(LABELS.get(quantity, quantity))
    axes.legend(frameon=False, fontsize=8)
    return axes


def draw_curve(axes: Any, at: Any, mean: Any, deviation: Any, **style: Any) -> None:
    """Draw a line with its standard deviation shaded, where both are finite."""
    known = np.isfinite(mean)
    at, mean, deviation = at[known], mean[known], deviation[known]
    (line,) = axes.plot(at, mean, **{"linewidth": 1.4} | style)
    axes.fill_between(at, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.18, linewidth=0)
