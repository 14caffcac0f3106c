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


Cells = tuple[list[str], list[list[str]]]
"""Heads and rows of a table."""


def of_study(study: dict[str, Any]) -> Iterator[str]:
    """Return the lines of the table of a study."""
    return table(*cells_of(study))


def cells_of(study: dict[str, Any]) -> Cells:
    """Return the cells of the table of a study as text."""
    heads = list(study["columns"])
    return heads, [[_text(study, column, record) for column in heads] for record in study["records"]]


def selected(cells: Cells, columns: Sequence[str], values: dict[str, Sequence[str]]) -> Cells:
    """Return some columns, all if none are named, of the rows whose cells have one of the values of their column.

    >>> selected((["data", "k", "loss"], [["a", "5", "1.1"], ["**b**", "9", "1.2"]]), ["data", "loss"], {"data": ["b"]})
    (['data', 'loss'], [['**b**', '1.2']])
    """
    heads, rows = cells
    at = {head: _place(heads, head) for head in (*columns, *values)}
    for head, wanted in values.items():
        for value in set(wanted) - {_plain(row[at[head]]) for row in rows}:
            raise ValueError(f"{head}={value}: no row of the table has it")
    kept = [row for row in rows if all(_plain(row[at[head]]) in wanted for head, wanted in values.items())]
    return (list(columns), [[row[at[head]] for head in columns] for row in kept]) if columns else (heads, kept)


def _place(heads: list[str], head: str) -> int:
    if head not in heads:
        raise ValueError(f"no column {head!r} in the table, only {heads}")
    return heads.index(head)


def _plain(cell: str) -> str:
    """Return the text of a cell without the marks of bold letters."""
    return cell.strip("*")


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
