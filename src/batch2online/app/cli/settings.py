"""The options of a run that determine its result."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from batch2online import refresh as policies
from batch2online.app.cli.tasks import task_for
from batch2online.app.inputs import DataError, FileFormat, Layout
from batch2online.frames.preparation import MAX_CATEGORIES
from batch2online.refresh import Policy


@dataclass(frozen=True, kw_only=True)
class Settings(FileFormat):
    """The options of ``batch2online run`` that determine its result."""

    task: str
    model: str | None = None
    sets: tuple[str, ...] = ()
    k: int | None = None
    z: float = 2.0
    target: str | None = None
    loss: str | None = None
    alpha: float | None = None
    l1_ratio: float | None = None
    quantile: float | None = None
    power: float | None = None
    delta: float | None = None
    class_weight: str | None = None
    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    standardize: bool = False
    epsilon: float | None = None
    coreset_size: int | None = None
    memory: str | None = None
    churn_price: float | None = None
    refresh: str | None = None
    half_life: str | None = None
    window: int | None = None
    history: str = "coreset"
    order: str = "given"
    seed: int = 0
    missing: str = "refuse"
    categories: str = "encode"
    unknown: str = "other"
    max_levels: int = MAX_CATEGORIES
    dates: str = "number"
    lookahead: int | None = None

    def shared(self) -> dict[str, Any]:
        """Return the parameters that all estimators have."""
        shared: dict[str, Any] = {"coreset_size": self.coreset_size, "random_state": self.seed}
        shared["refresh"] = None if self.refresh is None else parse_refresh(self.refresh)
        if self.half_life is not None:
            shared["half_life"] = parse_half_life(self.half_life)
        if self.window is not None:
            shared["window"] = self.window
        return shared if self.epsilon is None else {**shared, "epsilon": self.epsilon}

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of these settings that are not None."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def estimator(self) -> Any:
        """Return an unfitted estimator with these settings."""
        return task_for(self).estimator()

    def layout(self, **further: Any) -> Layout:
        """Return how files are read."""
        known = {field.name: getattr(self, field.name) for field in fields(FileFormat)}
        return Layout(min_rows=min(self.lookahead or 1, 1 << 40), **known, **further)

    def command(self, paths: Sequence[str], dataset: str | None) -> str:
        """Return a command line that repeats the run."""
        words = ["batch2online", "run", *(paths or (["--dataset", dataset] if dataset else []))]
        for field in _ordered_fields():
            value = getattr(self, field.name)
            if field.name == "header" and not value:
                words.append("--no-header")
            elif field.name == "sets":
                words += [word for each in value for word in ("--set", each)]
            elif value != field.default and value is not None:
                words.append("--estimator" if field.name == "model" else f"--{field.name.replace('_', '-')}")
                words += [] if value is True else [listed(value) if isinstance(value, tuple) else str(value)]
        return shlex.join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return all settings as JSON values."""
        values = {field.name: getattr(self, field.name) for field in _ordered_fields()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _ordered_fields() -> list[Any]:
    """Return the fields of :class:`Settings`, those of :class:`FileFormat` last."""
    of_file = {field.name for field in fields(FileFormat)}
    return sorted(fields(Settings), key=lambda field: field.name in of_file)


def listed(values: Sequence[str]) -> str:
    """Return strings separated by commas, those with a comma quoted.

    >>> listed(["a", "b, c"])
    'a,"b, c"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


_POLICIES: dict[str, tuple[type[Policy], tuple[type, ...]]] = {
    "every": (policies.Every, (int,)),
    "every-step": (policies.EveryStep, ()),
    "on-change": (policies.OnChange, ()),
    "geometric": (policies.Geometric, (float,)),
    "adaptive": (policies.Adaptive, (float, float, float)),
}


def parse_half_life(value: str) -> int | str:
    """Parse ``--half-life``.

    >>> parse_half_life("10000"), parse_half_life("auto")
    (10000, 'auto')
    """
    if value == "auto":
        return value
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise DataError(f"--half-life {value!r} is neither a positive integer nor auto.")
    return int(value)


def parse_refresh(value: str) -> Policy:
    """Parse ``--refresh``: the name of a policy and its parameters.

    >>> parse_refresh("geometric:1.2")
    Geometric(growth=1.2, start=None)
    >>> parse_refresh("every-step"), parse_refresh("every:1000")
    (EveryStep(start=None), Every(rows=1000, start=None))
    """
    name, _, numbers = value.partition(":")
    if name not in _POLICIES:
        raise DataError(f"--refresh {value!r} is unknown: choose {', '.join(_POLICIES)}, such as geometric:1.1.")
    policy, types = _POLICIES[name]
    given = numbers.split(",") if numbers else []
    try:
        return policy(*(convert(number) for convert, number in zip(types, given, strict=len(given) > len(types))))
    except (TypeError, ValueError) as error:
        raise DataError(f"--refresh {value!r} has invalid parameters of {name}: {error}") from error
