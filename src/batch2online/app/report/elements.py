"""Pieces of HTML, and explanations of special terms as tooltips.

Every string that comes from outside is escaped here, and cannot control a terminal either.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from batch2online.app.report.text import visible
from batch2online.headline import number

MEANINGS = {
    "hindsight": "the best single model for all rows, found once they are all known",
    "coreset": "the weighted rows that stand for all rows seen",
    "regret": "loss online, less that of the best model in hindsight",
    "churn": "share of all rows whose cluster label a change has altered",
    "change": "a row count at which the model was replaced",
    "changes": "row counts at which the model was replaced",
    "R2": "share of the variance of the target that the predictions explain: 1 is perfect, 0 as good as the mean",
    "RMSE": "root of the mean squared error, in the units of the target",
    "MAE": "mean absolute error, in the units of the target",
    "silhouette": "how much nearer rows are to their own cluster than to the next: from -1 to 1",
    "variance kept": "share of the squared length of all rows that the components hold",
    "mean distance": "mean distance of a row to the nearest center, in the units of the columns",
    "spread": "standard deviation",
    "spreads": "standard deviations",
    "weight": "how many rows a row of the coreset stands for",
    "weights": "how many rows each row of the coreset stands for",
    "evidence": "how strongly the rows speak against random order, as a power of ten",
    "principal axis": "a direction in which the rows spread most",
    "principal axes": "the directions in which the rows spread most",
    "95 % interval": "in 19 of 20 tables like this one it holds the true value, if errors are independent",
    "warm-up": "the rows before the first model, scored by the mean of those before them",
    "log loss": "mean of minus the logarithm of the probability that the true class was given",
    "logit": "logarithm of the odds of a class, up to a constant that all classes share",
    "ROC curve": "rows of a class that are found against others taken for it, for every threshold",
    "accuracy": "share of rows whose class was predicted",
}
_WORDS = re.compile("|".join(rf"\b{re.escape(word)}(?!\w)" for word in sorted(MEANINGS, key=len, reverse=True)))


def explained(text: str) -> str:
    """Return HTML text with the first mention of each special word explained.

    >>> explained("a coreset, and another coreset")
    'a <abbr title="the weighted rows that stand for all rows seen">coreset</abbr>, and another coreset'
    """
    seen: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        word = found[0]
        if word in seen:
            return word
        seen.add(word)
        return f'<abbr title="{MEANINGS[word]}">{word}</abbr>'

    return _WORDS.sub(mark, text)


__all__ = ["card_grid", "escape", "figure", "listing", "number", "pair", "scale", "section", "table", "tile", "warning"]


def escape(text: object) -> str:
    """Return the text as HTML shows it, letter by letter."""
    return html.escape(visible(text))


def section(title: str, lead: str, *content: str) -> str:
    """Return a part of the page: a heading, a sentence or two, figures and tables."""
    said = explained(escape(lead))
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", f"<p>{said}</p>", *content, "</section>"])


def tile(shown: str, meaning: str) -> str:
    """Return a number in large print, and what it says."""
    return f'<div class="tile"><b>{escape(shown)}</b><span>{explained(escape(meaning))}</span></div>'


def figure(svg: str, caption: str = "", wide: bool = False) -> str:
    """Return a drawing with a caption."""
    under = f"<figcaption>{explained(escape(caption))}</figcaption>" if caption else ""
    return f'<figure class="wide">{svg}{under}</figure>' if wide else f"<figure>{svg}{under}</figure>"


def pair(*parts: str) -> str:
    """Two parts side by side."""
    return f'<div class="pair">{"".join(parts)}</div>'


def card_grid(cards: Sequence[str]) -> str:
    """Cards side by side, as many as there is room for."""
    return f'<div class="cards">{"".join(cards)}</div>'


def warning(text: str) -> str:
    """Return a sentence that is not to be overlooked."""
    return f'<p class="warning">{explained(escape(text))}</p>'


def table(rows: list[tuple[str, str]], tall: bool = False) -> str:
    """Names and values, one pair a line."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f'<div class="card{" tall" if tall else ""}"><table><tbody>{body}</tbody></table></div>'


def listing(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1, tall: bool = False) -> str:
    """Return a table with a head; but for the last ``words`` columns, all are numbers and stand to the right."""
    numbers = len(heads) - words
    kinds = [' class="number"' if j < numbers else "" for j in range(len(heads))]
    top = "".join(f"<th{kind}>{explained(escape(head))}</th>" for kind, head in zip(kinds, heads, strict=True))
    lines = ["".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    tallness = " tall" if tall else ""
    return f'<div class="card{tallness}"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def scale(low: str, high: str) -> str:
    """Return what the colours of cells stand for."""
    return f'<div class="scale"><span>{escape(low)}</span><i></i><span>{escape(high)}</span></div>'
