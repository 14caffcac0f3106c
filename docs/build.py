"""Turn README.md and docs/*.md into pages in site/, without network; a broken link is an error.

A line ``{{ source: path }}`` or ``{{ source: path#name }}`` becomes the source of a file, or of one class or
function in it, as it is today.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from html import escape
from pathlib import Path
from string import Template

import markdown

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"
FIRST = ("README", "how-to-choose", "tutorial-regression", "tutorial-low-rank", "tutorial-clustering", "cli")
_SOURCE = re.compile(r"^\{\{ source: ([\w./-]+)(?:#(\w+))? \}\}$", re.MULTILINE)


def main() -> None:
    """Build every page."""
    shutil.rmtree(SITE, ignore_errors=True)
    SITE.mkdir()
    sources = pages()
    titles = {name: title_of(path) for name, path in sources.items()}
    template = Template((ROOT / "docs" / "template.html").read_text(encoding="utf-8"))
    for name, path in sources.items():
        content = html_of(path)
        page = template.substitute(title=titles[name], navigation=navigation(name, titles), content=content)
        (SITE / file_name(name)).write_text(page, encoding="utf-8")
    for picture in [*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs").glob("*.png")]:
        shutil.copy(picture, SITE / picture.name)
    broken = broken_links()
    if broken:
        sys.exit("\n".join(["Broken links:", *broken]))
    print(f"{len(sources)} pages, start with {SITE.name}/index.html")


def pages() -> dict[str, Path]:
    """Names and files, in the order of the navigation."""
    found = {path.stem: path for path in sorted((ROOT / "docs").glob("*.md"))}
    found["README"] = ROOT / "README.md"
    return {name: found[name] for name in [*FIRST, *(name for name in found if name not in FIRST)] if name in found}


def title_of(path: Path) -> str:
    """Return the first heading."""
    return next(line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


def file_name(name: str) -> str:
    """Where a page is written."""
    return "index.html" if name == "README" else f"{name}.html"


def html_of(path: Path) -> str:
    """Return the content of a page."""
    text = _SOURCE.sub(lambda match: live_source(*match.groups()), path.read_text(encoding="utf-8"))
    html = markdown.markdown(text, extensions=["fenced_code", "tables", "toc", "sane_lists"])
    html = re.sub(r"<table>.*?</table>", lambda match: f'<div class="scroll">{match[0]}</div>', html, flags=re.DOTALL)
    return re.sub(r'(href|src)="(?:docs/)?([\w-]+)\.(md|svg|png)', _local, html)


def _local(match: re.Match[str]) -> str:
    attribute, name, suffix = match.groups()
    return f'{attribute}="{file_name(name) if suffix == "md" else f"{name}.{suffix}"}'


def live_source(file: str, name: str | None) -> str:
    """Return a fenced block with the source of a file, or of one definition in it with its decorators."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if name is not None:
        node = next(node for node in ast.parse(text).body if getattr(node, "name", None) == name)
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        text = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return f"```python\n{text.strip()}\n```"


def navigation(current: str, titles: dict[str, str]) -> str:
    """Links to all pages."""
    lines = []
    for name, title in titles.items():
        mark = ' aria-current="page"' if name == current else ""
        shown = "Overview" if name == "README" else title
        lines.append(f'<a href="{file_name(name)}"{mark}>{escape(shown)}</a>')
    return "\n".join(lines)


def broken_links() -> list[str]:
    """Links of pages to files that are not there; links elsewhere are left alone."""
    links = re.compile(r'(?:href|src)="([^"#:]+)(?:#[^"]*)?"')
    found = [(page, link) for page in SITE.glob("*.html") for link in links.findall(page.read_text(encoding="utf-8"))]
    return [f"{page.name}: {link}" for page, link in found if not (SITE / link).exists()]


if __name__ == "__main__":
    main()
