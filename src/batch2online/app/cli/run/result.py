"""The result of a run as plain data: metrics, learning curve, and parameters in the units of the columns.

It contains no times, so that equal runs have equal results.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

import batch2online
from batch2online._types import FloatArray
from batch2online.app.cli.run.source import Chunk
from batch2online.app.features import Features
from batch2online.app.report.context import shared_scale
from batch2online.headline import of_rows
from batch2online.quality import ClassBaseline
from batch2online.reasons import explained

if TYPE_CHECKING:
    from batch2online.app.cli.run.source import TableStream
    from batch2online.app.cli.tasks import Task


GROWTH = 1.5
START = 50


@dataclass
class Recorder:
    """Learning curve: points at row counts that grow geometrically, a few dozen for any stream.

    The row counts do not depend on chunks, so neither does the curve.
    """

    points: list[dict[str, Any]] = field(default_factory=list)

    @property
    def next_at(self) -> int:
        """Row count of the next point."""
        return START if not self.points else next_point(self.points[-1]["rows"])

    @property
    def last(self) -> dict[str, Any] | None:
        return self.points[-1] if self.points else None

    def pieces(self, chunk: Chunk, seen: int) -> Iterator[Chunk]:
        """Split a chunk where points are due; call :meth:`record` after each piece."""
        rows, targets = chunk
        start = 0
        while start < len(rows):
            stop = min(len(rows), start + self.next_at - seen)
            yield rows[start:stop], None if targets is None else targets[start:stop]
            seen, start = seen + stop - start, stop

    def record(self, model: Any) -> bool:
        """Add a point if one is due."""
        if model.n_seen_ != self.next_at:
            return False
        self.points.append(point(model))
        return True

    def closed(self, model: Any) -> list[dict[str, Any]]:
        """Return all points, with one at the end of the stream."""
        if self.points and self.points[-1]["rows"] == model.n_seen_:
            return list(self.points)
        return [*self.points, point(model)]


def next_point(rows: int) -> int:
    """Return the row count of the point after this one.

    >>> next_point(50), next_point(63)
    (75, 95)
    """
    return math.ceil(GROWTH * rows)


def point(model: Any) -> dict[str, Any]:
    """Return loss, optimum and number of changes at the current row."""
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


def result_of(
    model: Any, checksum: int, curve: list[dict[str, Any]], stream: TableStream, task: Task, command: str
) -> dict[str, Any]:
    """Return the content of ``result.json``."""
    regret = model.regret_
    features = Features.of(model, stream.facts)
    prepared = asdict(features) | {"standardised": features.is_standardised, "missing": task.settings.missing}
    headline = model.headline(task.settings.target, **shared_scale(prepared))
    return {
        "title": task.title(len(features.names)),
        "source": stream.name,
        "command": command,
        "task": task.settings.task,
        "rows_dropped": stream.dropped,
        "notes": list(stream.notes),
        "rows_checksum": f"{checksum:016x}",
        "inputs": model.feature_names() or features.names,
        **facts_of(model, features, headline),
        "optimum_error": regret.error,
        "optimum_interval": [end if math.isfinite(end) else None for end in regret.optimum_interval],
        "secondary_loss": regret.secondary_loss,
        "secondary_optimum": regret.secondary_optimum,
        "secondary_name": regret.secondary_name,
        "quality": dict(headline.quality),
        "distance": headline.distance,
        "last_model": {**last_model(model), **parameters_of(model)},
        "changes": int(model.n_changes_),
        "last_change": model.changes_[-1].at if model.changes_ else None,
        "curve": [] if regret.reason else curve,
        "settings": task.settings.as_dict(),
        "preparation": prepared,
        "facts": asdict(stream.facts),
        "versions": versions(),
    }


def facts_of(model: Any, features: Features, headline: Any) -> dict[str, Any]:
    """Return what a run and ``show`` say of a model: loss, metrics, headline, parameters in units of the columns.

    Metrics are over all rows, over windows and over the last ones. ``regret_of`` names the rows that ``loss``,
    ``optimum``, ``ratio`` and ``regret`` refer to.
    """
    regret = model.regret_
    found = model.stream.performance()
    rows, recent, handful, baseline = found.averages, found.recent, found.handful, found.baseline
    auc = baseline.auc if isinstance(baseline, ClassBaseline) else None
    return {
        "rows": int(model.n_seen_),
        "loss": regret.loss,
        "optimum": regret.optimum,
        "ratio": regret.ratio,
        "regret": regret.regret(),
        "headline": str(headline),
        "verdict": headline.verdict,
        "summary": headline.parts,
        "in_units": in_units(model, features),
        "coreset_size": len(model.coreset_),
        "metrics": model.metrics_,
        "baseline_metrics": model.baseline_metrics_,
        "AUC_error": None if auc is None else auc[1],
        "window_metrics": model.window_metrics_,
        "metrics_rows": 0 if rows is None else rows.rows,
        "recent_metrics": model.recent_metrics_,
        "recent_metrics_rows": 0 if recent is None else recent.rows,
        "rows_with_most_of_the_loss": None if handful is None else handful._asdict(),
        "regret_of": of_rows(model).removeprefix(" for ") or "all rows",
    }


def last_model(model: Any) -> dict[str, Any]:
    """Return the cost of the current model on all rows seen: exact, or measured on the coreset for clustering."""
    now = model.stream.view()
    excluded = now.current.unscored.excluded
    cost = float(now.problem.cost(now.model, now.snapshot(), *excluded)) if now.has_model else math.nan
    cost /= now.current.newest_weight
    return {"cost": cost, "ratio": replace(model.regret_, loss=cost).ratio}


_PARAMETERS = ("classes_", "coef_", "intercept_", "error_", "components_", "explained_variance_ratio_",
               "cluster_centers_")  # fmt: skip


def parameters_of(model: Any) -> dict[str, Any]:
    """Return the fitted parameters of a model of any kind."""
    return {name.rstrip("_"): np.asarray(getattr(model, name)).tolist() for name in _PARAMETERS if hasattr(model, name)}


def change_record(event: Any, model: Any = None) -> dict[str, Any]:
    """Return a change event as one line of ``changes.jsonl``, with what it changed in the words of the model."""
    known = {name: value for name, value in asdict(event).items() if value is not None and name != "seconds"}
    found = {**known, "excess": event.excess, "reason": event.reason}
    if model is None:
        return found
    names, labels = model.feature_names(), getattr(model.stream.view().problem, "labels", {})
    if event.coefficient_classes is not None:
        found["coefficient_classes"] = [labels.get(code, code) for code in event.coefficient_classes]
    return found | {"explanation": explained(event, names=names, labels=labels)}


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result may depend on."""
    packages = ("numpy", "scipy", "scikit-learn", "pyarrow")
    own = {"python": platform.python_version(), "batch2online": batch2online.__version__}
    return own | {name: version(name) for name in packages}


def in_units(model: Any, features: Features) -> dict[str, Any]:
    """Return coefficients, centers or components by feature name, in the units of the unscaled columns."""
    names, means, scales = features.names, np.array(features.means), np.array(features.scales)
    units = {name: features.units[name] for name in names if name in features.units}
    if hasattr(model, "cluster_centers_"):
        centers = model.cluster_centers_ * scales + means
        return {"units": units, "centers": [_by_name(names, center) for center in centers]}
    if hasattr(model, "components_"):
        return {"units": {}, "components": [_by_name(names, component) for component in model.components_]}
    if not hasattr(model, "coef_") or (np.ndim(model.coef_) != 1 and not hasattr(model, "classes_")):
        return {}
    slopes = np.asarray(model.coef_) / scales
    intercept = np.asarray(model.intercept_) - slopes @ means
    if np.ndim(model.coef_) == 1:
        target = features.units.get(str(features.target))
        return {
            "units": {name: unit for name in names if (unit := _per(target, units.get(name)))},
            "intercept": float(intercept),
            "coefficients": _by_name(names, slopes),
        }
    labels = model.classes_.tolist()
    shown = labels if len(slopes) == len(labels) else labels[-1:]  # of two classes, the log odds of the second
    by_class = {
        str(label): {"intercept": constant, "coefficients": _by_name(names, slope)}
        for label, constant, slope in zip(shown, intercept.tolist(), slopes, strict=True)
    }
    return {"units": {}, "classes": by_class}


def _per(target: str | None, unit: str | None) -> str:
    """Return the unit of a coefficient.

    >>> _per("US dollars", "carat"), _per("US dollars", None), _per(None, "mm")
    ('US dollars per carat', 'US dollars', 'per mm')
    """
    return f"{target or ''} per {unit}".strip() if unit else target or ""


def _by_name(names: list[str], values: FloatArray) -> dict[str, float]:
    return dict(zip(names, np.asarray(values, dtype=np.float64).tolist(), strict=True))
