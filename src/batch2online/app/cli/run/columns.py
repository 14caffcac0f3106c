"""Which columns of an input a model reads."""

from __future__ import annotations

from collections.abc import Sequence

from batch2online.app.cli.settings import Settings
from batch2online.app.inputs import Batch, DataError, Kind, Remedy
from batch2online.app.inputs.batch import mismatch
from batch2online.app.inputs.deciding import counting_columns, identifiers
from batch2online.app.inputs.preparation import Preparation


def chosen(names: Sequence[str], name: str, settings: Settings) -> list[str]:
    """Return the columns that were asked for, in the order asked for."""
    targets = [] if settings.target is None else [settings.target]
    wanted = list(settings.columns) or [column for column in names if column not in targets]
    if len(set(wanted)) < len(wanted):
        raise DataError(f"--columns names {next(c for c in wanted if wanted.count(c) > 1)!r} more than once.")
    known = set(names)
    for column in [*wanted, *targets, *settings.exclude]:
        if column not in known:
            raise DataError(f"{name} has no column {column!r}; it has {_listed(names)}.", *_other_names(names))
    if settings.target in wanted:
        raise DataError(f"{settings.target!r} cannot be both an input and the target.")
    return [column for column in wanted if column not in settings.exclude]


def _other_names(names: Sequence[str]) -> list[Remedy]:
    return [Remedy.SEPARATOR] if len(names) == 1 else []


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def left_out(
    first: Sequence[Batch], inputs: Sequence[str], kinds: dict[str, Kind], settings: Settings
) -> dict[str, str]:
    """Return the columns that nobody has asked for and no model can use, and what to say of each."""
    asked = set(settings.columns)
    free = [column for column in inputs if column not in asked]
    counts = counting_columns(first, free)
    text = [column for column in free if kinds[column] is Kind.TEXT and column not in counts]
    found = {column: f"column {column!r} is left out: it numbers or names the rows" for column in counts}
    if settings.unknown != "refuse" and settings.categories == "encode":
        differing = identifiers(first, text, settings.max_levels)
        found |= {column: f"column {column!r} is left out: nearly every text in it is another" for column in differing}
    return found


def check_columns(names: Sequence[str], kinds: dict[str, Kind], name: str, known: Preparation) -> None:
    """Refuse an input that lacks a column, or holds something else in it than was prepared for."""
    for column, kind in known.column_kinds.items():
        if column not in kinds:
            raise DataError(f"{name} has no column {column!r}, which the model needs.")
        if kinds[column] is not kind:
            raise DataError(f"{name}: {mismatch(column, kind, kinds[column])}")
