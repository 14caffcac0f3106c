"""The parts of a report as data, and their HTML. Every string is escaped here; terms get a tooltip."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
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
    """A cell with a horizontal bar: a value, and half the width of its interval."""

    value: float
    half: float = 0.0


@dataclass(frozen=True)
class Shade:
    """A cell with a number, shaded by its size relative to the largest: blue if positive, orange if negative."""

    value: float
    most: float


Cell = str | Bar | Shade


@dataclass(frozen=True)
class Table:
    """A table that a script makes sortable; without ``heads`` the first cell of each row is its name."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    tall: bool = False
    wide: bool = True

    def html(self) -> str:
        """Return the table in its card; a tall one scrolls."""
        kind = "card tall" if self.tall else "card"
        return f'<div class="{kind}">{self.plain("sortable" if self.heads else "")}</div>'

    def plain(self, kind: str = "") -> str:
        """Return the table; columns of numbers are right-aligned, and bars of a column have one scale."""
        columns = list(zip(*self.rows, strict=True))
        kinds = [' class="number"' if all(map(_is_number, column)) else "" for column in columns]
        kinds = kinds if self.heads else ["" for _ in kinds]
        tags = ["td" if self.heads or j else "th" for j in range(len(columns))]
        bars = [[cell for cell in column if isinstance(cell, Bar)] for column in columns]
        most = [max((abs(bar.value) + bar.half for bar in column), default=0.0) or 1.0 for column in bars]
        signed = [any(bar.value < bar.half for bar in column) for column in bars]
        titles = "".join(f"<th{_}>{with_tooltips(head)}</th>" for _, head in zip(kinds, self.heads, strict=False))
        top = f"<thead><tr>{titles}</tr></thead>" if self.heads else ""
        lines = ["".join(map(_cell, row, kinds, most, signed, tags)) for row in self.rows]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        name = f' class="{kind}"' if kind else ""
        return f"<table{name}>{top}<tbody>{body}</tbody></table>"


_NUMBER = re.compile(r"(?:-?[\d,.]+(?:e[-+]?\d+)?(?: ?%)?(?: to )?)*")


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, Shade) or (isinstance(cell, str) and _NUMBER.fullmatch(cell) is not None)


def _cell(cell: Cell, kind: str, most: float, is_signed: bool, tag: str) -> str:
    """Return a cell; the value of a bar is its tooltip, and the key that rows are sorted by."""
    if isinstance(cell, str):
        return f"<{tag}{kind}>{escape(cell)}</{tag}>"
    if isinstance(cell, Shade):
        shade = round(9 * abs(cell.value) / cell.most)
        name = f" {'p' if cell.value >= 0 else 'n'}{shade}" if shade else ""
        return f'<td class="number{name}">{cell.value:z.2f}</td>'
    end, half = 100 * cell.value / most, 100 * cell.half / most
    box = "-100 0 200 12" if is_signed else "0 0 100 12"
    whisker = f'<path d="M{end - half:.1f} 6h{2 * half:.1f}"/>' if half else ""
    colour = "accent" if end >= 0 else "second"
    return (
        f'<td data-value="{abs(cell.value):.6g}"><svg class="bar" viewBox="{box}" preserveAspectRatio="none">'
        f"<title>{cell.value:.4g}</title>"
        f'<rect class="{colour}" x="{min(end, 0):.1f}" width="{abs(end):.1f}" height="12"/>{whisker}</svg></td>'
    )


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
