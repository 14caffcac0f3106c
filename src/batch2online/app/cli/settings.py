"""The options of a run that determine its result."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from batch2online.app.inputs import DataError, FileFormat, Layout
from batch2online.app.learners import all_options, flag, options_of
from batch2online.declaration import Setting


@dataclass(frozen=True, kw_only=True)
class Settings(FileFormat):
    """The options of ``batch2online run`` that determine its result.

    ``learner`` holds those that were given of the settings of estimators, see :mod:`batch2online.settings`.
    """

    task: str
    model: str | None = None
    sets: tuple[str, ...] = ()
    learner: Mapping[str, Any] = field(default_factory=dict)
    target: str | None = None
    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    standardize: bool = False
    order: str = "given"
    missing: str = "indicator"
    categories: str = "encode"
    unknown: str = "other"
    max_levels: int = 100
    dates: str = "number"
    lookahead: int | None = None

    @classmethod
    def written(cls, options: Mapping[str, Any]) -> Settings:
        """Return the settings of options as a command line or the file of a run has them: strings, numbers, lists."""
        own = {each.name for each in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
        }
        known = options_of(given["task"], given.get("model") is not None)
        learner = {name: value for name, value in given.items() if name in all_options() and value is not None}
        for name in learner.keys() & known.keys():
            try:
                if isinstance(learner[name], str):
                    learner[name] = known[name].parsed(learner[name])
            except ValueError as error:
                raise DataError(str(error).replace(name, flag(name), 1)) from error
        return cls(learner=learner, **{name: value for name, value in given.items() if name in own})

    @property
    def options(self) -> dict[str, Setting]:
        """The settings of the estimator of the task, by the names of their options."""
        return options_of(self.task, self.model is not None)

    @property
    def seed(self) -> int:
        """Seed of all random draws."""
        return int(self.learner.get("seed", 0))

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of these options of the estimator that were given."""
        return {name: self.learner[name] for name in names if name in self.learner}

    def of_columns(self) -> dict[str, Any]:
        """Return the parameters of :class:`batch2online.Columns`."""
        return {
            "missing": "refuse" if self.missing == "drop" else self.missing,
            "unknown": self.unknown,
            "max_levels": self.max_levels,
            "dates": self.dates,
            "standardize": self.standardize,
            "keep": self.columns,
            **({} if self.lookahead is None else {"first_rows": self.lookahead}),
        }

    def layout(self, **further: Any) -> Layout:
        """Return how files are read."""
        known = {field.name: getattr(self, field.name) for field in fields(FileFormat)}
        return Layout(min_rows=min(self.lookahead or 1, 1 << 40), **known, **further)

    def command(self, paths: Sequence[str], dataset: str | None) -> str:
        """Return a command line that repeats the run."""
        words = ["batch2online", "run", *(paths or (["--dataset", dataset] if dataset else [])), "--task", self.task]
        words += [] if self.model is None else ["--estimator", self.model]
        words += [word for each in self.sets for word in ("--set", each)]
        for name, value in self.learner.items():
            words += (
                [flag(name), str(value)] if not isinstance(value, bool) else [flag(name if value else f"no-{name}")]
            )
        for each in self._of_tables():
            value = getattr(self, each.name)
            if value != each.default:
                words.append("--no-header" if each.name == "header" else flag(each.name))
                words += [] if isinstance(value, bool) else [listed(value) if isinstance(value, tuple) else str(value)]
        return shlex.join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return all settings as JSON values; :meth:`written` takes them back."""
        learner = {name: self.learner.get(name, each.written_default) for name, each in self.options.items()}
        values = {each.name: getattr(self, each.name) for each in self._of_tables()}
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"task": self.task, "model": self.model, "sets": list(self.sets), **learner, **values}

    @staticmethod
    def _of_tables() -> list[Any]:
        """Return the fields about columns and rows, then those about files."""
        of_file = {each.name for each in fields(FileFormat)}
        others = [each for each in fields(Settings) if each.name not in ("task", "model", "sets", "learner")]
        return sorted(others, key=lambda each: each.name in of_file)


def listed(values: Sequence[str]) -> str:
    """Return strings separated by commas, those with a comma quoted.

    >>> listed(["a", "b, c"])
    'a,"b, c"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
