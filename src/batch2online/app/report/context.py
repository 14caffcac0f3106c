"""Context of a report: a model, the names and units of its columns, and the run that fitted it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report.formatting import reason
from batch2online.headline import Headline, number
from batch2online.reasons import explained
from batch2online.results import ChangeEvent
from batch2online.sketches.base import Coreset
from batch2online.tables.strings import MISSING

SCALED_UNIT = "standard deviations"
"""Unit of distances between rows of standardized columns."""


@dataclass(frozen=True)
class RunTime:
    """Date and duration of a run."""

    date: str
    seconds: float


@dataclass(frozen=True)
class ReportContext:
    """A model, and the names and units of its data.

    Attributes
    ----------
    model : online estimator
    title, source : description of the model, and name of its input
    names : names of the features
    target : name of the target, or None
    means, scales : mean and scale of each feature that was standardized, else 0 and 1
    units : units of the features by name, if they are known
    result : the content of ``result.json``, empty without a run
    run_time : date and duration of the run, or None
    """

    model: Any
    title: str
    source: str
    names: list[str]
    target: str | None
    means: FloatArray
    scales: FloatArray
    units: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    run_time: RunTime | None = None

    @property
    def headline(self) -> Headline:
        """The first line of the report and of the terminal."""
        found: Headline = self.model.headline(self.target, **shared_scale(self.result.get("preparation")))
        return found

    @property
    def feature_groups(self) -> dict[str, list[int]]:
        """Positions of the columns that came from each column of the input, as one-hot columns do."""
        sources = (self.result.get("preparation") or {}).get("categories", {})
        groups: dict[str, list[int]] = {}
        for j, name in enumerate(self.names):
            source = name.partition("=")[0]
            groups.setdefault(source if source in sources else name, []).append(j)
        return groups

    @property
    def rows(self) -> int:
        return int(self.model.n_seen_)

    def original(self, values: FloatArray) -> FloatArray:
        """Return rows of shape (n, d) in original units."""
        return np.asarray(values * self.scales + self.means)

    def format_distance(self, distance: float) -> str:
        """Return a distance between rows in original units, or in standard deviations if scales differ."""
        if np.ptp(self.scales) == 0:
            units = set(map(self.units.get, self.names))
            unit = (units.pop() or "") if len(units) == 1 else ""
            return f"{number(distance * float(self.scales[0]))} {unit}".strip()
        return f"{number(distance)} {SCALED_UNIT}"

    def format_value(self, column: int, value: float) -> str:
        """Return a value of a column with its unit."""
        unit = self.units.get(self.names[column], "")
        return f"{number(value)} {unit}".strip()


def shared_scale(prepared: dict[str, Any] | None) -> dict[str, Any]:
    """Return the scale of distances between standardized rows: a factor, or a unit if scales differ.

    >>> shared_scale({"standardised": True, "scales": [2.0, 2.0]})
    {'scale': 2.0}
    >>> shared_scale({"standardised": True, "scales": [2.0, 3.0]})
    {'unit': 'standard deviations'}
    """
    if prepared is None or not prepared["standardised"]:
        return {}
    scales = set(prepared["scales"])
    return {"scale": float(scales.pop())} if len(scales) == 1 else {"unit": SCALED_UNIT}


def model_context(model: Any, target: str | None = None) -> ReportContext:
    """Return the context of a model without a run."""
    names = model.feature_names() or [f"x{j + 1}" for j in range(model.n_features_in_)]
    width = len(names)
    title = f"{type(model).__name__} of {width:,} columns"
    return ReportContext(model, title, "Python", names, target, np.zeros(width), np.ones(width))


def run_context(model: Any, result: dict[str, Any], run_time: RunTime | None = None) -> ReportContext:
    """Return the context of a run from the content of ``result.json``."""
    prepared = result["preparation"]
    names, means, scales = list(prepared["names"]), np.array(prepared["means"]), np.array(prepared["scales"])
    target, units = result["settings"].get("target"), dict(prepared.get("units") or {})
    return ReportContext(
        model, result["title"], result["source"], names, target, means, scales, units, result, run_time
    )


def described(context: ReportContext, event: ChangeEvent) -> str:
    """Return the reason of a change, and which inputs and predictions it moved, in the units of the columns."""
    labels = getattr(context.model.stream.view().problem, "labels", {})
    unit = context.units.get(str(context.target), "")
    return explained(event, reason(event), names=context.names, labels=labels, scales=context.scales, unit=unit)


def numeric_coreset(model: Any) -> tuple[Coreset, list[int]]:
    """Return the coreset with its numeric columns alone, missing values filled by the mean, and their positions."""
    now = model.stream.view()
    encoding = getattr(now.problem, "encoding", None)
    if encoding is None or encoding.schema is None:
        return model.coreset_, list(range(now.width))
    coreset, places = now.coreset(), encoding.schema.numeric_columns
    points = coreset.points[:, places]
    missing = points == MISSING
    weights = np.where(missing, 0.0, coreset.weights[:, None])
    means = (np.where(missing, 0.0, points) * weights).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    return replace(coreset, points=np.where(missing, means, points)), places
