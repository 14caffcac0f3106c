"""The generated parts of the pages, each between two marks: pure functions of results.json and studies.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.suite import speed
from benchmarks.suite.markdown import of_study

PLACES = {
    "speed": "benchmarks.md",
    "studies": "benchmarks.md",
    "peers": "evaluate.md",
    "orders": "evaluate.md",
    "sensitivity": "evaluate.md",
    "drift": "drift.md",
}
"""Pages by the places in them; each place has its own marks."""
LEVEL = {"studies": "##", "peers": "###", "orders": "###", "sensitivity": "###", "drift": "###"}


def begin(place: str) -> str:
    return f"<!-- benchmarks.suite: {place} begins here -->"


def end(place: str) -> str:
    return f"<!-- benchmarks.suite: {place} ends here -->"


def inserted(text: str, results: dict[str, Any], studies: list[dict[str, Any]]) -> str:
    """The text of a page with its generated parts replaced."""
    for place in PLACES:
        if begin(place) in text:
            before, _, rest = text.partition(begin(place))
            text = before + rendered(place, results, studies) + rest.partition(end(place))[2]
    return text


def rendered(place: str, results: dict[str, Any], studies: list[dict[str, Any]]) -> str:
    """A generated part, with its marks."""
    parts = speed.section(results) if place == "speed" else _studies(place, studies)
    return "\n".join([begin(place), *parts, end(place)])


def _studies(place: str, studies: list[dict[str, Any]]) -> Iterator[str]:
    """A text that several studies of a file share stands above the first of them."""
    said = ""
    for study in (study for study in studies if study["place"] == place):
        yield f"{LEVEL[place]} {study['title']}\n"
        if study["text"] != said:
            command = f"`python -m benchmarks.suite --full --only {study['file']}`"
            yield f"{command}: {study['text']} {_where(study['machine'])}\n"
        said = study["text"]
        if study["note"]:
            yield f"{study['note']}\n"
        yield from of_study(study)
        yield ""


def _where(machine: dict[str, Any]) -> str:
    busy = ", busy with other work, which disturbs rates alone" if machine["busy"] else ""
    return f"Measured on {machine['processor']}, {machine['cores']} cores{busy}."
