"""Pieces of HTML. Every text that comes from outside is escaped here, and cannot steer a terminal either."""

from __future__ import annotations

import html

from batch2online.report.text import visible


def escape(text: object) -> str:
    """Return the text as HTML shows it, letter by letter."""
    return html.escape(visible(text))


def section(title: str, lead: str, *content: str) -> str:
    """Return a part of the page: a heading, a sentence or two, figures and tables."""
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", f"<p>{escape(lead)}</p>", *content, "</section>"])


def tile(number: str, meaning: str) -> str:
    """Return a number in large print, and what it says."""
    return f'<div class="tile"><b>{escape(number)}</b><span>{escape(meaning)}</span></div>'


def figure(svg: str, caption: str = "", wide: bool = False) -> str:
    """Return a drawing with a caption."""
    under = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="wide">{svg}{under}</figure>' if wide else f"<figure>{svg}{under}</figure>"


def pair(*parts: str) -> str:
    """Two parts side by side."""
    return f'<div class="pair">{"".join(parts)}</div>'


def table(rows: list[tuple[str, str]], tall: bool = False) -> str:
    """Names and values, one pair a line."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f'<div class="card{" tall" if tall else ""}"><table><tbody>{body}</tbody></table></div>'


def number(value: float) -> str:
    """Return a number for a sentence.

    >>> number(1009660.3), number(0.04218)
    ('1,009,660', '0.04218')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
