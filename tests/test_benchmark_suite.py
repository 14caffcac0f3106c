"""The benchmark suite runs, and its pages say what its files say."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from batch2online.baselines.peers import PEERS

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "benchmarks" / "suite"


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.suite.page")


@pytest.fixture
def tiny(tmp_path):
    """The suite in its smallest form, as a user starts it."""
    pytest.importorskip("gensim")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [
        sys.executable,
        "-W",
        "error::RuntimeWarning",
        "-m",
        "benchmarks.suite",
        "--tiny",
        "--out",
        str(tmp_path),
    ]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return tmp_path


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def kept():
    return read(ROOT / "benchmarks", "results.json"), read(ROOT / "benchmarks", "studies.json")


def files(folder):
    return {path.stem for path in (SUITE / folder).glob("*.py")} - {"__init__"}


def test_the_pages_are_what_the_files_give(page):
    for name in set(page.PLACES.values()):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        for place in (place for place, file in page.PLACES.items() if file == name):
            assert text.count(page.begin(place)) == text.count(page.end(place)) == 1
        assert page.inserted(text, *kept()) == text


def test_a_changed_figure_changes_the_page(page):
    results, studies = kept()
    before = {place: page.rendered(place, results, studies) for place in page.PLACES}
    results["lines"][0]["value"] *= 2
    for study in studies:
        study["records"].pop()
    for place, text in before.items():
        assert page.rendered(place, results, studies) != text


def test_the_page_is_for_users_and_verdicts_are_not_on_it(page):
    results, studies = kept()
    for line in results["lines"]:
        line["at_most"] = line["at_least"] = 1234.5
    assert "met" in results["lines"][0]
    text = page.rendered("speed", results, studies)
    assert "1234.5" not in text
    assert "| met |" not in text
    assert "not met" not in text


def test_what_is_around_the_generated_part_stays(page):
    marks = page.begin("speed"), page.end("speed")
    text = page.inserted(f"above\n{marks[0]}old{marks[1]}\nbelow\n", *kept())
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")
    assert f"{marks[0]}old" not in text


def test_the_tiny_form(tiny):
    """One test, so that the suite runs once however the tests are spread over processes."""
    every_file_takes_part(tiny)
    every_peer_is_shown_under_its_name(tiny)
    there_is_a_figure_everywhere(tiny)


def every_file_takes_part(tiny):
    results = read(tiny, "results.json")
    assert len(results["tables"]) == len(files("problems"))
    assert len({line["group"] for line in results["lines"]}) == len(files("lines")) + 1  # and growth
    assert len({curve["axis"] for curve in results["growth"]}) == len(files("axes"))
    assert {study["file"] for study in read(tiny, "studies.json")} == {f"studies/{name}" for name in files("studies")}


def every_peer_is_shown_under_its_name(tiny):
    shown = {name for table in read(tiny, "results.json")["tables"].values() for name in table["learners"]}
    shown |= {record.get("learner") for study in read(tiny, "studies.json") for record in study["records"]}
    assert {peer.name for peer in PEERS if peer.shown & {"speed", "loss"}} <= shown


def test_names_on_the_pages_are_those_of_the_registry():
    results, studies = kept()
    names = {peer.name for peer in PEERS}
    for table in results["tables"].values():
        assert set(table["learners"]) - set(table["limits"]) <= names
    for study in studies:
        assert {record["learner"] for record in study["records"] if "learner" in record} <= names


def there_is_a_figure_everywhere(tiny):
    results = read(tiny, "results.json")
    for table in results["tables"].values():
        for name, record in table["learners"].items():
            assert record["rows_per_second"] > 0
            assert name in table["limits"] or record["loss_ratio"] > 0.9
    for curve in results["growth"]:
        assert len(curve["values"]) == len(curve["seconds"]) == len(curve["bytes"]) >= 2
        assert min(curve["bytes"]) > 1
    for study in read(tiny, "studies.json"):
        assert study["records"]
        assert all(set(record) & set(study["columns"]) for record in study["records"])
        assert {name for record in study["records"] for name in record} >= set(study["columns"]) - {"loss, ours"}
    assert {path.suffix for path in tiny.iterdir()} == {".json", ".md", ".svg"}
    assert "/" not in json.dumps(results["machine"])


@pytest.mark.parametrize("name", ["line", "growth", "plots", "markdown", "run"])
def test_examples(name, page):
    tried = doctest.testmod(import_module(f"benchmarks.suite.{name}"))
    assert tried.failed == 0
    assert tried.attempted > 0
