"""What a run found, as plain data. It holds no times, so that equal runs give equal results."""

from __future__ import annotations

import math
import platform
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from batch2online.app.cli.in_units import in_units
from batch2online.app.report.story import shared_scale
from batch2online.headline import of_rows

if TYPE_CHECKING:
    from batch2online.app.cli.run.cluster import ClusterRun
    from batch2online.app.cli.run.learning import LearningLoop
    from batch2online.app.cli.run.stream import PreparedStream
    from batch2online.app.cli.tasks.base import Task


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
    excluded = now.unscored.excluded
    cost = float(now.problem.cost(now.model, now.construction, *excluded)) if now.is_solved else math.nan
    cost /= now.construction.newest_weight
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
