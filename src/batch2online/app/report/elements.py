"""Pieces of HTML. Every text that comes from outside is escaped here, and cannot steer a terminal either."""

from __future__ import annotations

import html
from collections.abc import Sequence

from batch2online.app.report.text import visible
from batch2online.app.report.words import explained
from batch2online.headline import number

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
