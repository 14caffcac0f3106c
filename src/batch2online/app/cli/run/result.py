"""The result of a run as plain data: quality, curve of loss over rows, parameters in the units of the table.

It holds no times, so that equal runs give equal results.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.cli.run.source import Chunk
from batch2online.app.inputs.preparation import Preparation
from batch2online.app.report.context import shared_scale
from batch2online.headline import HUGE, of_rows

if TYPE_CHECKING:
    from batch2online.app.cli.run.cluster import ClusterRun
    from batch2online.app.cli.run.loop import LearningLoop
    from batch2online.app.cli.run.source import PreparedStream
    from batch2online.app.cli.tasks.base import Task


GROWTH = 1.5
START = 50


@dataclass
class Recorder:
    """Points of the curve at row counts that grow geometrically: a few dozen for any stream.

    Row counts do not depend on chunks, so neither does the curve.
    """

    points: list[dict[str, Any]] = field(default_factory=list)

    @property
    def next_at(self) -> int:
        """Rows at which the next point is due."""
        return START if not self.points else following(self.points[-1]["rows"])

    @property
    def last(self) -> dict[str, Any] | None:
        return self.points[-1] if self.points else None

    def pieces(self, chunk: Chunk, seen: int) -> Iterator[Chunk]:
        """Cut the chunk where a point is due, which is to be recorded after each piece."""
        rows, targets = chunk
        start = 0
        while start < len(rows):
            stop = min(len(rows), start + self.next_at - seen)
            yield rows[start:stop], None if targets is None else targets[start:stop]
            seen, start = seen + stop - start, stop

    def look(self, model: Any) -> bool:
        """Record a point if one is due."""
        if model.n_seen_ != self.next_at:
            return False
        self.points.append(point(model))
        return True

    def closed(self, model: Any) -> list[dict[str, Any]]:
        """All points, and one for the end of the stream."""
        if self.points and self.points[-1]["rows"] == model.n_seen_:
            return list(self.points)
        return [*self.points, point(model)]


def following(rows: int) -> int:
    """Return the row count of the point after this one.

    >>> following(50), following(63)
    (75, 95)
    """
    return math.ceil(GROWTH * rows)


def point(model: Any) -> dict[str, Any]:
    """Where the model stands now."""
    regret = model.regret_
    return {
        "rows": int(model.n_seen_),
        "loss": float(regret.loss),
        "optimum": float(regret.optimum),
        "weight": float(regret.weight),
        "half_life": regret.half_life or 0,
        "ratio": float(regret.ratio),
        "changes": int(model.n_changes_),
    }


def ratio_text(ratio: float) -> str:
    """Return a loss relative to hindsight in words.

    >>> ratio_text(1.02), ratio_text(float("nan"))
    ('1.0200 times hindsight', 'beside an exact fit in hindsight')
    """
    return f"{ratio:.4f} times hindsight" if ratio <= HUGE else "beside an exact fit in hindsight"


def result_of(learner: LearningLoop | ClusterRun, stream: PreparedStream, task: Task, command: str) -> dict[str, Any]:
    """Return the content of ``result.json``."""
    model = learner.model
    regret = model.regret_
    prepared = asdict(stream.preparation)
    told = model.headline(task.settings.target, **shared_scale(prepared))
    return {
        "title": task.title(len(stream.preparation.names)),
        "source": stream.name,
        "command": command,
        "task": task.name,
        "rows": int(model.n_seen_),
        "rows_dropped": stream.dropped,
        "notes": list(stream.notes),
        "rows_checksum": f"{learner.checksum:016x}",
        "inputs": stream.preparation.names,
        "loss": regret.loss,
        "optimum": regret.optimum,
        "ratio": regret.ratio,
        "optimum_error": regret.error,
        "optimum_interval": [end if math.isfinite(end) else None for end in regret.optimum_interval],
        "regret": regret.regret(),
        "secondary_loss": regret.secondary_loss,
        "secondary_optimum": regret.secondary_optimum,
        "secondary_name": regret.secondary_name,
        "headline": str(told),
        "quality": dict(told.quality),
        **quality_of(model),
        "distance": told.distance,
        "last_model": {**present_model(model), **described(model)},
        "in_units": in_units(model, stream.preparation),
        "changes": int(model.n_changes_),
        "last_change": model.changes_[-1].at if model.changes_ else None,
        "coreset_size": len(model.coreset_),
        "curve": [] if regret.reason else learner.recorder.closed(model),
        "settings": task.settings.as_dict(),
        "preparation": prepared,
        "versions": versions(),
    }


def quality_of(model: Any) -> dict[str, Any]:
    """Return plain averages of all rows and of the last ones, the rows that hold most of the loss, and of what.

    ``loss``, ``optimum``, ``ratio`` and ``regret`` beside it are those of the rows that ``regret_of`` names.
    """
    (rows, recent), handful = model._averages(), model._handful()
    return {
        "metrics": model.metrics_,
        "metrics_rows": 0 if rows is None else rows.rows,
        "recent_metrics": model.recent_metrics_,
        "recent_metrics_rows": 0 if recent is None else recent.rows,
        "rows_with_most_of_the_loss": None if handful is None else handful._asdict(),
        "regret_of": of_rows(model).removeprefix(" for ") or "all rows",
    }


def present_model(model: Any) -> dict[str, Any]:
    """Return what the present model costs on all rows seen: exact, or measured on the coreset for clusters."""
    now = model._view()
    excluded = now.current.unscored.excluded
    cost = float(now.problem.cost(now.model, now.snapshot(), *excluded)) if now.has_model else math.nan
    cost /= now.current.newest_weight
    last = replace(model.regret_, loss=cost)
    return {"cost": cost, "ratio": last.ratio}


def described(model: Any) -> dict[str, Any]:
    """Return the parameters of the model, whatever it is."""
    names = (
        "classes_",
        "coef_",
        "intercept_",
        "error_",
        "components_",
        "explained_variance_ratio_",
        "cluster_centers_",
    )
    found = {name.rstrip("_"): getattr(model, name) for name in names if hasattr(model, name)}
    return {name: np.asarray(value).tolist() for name, value in found.items()}


def change_record(event: Any) -> dict[str, Any]:
    """Return a change event as one line of ``changes.jsonl``."""
    known = {name: value for name, value in asdict(event).items() if value is not None and name != "seconds"}
    return {**known, "excess": event.excess, "reason": event.reason}


def versions() -> dict[str, str]:
    """Versions that a result may depend on."""
    packages = ("batch2online", "numpy", "scipy", "scikit-learn", "pyarrow")
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


def _version(package: str) -> str:
    import batch2online

    return batch2online.__version__ if package == "batch2online" else version(package)


def in_units(model: Any, preparation: Preparation | None) -> dict[str, Any]:
    """Return coefficients, centers or components by the names of inputs, as if nothing had been scaled."""
    names = _names(model, preparation)
    means, scales = _moments(preparation, len(names))
    if hasattr(model, "cluster_centers_"):
        centers = model.cluster_centers_ * scales + means
        return {"units": _units(names, preparation), "centers": [_by_name(names, center) for center in centers]}
    if hasattr(model, "components_"):
        return {"units": {}, "components": [_by_name(names, component) for component in model.components_]}
    if hasattr(model, "coef_") and np.ndim(model.coef_) == 1:
        return _coefficients(model, names, means, scales, preparation)
    if hasattr(model, "coef_") and hasattr(model, "classes_"):
        return _by_class(model, names, means, scales)
    return {}


def _names(model: Any, preparation: Preparation | None) -> list[str]:
    if preparation is None:
        return [str(name) for name in getattr(model, "feature_names_in_", range(model.n_features_in_))]
    return [*preparation.numbers, *preparation.names[len(preparation.numbers) :]]


def _moments(preparation: Preparation | None, width: int) -> tuple[FloatArray, FloatArray]:
    """Return what was subtracted from each input and what it was divided by."""
    means, scales = np.zeros(width), np.ones(width)
    if preparation is not None and preparation.standardised:
        means[: len(preparation.means)] = preparation.means
        scales[: len(preparation.scales)] = preparation.scales
    return means, scales


def _coefficients(
    model: Any, names: list[str], means: FloatArray, scales: FloatArray, preparation: Preparation | None
) -> dict[str, Any]:
    slopes = np.asarray(model.coef_) / scales
    target = None if preparation is None else preparation.units.get(str(preparation.target))
    units = _units(names, preparation)
    return {
        "units": {name: per for name in names if (per := _per(target, units.get(name)))},
        "intercept": float(np.asarray(model.intercept_) - slopes @ means),
        "coefficients": _by_name(names, slopes),
    }


def _by_class(model: Any, names: list[str], means: FloatArray, scales: FloatArray) -> dict[str, Any]:
    """Coefficients of the logarithm of odds for each class; of two classes for the second."""
    slopes, labels = np.asarray(model.coef_) / scales, model.classes_.tolist()
    constants = np.asarray(model.intercept_) - slopes @ means
    shown = labels if len(slopes) == len(labels) else labels[-1:]
    rows = zip(map(str, shown), constants.tolist(), slopes, strict=True)
    return {
        "units": {},
        "classes": {
            label: {"intercept": constant, "coefficients": _by_name(names, slope)} for label, constant, slope in rows
        },
    }


def _per(target: str | None, unit: str | None) -> str:
    """Return the unit of a coefficient.

    >>> _per("US dollars", "carat"), _per("US dollars", None), _per(None, "mm")
    ('US dollars per carat', 'US dollars', 'per mm')
    """
    return f"{target or ''} per {unit}".strip() if unit else target or ""


def _units(names: list[str], preparation: Preparation | None) -> dict[str, str]:
    return {} if preparation is None else {name: preparation.units[name] for name in names if name in preparation.units}


def _by_name(names: list[str], values: FloatArray) -> dict[str, float]:
    return dict(zip(names, np.asarray(values, dtype=np.float64).tolist(), strict=True))
