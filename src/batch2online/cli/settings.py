"""What a run was asked to do."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, fields
from typing import Any

from batch2online import refresh as policies
from batch2online.cli.tasks import task_for
from batch2online.readers import DataError
from batch2online.refresh import Policy


@dataclass(frozen=True)
class Settings:
    """The options of ``batch2online run`` that decide its result."""

    task: str
    k: int | None = None
    z: float = 2.0
    target: str | None = None
    columns: tuple[str, ...] = ()
    standardize: bool = False
    epsilon: float | None = None
    coreset_size: int | None = None
    refresh: str | None = None
    history: str = "coreset"
    order: str = "given"
    seed: int = 0
    missing: str = "refuse"
    categories: str = "encode"
    lookahead: int = 10_000
    header: bool = True
    format: str | None = None

    def shared(self) -> dict[str, Any]:
        """Parameters that all estimators take."""
        shared: dict[str, Any] = {"coreset_size": self.coreset_size, "random_state": self.seed}
        shared["refresh"] = None if self.refresh is None else parse_refresh(self.refresh)
        return shared if self.epsilon is None else {**shared, "epsilon": self.epsilon}

    def estimator(self) -> Any:
        """Return a fresh estimator with these settings."""
        return task_for(self).estimator()

    def command(self, path: str | None, dataset: str | None) -> str:
        """Return the command line that does the same again."""
        words = ["batch2online", "run", *([path] if path is not None else ["--dataset", str(dataset)])]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "header" and not value:
                words.append("--no-header")
            elif value != field.default and value is not None:
                words.append(f"--{field.name.replace('_', '-')}")
                words += [] if value is True else [",".join(value) if isinstance(value, tuple) else str(value)]
        return shlex.join(words)

    def as_dict(self) -> dict[str, Any]:
        """All of them, as JSON knows them."""
        return asdict(self) | {"columns": list(self.columns)}


_POLICIES: dict[str, tuple[type[Policy], tuple[type, ...]]] = {
    "every-step": (policies.EveryStep, ()),
    "on-change": (policies.OnChange, ()),
    "geometric": (policies.Geometric, (float,)),
    "adaptive": (policies.Adaptive, (float, float, float)),
    "lazy": (policies.Lazy, (float, float)),
    "budget": (policies.Budget, (int, int)),
}


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
