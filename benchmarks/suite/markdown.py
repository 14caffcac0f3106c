"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table.

    >>> list(table(["a", "b"], [["1", "2"]]))
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def of_study(study: dict[str, Any]) -> Iterator[str]:
    """The table of a study."""
    return table(
        study["columns"], ([_text(study, column, record) for column in study["columns"]] for record in study["records"])
    )


def _text(study: dict[str, Any], column: str, record: dict[str, Any]) -> str:
    value = record.get(column)
    if isinstance(value, dict):
        return _of_cell(value, least=min(r[column]["ratio"] for r in study["records"] if column in r))
    return written(value, study["formats"].get(column, ".4f"))


def written(value: Any, fraction: str = ".4f") -> str:
    """A value as text.

    >>> written(1.00567), written(12345), written("flights"), written(None)
    ('1.0057', '12,345', 'flights', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return format(value, fraction)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _of_cell(cell: dict[str, Any], least: float) -> str:
    """Loss over hindsight, in bold where it is the least; deviation; changes in brackets."""
    if cell["deviation"] is None:
        ratio = format(cell["ratio"], ".3f" if cell["ratio"] < 100 else ".3g")
        return f"{ratio} ({cell['changes']:.0f})"
    ratio = f"{cell['ratio']:.4f}"
    ratio = f"**{ratio}**" if cell["ratio"] == least else ratio
    return f"{ratio} ± {cell['deviation']:.4f} ({cell['changes']:.0f})"
