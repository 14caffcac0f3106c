"""The measured parts of the pages, each between two marks: pure functions of the stored results.

``<!-- results: NAME -->`` is a whole study, with its text. ``<!-- results: NAME | table=1 | columns=a; b | a=x; y -->``
is a selection: some columns of one table, and the rows whose cell in column ``a`` is ``x`` or ``y``; the page around it
explains them. ``benchmarks/results/README.md`` shows every result as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.suite import speed
from benchmarks.suite.markdown import Cells, cells_of, of_study, selected, table
from benchmarks.suite.stored import ROOT

END = "<!-- end of results -->"
PLACE = re.compile(rf"<!-- results: (\S+)((?: \| [^\n|]+)*) -->\n.*?{END}", re.DOTALL)
Results = dict[str, dict[str, Any]]


def pages() -> list[Path]:
    """Return the pages that may have measured parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def every_table(results: Results) -> str:
    """Return the page that shows all results as a whole."""
    head = "# Measured results\n\nWritten by `make docs-tables` from the files of this folder.\n"
    return "\n".join([head, *(f"## {name}\n\n{rendered(name, results)}\n" for name in sorted(results))])


def begin(name: str, selection: str = "") -> str:
    return f"<!-- results: {name}{selection} -->"


def filled(text: str, results: Results) -> str:
    """Return the text of a page with its measured parts written from the results."""
    return PLACE.sub(lambda found: rendered(found[1], results, found[2]), text)


def rendered(name: str, results: Results, selection: str = "") -> str:
    """Return a measured part with its marks; a note if nothing is stored under this name."""
    if name not in results:
        parts = [f"Not measured with this version; `python -m benchmarks.suite --only studies/{name} --keep` does it."]
    elif selection:
        parts = [*_selection(results[name], selection)]
    else:
        parts = [*speed.section(results[name])] if name == "speed" else [*_tables(results[name])]
    return "\n".join([begin(name, selection), *parts, END])


def _selection(result: dict[str, Any], selection: str) -> Iterator[str]:
    options = dict(option.strip().split("=", 1) for option in selection.split(" | ")[1:])
    found = _cells(result, options.pop("table", "0"))
    columns = _words(options.pop("columns", ""))
    yield ""
    yield from table(*selected(found, columns, {column: _words(wanted) for column, wanted in options.items()}))
    yield f"\n{origin(result)}\n"


def _cells(result: dict[str, Any], which: str) -> Cells:
    if which == "lines":
        return speed.line_cells(result["lines"])
    return cells_of(result["tables"][int(which)]) if which.isdigit() else speed.learners(result["tables"][which])


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(";") if word.strip()]


def _tables(result: dict[str, Any]) -> Iterator[str]:
    """A text that several tables share stands above the first of them."""
    said = ""
    for each in result["tables"]:
        if each["title"]:
            yield f"### {each['title']}\n"
        if each["text"] != said:
            yield f"{each['text']} {origin(result)}\n"
        said = each["text"]
        if each["note"]:
            yield f"{each['note']}\n"
        yield from of_study(each)
        yield ""


def origin(result: dict[str, Any]) -> str:
    """Return the command, the commit, the date and the kind of machine of a result."""
    machine = result["machine"]
    busy = ", busy" if machine["busy"] else ""
    where = f"{machine['processor']}, {machine['cores']} cores{busy}"
    return f"(`{result['command']}`, commit {result['commit'][:8]}, {result['date']}, {where}.)"
