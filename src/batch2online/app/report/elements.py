"""HTML elements, and tooltips of terms. Every string is escaped here."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

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


def with_tooltips(content: str) -> str:
    """Return HTML with a tooltip at the first mention of each term.

    >>> with_tooltips("a coreset, and another coreset")
    'a <abbr title="weighted subset of the rows that represents all rows">coreset</abbr>, and another coreset'
    """
    seen: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        term = found[0]
        if term in seen:
            return term
        seen.add(term)
        return f'<abbr title="{TOOLTIPS[term]}">{term}</abbr>'

    return _TERMS.sub(mark, content)


def escape(value: object) -> str:
    """Return a value as an escaped string."""
    return html.escape(visible(value))


def section(title: str, lead: str, *content: str) -> str:
    """Return a section: a heading, a paragraph, figures and tables."""
    head = [f"<h2>{escape(title)}</h2>", f"<p>{with_tooltips(escape(lead))}</p>"]
    return "\n".join(["<section>", *head, *filter(None, content), "</section>"])


def tile(value: str, meaning: str) -> str:
    """Return a large number with a description."""
    return f'<div class="tile"><b>{escape(value)}</b><span>{with_tooltips(escape(meaning))}</span></div>'


def figure(chart: Chart, caption: str = "") -> str:
    """Return a chart: its description for scripts, the same as SVG, and a caption."""
    under = f"<figcaption>{with_tooltips(escape(caption))}</figcaption>" if caption else ""
    data = f'<script type="application/json">{chart.json()}</script>'
    return f'<figure class="chart{" wide" if chart.wide else ""}">{data}{chart.svg()}{under}</figure>'


def pair(*parts: str) -> str:
    """Place parts side by side, two in a row; a single one has the whole width."""
    return parts[0] if len(parts) == 1 else f'<div class="pair">{"".join(parts)}</div>'


def card_grid(cards: Sequence[str]) -> str:
    """Place cards side by side."""
    return f'<div class="cards">{"".join(cards)}</div>'


def note(sentence: str) -> str:
    """Return a sentence above a table."""
    return f'<p class="note">{with_tooltips(escape(sentence))}</p>'


def warning(message: str) -> str:
    """Return a highlighted message; nothing if it is empty."""
    return f'<p class="warning">{with_tooltips(escape(message))}</p>' if message else ""


def table(rows: list[tuple[str, str]], tall: bool = False) -> str:
    """Return a table of names and values."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f'<div class="card{" tall" if tall else ""}"><table><tbody>{body}</tbody></table></div>'


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
        level = round(9 * abs(self.value) / self.most)
        kind = f" {'p' if self.value >= 0 else 'n'}{level}" if level else ""
        return f'<td class="number{kind}">{self.value:z.2f}</td>'


Cell = str | Bar | Shade
_NUMBER = re.compile(r"(?:-?[\d,.]+(?:e[-+]?\d+)?(?: ?%)?(?: to )?)*")


def listing(heads: Sequence[str], rows: Sequence[Sequence[Cell]], tall: bool = False) -> str:
    """Return a table with a header, which a script makes sortable; columns of numbers are right-aligned."""
    numeric = [all(_is_number(row[j]) for row in rows) for j in range(len(heads))]
    kinds = [' class="number"' if each else "" for each in numeric]
    top = "".join(f"<th{kind}>{with_tooltips(escape(head))}</th>" for kind, head in zip(kinds, heads, strict=True))
    lines = ["".join(_cell(cell, kind) for kind, cell in zip(kinds, row, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="card{" tall" if tall else ""}"><table class="sortable"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, Shade) or (isinstance(cell, str) and _NUMBER.fullmatch(cell) is not None)


def _cell(cell: Cell, kind: str) -> str:
    return f"<td{kind}>{escape(cell)}</td>" if isinstance(cell, str) else cell.html()


def fold(title: str, content: str) -> str:
    """Return content that is shown when its title is opened."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"
