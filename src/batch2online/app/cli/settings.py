"""What a run was asked to do."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from batch2online import refresh as policies
from batch2online.app.cli.tasks import task_for
from batch2online.app.inputs import DataError, Layout
from batch2online.app.inputs.infer import MOST_LEVELS
from batch2online.refresh import Policy

LOOKAHEAD = 10_000
_OPTIONS = {"model": "estimator"}
_LAYOUT = ("format", "header", "sep", "decimal", "encoding", "comment", "skip_lines", "bad_lines", "na_values",
            "date_format", "query")  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The options of ``batch2online run`` that decide its result."""

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
    refresh: str | None = None
    half_life: str | None = None
    window: int | None = None
    history: str = "coreset"
    order: str = "given"
    seed: int = 0
    missing: str = "refuse"
    categories: str = "encode"
    unknown: str = "other"
    max_levels: int = MOST_LEVELS
    dates: str = "number"
    lookahead: int | None = None
    header: bool = True
    format: str | None = None
    sep: str | None = None
    decimal: str = "."
    encoding: str | None = None
    comment: str | None = None
    skip_lines: int = 0
    bad_lines: str = "refuse"
    na_values: tuple[str, ...] = ()
    date_format: str | None = None
    query: str | None = None

    def shared(self) -> dict[str, Any]:
        """Parameters that all estimators take."""
        shared: dict[str, Any] = {"coreset_size": self.coreset_size, "random_state": self.seed}
        shared["refresh"] = None if self.refresh is None else parse_refresh(self.refresh)
        if self.half_life is not None:
            shared["half_life"] = parse_half_life(self.half_life)
        if self.window is not None:
            shared["window"] = self.window
        return shared if self.epsilon is None else {**shared, "epsilon": self.epsilon}

    def linear(self, *names: str) -> dict[str, Any]:
        """Parameters of a linear model that were given, out of these."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def estimator(self) -> Any:
        """Return a fresh estimator with these settings."""
        return task_for(self).estimator()

    def layout(self, **further: Any) -> Layout:
        """Return how files are read."""
        return Layout(
            least_rows=min(self.lookahead or 1, 1 << 40), **{name: getattr(self, name) for name in _LAYOUT}, **further
        )

    def command(self, paths: Sequence[str], dataset: str | None) -> str:
        """Return the command line that does the same again."""
        words = ["batch2online", "run", *(paths or ["--dataset", str(dataset)])]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "header" and not value:
                words.append("--no-header")
            elif field.name == "sets":
                words += [word for each in value for word in ("--set", each)]
            elif value != field.default and value is not None:
                words.append(f"--{_OPTIONS.get(field.name, field.name).replace('_', '-')}")
                words += [] if value is True else [listed(value) if isinstance(value, tuple) else str(value)]
        return shlex.join(words)

    def as_dict(self) -> dict[str, Any]:
        """All of them, as JSON knows them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def listed(values: Sequence[str]) -> str:
    """Return texts as an option takes them, those with a comma in quotes.

    >>> listed(["a", "b, c"])
    'a,"b, c"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


_POLICIES: dict[str, tuple[type[Policy], tuple[type, ...]]] = {
    "every-step": (policies.EveryStep, ()),
    "on-change": (policies.OnChange, ()),
    "geometric": (policies.Geometric, (float,)),
    "adaptive": (policies.Adaptive, (float, float, float)),
    "lazy": (policies.Lazy, (float, float)),
    "budget": (policies.Budget, (int, int)),
}


def parse_half_life(text: str) -> int | str:
    """Return a half-life from what stands on the command line.

    >>> parse_half_life("10000"), parse_half_life("auto")
    (10000, 'auto')
    """
    if text == "auto":
        return text
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise DataError(f"--half-life {text!r} is neither a number of rows nor auto.")
    return int(text)


def parse_refresh(text: str) -> Policy:
    """Return a refresh policy from its name and numbers.

    >>> parse_refresh("lazy:1.2,0.01")
    Lazy(growth=1.2, tolerance=0.01, start=None)
    >>> parse_refresh("every-step")
    EveryStep(start=None)
    """
    name, _, numbers = text.partition(":")
    if name not in _POLICIES:
        raise DataError(f"--refresh {text!r} is unknown: choose {', '.join(_POLICIES)}, such as geometric:1.1.")
    policy, types = _POLICIES[name]
    given = numbers.split(",") if numbers else []
    try:
        return policy(*(convert(number) for convert, number in zip(types, given, strict=len(given) > len(types))))
    except (TypeError, ValueError) as error:
        raise DataError(f"--refresh {text!r} is no setting of {name}: {error}") from error
