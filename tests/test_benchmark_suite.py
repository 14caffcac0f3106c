"""The benchmark suite runs, and its page says what results.json says."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks.suite import page
    finally:
        sys.path.remove(str(ROOT))
    return page


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The suite in its smallest form, as a user starts it."""
    pytest.importorskip("gensim")
    out = tmp_path_factory.mktemp("suite")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "benchmarks.suite", "--tiny", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return out


def test_the_page_is_what_results_json_gives(page):
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    assert page.inserted(text, results) == text


def test_a_changed_figure_changes_the_page(page):
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    before = page.rendered(results)
    results["lines"][0]["value"] *= 2
    assert page.rendered(results) != before


def test_what_is_around_the_generated_part_stays(page, tiny):
    results = json.loads((tiny / "results.json").read_text(encoding="utf-8"))
    text = page.inserted(f"above\n{page.BEGIN}old{page.END}\nbelow\n", results)
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")
    assert f"{page.BEGIN}old" not in text


def test_every_file_of_the_suite_takes_part(tiny):
    results = json.loads((tiny / "results.json").read_text(encoding="utf-8"))
    suite = ROOT / "benchmarks" / "suite"

    def files(folder):
        return {path.stem for path in (suite / folder).glob("*.py")} - {"__init__"}

    assert set(results["tables"]) == files("problems")
    assert len({line["group"] for line in results["lines"]}) == len(files("lines")) + 1  # and growth
    assert len({curve["axis"] for curve in results["growth"]}) == len(files("axes"))
    learners = {name for table in results["tables"].values() for name in table["learners"]}
    assert len(learners) >= len(files("peers"))
    for peer in ("SGDRegressor", "MiniBatchKMeans", "Birch", "IncrementalPCA", "River", "gensim", "Frequent"):
        assert any(peer in name for name in learners), peer


def test_the_tiny_form_has_a_figure_everywhere(tiny):
    results = json.loads((tiny / "results.json").read_text(encoding="utf-8"))
    for table in results["tables"].values():
        for name, record in table["learners"].items():
            assert record["rows_per_second"] > 0
            assert name in table["limits"] or record["loss_ratio"] > 0.9
    for curve in results["growth"]:
        assert len(curve["values"]) == len(curve["seconds"]) == len(curve["bytes"]) >= 2
        assert min(curve["bytes"]) > 1
    assert {path.suffix for path in tiny.iterdir()} == {".json", ".md", ".svg"}
    assert "/" not in json.dumps(results["machine"])


@pytest.mark.parametrize("name", ["line", "growth", "plots"])
def test_examples(name, page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    tried = doctest.testmod(import_module(f"benchmarks.suite.{name}"))
    assert tried.failed == 0
    assert tried.attempted > 0
