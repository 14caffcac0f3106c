"""The parts of a report as data, and their HTML. Every string is escaped here; terms get a tooltip."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from batch2online.app.report.charts import Chart
from batch2online.app.report.formatting import visible

TOOLTIPS = {
    "hindsight": "the best single model for all rows, computed once they are all known",
    "coreset": "weighted subset of the rows that represents all rows",
    "regret": "online loss minus the loss of the best model in hindsight",
    "churn": "fraction of all rows whose cluster label changed",
    "change": "replacement of the model by a new one",
    "changes": "replacements of the model by a new one",
    "R2": "coefficient of determination: 1 is perfect, 0 is as good as the mean",
    "RMSE": "root mean squared error, in the units of the target",
    "MAE": "mean absolute error, in the units of the target",
    "silhouette": "how much closer rows are to their own cluster than to the next one, from -1 to 1",
    "variance kept": "fraction of the sum of squares of all rows that the components explain",
    "mean distance": "mean distance of a row to the nearest center, in the units of the columns",
    "weight": "number of rows that a row of the coreset represents",
    "weights": "numbers of rows that the rows of the coreset represent",
    "evidence": "decimal logarithm of the evidence against random order",
    "principal component": "direction of largest variance",
    "principal components": "directions of largest variance",
    "95 % interval": "contains the true value with probability 95 %, if errors are independent",
    "warm-up": "rows before the first model, predicted by the mean of those before them",
    "log loss": "mean negative logarithm of the probability of the true class",
    "logit": "logarithm of the odds of a class, up to a constant shared by all classes",
    "ROC curve": "true positive rate against false positive rate, over all thresholds",
    "accuracy": "fraction of correctly classified rows",
    "recall": "fraction of the rows of a class that are predicted as that class",
    "permutation importance": "increase of the loss if the values of a feature are shuffled",
}
_TERMS = re.compile("|".join(rf"\b{re.escape(term)}(?!\w)" for term in sorted(TOOLTIPS, key=len, reverse=True)))


def escape(value: object) -> str:
    """Return a value as an escaped string."""
    return html.escape(visible(value))


def with_tooltips(sentence: str) -> str:
    """Return an escaped sentence with a tooltip at the first mention of each term.

    >>> with_tooltips("a coreset & another coreset")
    'a <abbr title="weighted subset of the rows that represents all rows">coreset</abbr> &amp; another coreset'
    """
    seen: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        term = found[0]
        if term in seen:
            return term
        seen.add(term)
        return f'<abbr title="{TOOLTIPS[term]}">{term}</abbr>'

    return _TERMS.sub(mark, escape(sentence))


def capitalized(words: str) -> str:
    """Return words with a capital first letter."""
    return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Bar:
    """A cell with a horizontal bar: a value relative to the largest, and half the width of its interval."""

    value: float
    most: float
    half: float = 0.0
    is_signed: bool = False

    def html(self) -> str:
        """Return the cell; its value is its tooltip, and the key that rows are sorted by."""
        end, half = 100 * self.value / self.most, 100 * self.half / self.most
        box = "-100 0 200 12" if self.is_signed else "0 0 100 12"
        kind = "accent" if self.value >= 0 else "second"
        whisker = f'<path d="M{end - half:.1f} 6h{2 * half:.1f}"/>' if half else ""
        return (
            f'<td data-value="{abs(self.value):.6g}"><svg class="bar" viewBox="{box}" preserveAspectRatio="none">'
            f"<title>{self.value:.4g}</title>"
            f'<rect class="{kind}" x="{min(end, 0):.1f}" width="{abs(end):.1f}" height="12"/>{whisker}</svg></td>'
        )


@dataclass(frozen=True)
class Shade:
    """A cell with a number, shaded by its size relative to the largest: blue if positive, orange if negative."""

    value: float
    most: float

    def html(self) -> str:
        """Return the cell."""
        shade = round(9 * abs(self.value) / self.most)
        kind = f" {'p' if self.value >= 0 else 'n'}{shade}" if shade else ""
        return f'<td class="number{kind}">{self.value:z.2f}</td>'


Cell = str | Bar | Shade
_NUMBER = re.compile(r"(?:-?[\d,.]+(?:e[-+]?\d+)?(?: ?%)?(?: to )?)*")


@dataclass(frozen=True)
class Table:
    """A table, sortable by a script if it has heads; columns of numbers are right-aligned, and a tall one scrolls."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    tall: bool = False
    wide: bool = True

    def html(self) -> str:
        """Return the table in its card."""
        return f'<div class="card{" tall" if self.tall else ""}">{self.plain("sortable")}</div>'

    def plain(self, kind: str = "plain") -> str:
        """Return the table without its card."""
        if not self.heads:
            lines = (f"<th>{escape(name)}</th><td>{escape(value)}</td>" for name, value in self.rows)
            return f"<table><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"
        kinds = [
            ' class="number"' if all(_is_number(row[j]) for row in self.rows) else "" for j in range(len(self.heads))
        ]
        heads = (f"<th{kind}>{with_tooltips(head)}</th>" for kind, head in zip(kinds, self.heads, strict=True))
        lines = ("".join(map(_cell, row, kinds)) for row in self.rows)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f'<table class="{kind}"><thead><tr>{"".join(heads)}</tr></thead><tbody>{body}</tbody></table>'


def facts(rows: Iterable[tuple[str, str]], wide: bool = True) -> Table:
    """Return a table of names and values."""
    return Table((), list(rows), wide=wide)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, Shade) or (isinstance(cell, str) and _NUMBER.fullmatch(cell) is not None)


def _cell(cell: Cell, kind: str) -> str:
    return f"<td{kind}>{escape(cell)}</td>" if isinstance(cell, str) else cell.html()


Part = Chart | Table | str
"""A part of a section; a string is HTML."""


def note(sentence: str, kind: str = "note") -> str:
    """Return a sentence between figures and tables, or a warning; nothing if it is empty."""
    return f'<p class="{kind}">{with_tooltips(sentence)}</p>' if sentence else ""


def fold(title: str, *parts: Part) -> str:
    """Return parts that are shown when their title is opened."""
    return f"<details><summary>{escape(title)}</summary>{_parts(parts)}</details>"


@dataclass(frozen=True)
class Section:
    """A title, a paragraph, and what is shown."""

    title: str
    lead: str
    parts: Sequence[Part] = ()

    def html(self) -> str:
        """Return the section."""
        head = f"<h2>{escape(self.title)}</h2><p>{with_tooltips(self.lead)}</p>"
        return f"<section>{head}{_parts(self.parts)}</section>"


def _parts(parts: Sequence[Part]) -> str:
    """Return parts below each other; charts and tables that are not wide stand side by side."""
    found = []
    for is_wide, group in groupby(parts, lambda part: isinstance(part, str) or part.wide):
        shown = [
            _figure(part) if isinstance(part, Chart) else part if isinstance(part, str) else part.html()
            for part in group
        ]
        together = "".join(shown)
        found.append(together if is_wide or len(shown) == 1 else f'<div class="pair">{together}</div>')
    return "".join(found)


def _figure(chart: Chart) -> str:
    caption = f"<figcaption>{with_tooltips(chart.note)}</figcaption>" if chart.note else ""
    return f'<figure class="chart{" wide" if chart.wide else ""}">{chart.svg()}{caption}</figure>'


def tile(value: str, meaning: str) -> str:
    """Return a large number with a description."""
    return f'<div class="tile"><b>{escape(value)}</b><span>{with_tooltips(meaning)}</span></div>'
