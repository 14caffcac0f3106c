"""The options of a run that determine its result."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from batch2online.app.inputs import DataError, Layout
from batch2online.app.learners import all_options, flag, options_of
from batch2online.app.options import ColumnOptions, FileFormat, RowOptions, file_format
from batch2online.declaration import Setting, settings_of


@dataclass(frozen=True, kw_only=True)
class Settings(FileFormat, ColumnOptions, RowOptions):
    """The options of ``batch2online run`` that determine its result.

    ``learner`` holds those that were given of the settings of estimators, see :mod:`batch2online.settings`.
    """

    task: str
    model: str | None = None
    sets: tuple[str, ...] = ()
    learner: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def written(cls, options: Mapping[str, Any]) -> Settings:
        """Return the settings of options as a command line or the file of a run has them: strings, numbers, lists."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in options.items()
            if value is not None
        }
        task, model, sets = given["task"], given.get("model"), given.get("sets", ())
        known = options_of(task, model is not None)
        try:
            tables = {each.name: each.parsed(given[each.name]) for each in _TABLES if each.name in given}
            learner = {name: each.parsed(given[name]) for name, each in known.items() if name in given}
        except ValueError as error:
            raise of_option(error) from error
        learner |= {name: given[name] for name in all_options().keys() - known.keys() if name in given}
        return cls(task=task, model=model, sets=sets, learner=learner, **tables)

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
        """Return the parameters of :class:`batch2online.Columns`; columns are selected as files are read."""
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
        return Layout(min_rows=min(self.lookahead or 1, 1 << 40), **format_of(vars(self)), **further)

    def command(self, paths: Sequence[str], dataset: str | None) -> str:
        """Return a command line that repeats the run."""
        source = paths or (["--dataset", dataset] if dataset else [])
        words = ["batch2online", "run", *source, "--task", self.task]
        words += [] if self.model is None else ["--estimator", self.model]
        words += [word for each in self.sets for word in ("--set", each)]
        changed = {each.name: getattr(self, each.name) for each in _TABLES if getattr(self, each.name) != each.default}
        for name, value in (*self.learner.items(), *changed.items()):
            words.append(flag(name if value is not False else f"no-{name}"))
            words += [] if isinstance(value, bool) else [listed(value) if isinstance(value, tuple) else str(value)]
        return shlex.join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return all settings as JSON values; :meth:`written` takes them back."""
        learner = {name: self.learner.get(name, each.written_default) for name, each in self.options.items()}
        values = {each.name: getattr(self, each.name) for each in _TABLES}
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"task": self.task, "model": self.model, "sets": list(self.sets), **learner, **values}


_TABLES = (*settings_of(ColumnOptions), *settings_of(RowOptions), *settings_of(FileFormat))


def format_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the format of a file from options as they were written."""
    try:
        return file_format(given)
    except ValueError as error:
        raise of_option(error) from error


def of_option(error: ValueError) -> DataError:
    """Return an error that begins with the name of a setting as one that begins with its option."""
    name, _, rest = str(error).partition(" ")
    return DataError(f"{flag(name)} {rest}")


def listed(values: Sequence[str]) -> str:
    """Return strings separated by commas, those with a comma quoted.

    >>> listed(["a", "b, c"])
    'a,"b, c"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
