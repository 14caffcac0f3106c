"""The measured parts of README.md and docs/*.md, each between two marks: pure functions of the stored results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.suite import speed
from benchmarks.suite.markdown import of_study
from benchmarks.suite.stored import ROOT

END = "<!-- end of results -->"
PLACE = re.compile(rf"<!-- results: (\S+) -->\n.*?{END}", re.DOTALL)
Results = dict[str, dict[str, Any]]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def begin(name: str) -> str:
    return f"<!-- results: {name} -->"


def filled(text: str, results: Results) -> str:
    """The text of a page with its measured parts written from the results."""
    return PLACE.sub(lambda found: rendered(found[1], results), text)


def rendered(name: str, results: Results) -> str:
    """A measured part, with its marks; what is not stored is said to be missing."""
    if name not in results:
        missing = f"Not measured with this version; `python -m benchmarks.suite --only studies/{name} --keep` does it."
        return "\n".join([begin(name), missing, END])
    parts = speed.section(results[name]) if name == "speed" else _tables(results[name])
    return "\n".join([begin(name), *parts, END])


def _tables(result: dict[str, Any]) -> Iterator[str]:
    """A text that several tables share stands above the first of them."""
    said = ""
    for table in result["tables"]:
        if table["title"]:
            yield f"### {table['title']}\n"
        if table["text"] != said:
            yield f"{table['text']} {origin(result)}\n"
        said = table["text"]
        if table["note"]:
            yield f"{table['note']}\n"
        yield from of_study(table)
        yield ""


def origin(result: dict[str, Any]) -> str:
    """The command, the commit, the date and the kind of machine of a result."""
    machine = result["machine"]
    busy = ", busy with other work, which affects times only" if machine["busy"] else ""
    where = f"{machine['processor']}, {machine['cores']} cores{busy}"
    return f"(`{result['command']}`, commit {result['commit'][:8]}, {result['date']}, {where}.)"
