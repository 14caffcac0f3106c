"""The benchmark suite runs, and its pages say what its files say."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path

import pytest

from batch2online.baselines.peers import PEERS

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "benchmarks" / "suite"
FIGURE = re.compile(r"[*<~]*(\d[\d,]*\.\d+|\d[\d,]+)( ?(x|s|%|MB|GB|ms|µs|MB/s))?( \(.*\))?[*]*")
"""A cell that is a number of two digits or more, with a unit or something in brackets at most."""


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.suite.page")


@pytest.fixture
def results(page):
    return import_module("benchmarks.suite.stored").read()


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
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def studies_of(folder):
    found = {path.stem: read(folder, path.stem) for path in folder.glob("*.json")}
    return {name: result for name, result in found.items() if name != "speed"}


def files(folder):
    return {path.stem for path in (SUITE / folder).glob("*.py")} - {"__init__"}


def test_measured_tables_are_what_the_stored_results_give(page, results):
    places = []
    for path in page.pages():
        text = path.read_text(encoding="utf-8")
        assert page.filled(text, results) == text, f"{path.name}: run `make docs-tables`"
        assert text.count("<!-- results:") == text.count(page.END)
        places += page.PLACE.findall(text)
    assert len(places) == len(set(places))
    assert {name for name, _ in places} <= {"speed", "nightly", "latency"} | files("studies")
    whole = (ROOT / "benchmarks" / "results" / "README.md").read_text(encoding="utf-8")
    assert whole == page.every_table(results), "benchmarks/results/README.md: run `make docs-tables`"


def test_a_selection_shows_the_cells_that_it_names(page, results):
    text = page.rendered("peers", results, " | table=2 | columns=learner; cps1988, 28,155 x 9 | learner=batch2online")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    record = next(r for r in results["peers"]["tables"][2]["records"] if r["learner"] == "batch2online")
    assert rows[:2] == ["| learner | cps1988, 28,155 x 9 |", "|---|---|"]
    assert rows[2].startswith(f"| batch2online | {record['cps1988, 28,155 x 9']['ratio']:.4f} ")
    assert results["peers"]["commit"][:8] in text


def test_a_selection_of_nothing_fails(page, results):
    with pytest.raises(ValueError, match="learner=nobody: no row of the table has it"):
        page.rendered("peers", results, " | learner=batch2online; nobody")
    with pytest.raises(ValueError, match="no column 'nothing'"):
        page.rendered("peers", results, " | columns=nothing")


def test_measured_tables_stand_between_marks(page):
    """A table of figures outside of them would be written by hand."""
    for path in page.pages():
        text = page.PLACE.sub("", path.read_text(encoding="utf-8"))
        rows = [line for line in text.splitlines() if line.startswith("|")]
        found = [row for row in rows if any(FIGURE.fullmatch(cell.strip()) for cell in row.strip("|").split("|"))]
        assert not found, f"{path.name}: {found[0]}"


def test_stored_results_name_command_commit_and_date(results):
    for name, result in results.items():
        assert re.match(r"python -m benchmarks\.(suite|nightly|latency)\b", result["command"]), name
        assert re.fullmatch("[0-9a-f]{40}", result["commit"]), name
        assert date.fromisoformat(result["date"]) <= datetime.now(UTC).date(), name
        assert {"processor", "cores", "python", "busy"} <= set(result["machine"]), name


def test_figures_show_the_stored_results(page, results):
    plots = import_module("benchmarks.suite.plots")
    for name, curves in plots.figures(results).items():
        folder = "benchmarks/results" if name.startswith(plots.BESIDE_RESULTS) else "docs"
        assert plots.digest(curves) in (ROOT / folder / name).read_text(encoding="utf-8"), name


def test_what_pages_say_of_other_losses_holds(results):
    limits = {"ten_classes": 1.002, "shuttle": 1.003, "separable": 1.005}
    for record in results["other_losses"]["tables"][0]["records"]:
        assert record["worst ours / refits"] <= limits.get(record["data"], 1.001), record


def test_what_readme_says_of_a_year_holds():
    """The caption of the picture states figures of its stored result."""
    caption = re.search(r"\*The flights of a year.*?\*", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    stored = json.loads((ROOT / "benchmarks/results/year/nights.json").read_text(encoding="utf-8"))["measured"]
    last = {
        (task, name): {measure: values[-1] for measure, values in measured.items()}
        for task, learners in stored.items()
        for name, measured in learners.items()
    }
    ours, script = last["booster", "batch2online"], last["booster", "script"]
    share, more = ours["seconds"] / script["seconds"], ours["loss"] / script["loss"] - 1
    ours_k, warm = last["clusters", "batch2online"], last["clusters", "script, from the centers before"]
    anew = last["clusters", "script, anew, labels matched"]
    said = (
        f"LightGBM: {share:.0%} of the script's processor time, {ours['changes']:.0f} models instead of "
        f"{script['changes']:.0f}, {more:.0%} more loss. k-means: {1 - ours_k['loss'] / warm['loss']:.0%} less cost "
        f"than refits from the previous centers, in {ours_k['seconds'] / warm['seconds']:.0%} of their time, with "
        f"{ours_k['changes']:.2f} changed labels a row instead of {warm['changes']:.2f}; refits from new starts cost "
        f"{1 - anew['loss'] / ours_k['loss']:.0%} less and change each label {anew['changes']:.0f} times."
    )
    assert re.sub("([0-9])%", r"\1 %", said) in " ".join(caption.split()).replace("ten times", "10 times")


def test_what_pages_say_of_clusters_holds(results):
    for record in results["clustering"]["tables"][0]["records"]:
        assert record["/ doubling"] <= (1.005 if record["setting"] == "default" else 1.01), record
        assert record["changes"] <= record["doubling changes"], record


def test_what_pages_say_of_the_papers_experiment_holds(results):
    """Records give a mean and, in brackets, its deviation. Three accuracies have three sizes and three losses."""
    records = results["theorems_paper"]["tables"][0]["records"]
    for title in {record["problem"] for record in records}:
        own = [record for record in records if record["problem"] == title]
        assert [record["ε"] for record in own] == ["0.1", "0.01", "0.001"]
        assert len({record["size"] for record in own}) == 3
        for side in ("ours", "the paper's"):
            coarse, fine, finest = (float(record[side].split()[0]) for record in own)
            assert coarse > fine >= finest
            assert fine < 1.02
    number = lambda text: float(text.replace(",", ""))  # noqa: E731
    behind = [r for r in records if number(r["our regret"]) > number(r["its regret"])]
    assert [(r["problem"], r["ε"]) for r in behind] == [("Low rank, 5 components", "0.1")]


def test_what_pages_say_of_the_theorems_holds(results):
    """Every measured figure is below its bound; slopes at a million rows."""
    main = [r for r in results["theorems_regret"]["tables"][0]["records"] if r["rows"] == "1,000,000"]
    assert {record["problem"] for record in main} == {"regression", "low rank", "clustering"}
    for record in main:
        if record["ε"] == "auto":
            assert 0.45 < record["slope"] < 0.5
        elif record["ε"] != "exact":
            assert 0.85 < record["slope"] < 1.0
            assert record["ε-regret"].startswith("-")
    (exact,) = (r for r in main if (r["problem"], r["ε"]) == ("regression", "exact"))
    assert (f"{exact['slope']:.2f}", exact["per e-fold"]) == ("0.04", "4")
    for record in results["theorems_regret"]["tables"][0]["curves"]:
        if record["bound"] is not None and record["rows"] >= 1_000:  # models of a few rows have losses above L
            assert record["approximate_regret"] < record["bound"], record
    for record in results["theorems_changes"]["tables"][0]["curves"]:
        if record["bound"] is not None:
            assert record["changes"] <= record["bound"], record
    for record in results["theorems_sensitivity"]["tables"][0]["curves"]:
        if record["bound"] is not None:
            assert record["low"] <= record["bound"], record


def test_what_pages_say_of_the_related_work_holds(results):
    clustering, low_rank, regression, repeats = (table["records"] for table in results["theorems_rivals"]["tables"])
    for records in (clustering, low_rank, regression):
        ours, *others = records
        assert ours["learner"] == "batch2online"
        assert ours["random"]["changes"] < 10 < min(other["random"]["changes"] for other in others)
        least = min(records, key=lambda record: record["random"]["ratio"])
        assert least["learner"] == ("online ridge" if records is regression else "batch2online")
        assert min(other["blocks"]["ratio"] for other in others) < ours["blocks"]["ratio"]
    fails, simulated, ours = (float(record["random order"].split()[0]) for record in repeats)
    assert fails > 10
    assert max(simulated, ours) < 1.05
    assert max(float(record["independent draws"].split()[0]) for record in repeats) < 1.05


def test_what_pages_say_of_later_work_holds(results):
    """A sixth of the excess for regression, less than a half for k-means."""
    records = results["adaptive_epsilon"]["tables"][0]["records"]
    for fixed, auto in zip(records[::2], records[1::2], strict=True):
        before, after = (float(record["excess"].split()[0].replace(",", "")) for record in (fixed, auto))
        assert after < before * (0.18 if "regression" in fixed["problem"] else 0.5), fixed
        assert auto["slope"] < 0.75 < 0.97 < fixed["slope"], fixed


def test_an_edited_figure_is_noticed(page, results):
    for path in page.pages():
        text = path.read_text(encoding="utf-8")
        for place in (place for place in page.PLACE.finditer(text) if place[1] in results):
            row = re.search(r"^\|.*\d.*\|$", place[0], re.MULTILINE)
            digit = place.start() + row.start() + re.search(r"\d", row[0]).start()
            edited = text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :]
            assert page.filled(edited, results) == text


def test_a_changed_result_changes_the_page(page, results):
    before = {name: page.rendered(name, results) for name in results}
    results["speed"]["lines"][0]["value"] *= 2
    for name, result in results.items():
        if name != "speed":
            result["tables"][0]["records"].pop()
        assert page.rendered(name, results) != before[name]


def test_the_page_is_for_users_and_verdicts_are_not_on_it(page, results):
    for line in results["speed"]["lines"]:
        line["at_most"] = line["at_least"] = 1234.5
    assert "met" in results["speed"]["lines"][0]
    text = page.rendered("speed", results)
    assert "1234.5" not in text
    assert "| met |" not in text
    assert "not met" not in text


def test_what_is_around_the_measured_part_stays(page, results):
    text = page.filled(f"above\n{page.begin('speed')}\nold{page.END}\nbelow\n", results)
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")
    assert "\nold" not in text


@pytest.mark.full
def test_the_tiny_form(tiny):
    """One test, so that the suite runs once however the tests are spread over processes."""
    every_file_takes_part(tiny)
    every_peer_is_shown_under_its_name(tiny)
    there_is_a_figure_everywhere(tiny)


def every_file_takes_part(tiny):
    speed = read(tiny, "speed")
    assert len(speed["tables"]) == len(files("problems"))
    assert len({line["group"] for line in speed["lines"]}) == len(files("lines")) + 1  # and growth
    assert len({curve["axis"] for curve in speed["growth"]}) == len(files("axes"))
    assert set(studies_of(tiny)) == files("studies")


def every_peer_is_shown_under_its_name(tiny):
    further = import_module("benchmarks.suite.peers").SPEED_ONLY
    shown = {name for table in read(tiny, "speed")["tables"].values() for name in table["learners"]}
    shown |= {record.get("learner") for record in records(studies_of(tiny))}
    assert {peer.name for peer in (*PEERS, *further) if peer.shown & {"speed", "loss"}} <= shown


def records(studies):
    return [record for study in studies.values() for table in study["tables"] for record in table["records"]]


def test_names_on_the_pages_are_those_of_the_peers(results, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    further = import_module("benchmarks.suite.peers").SPEED_ONLY
    names = {peer.name for peer in (*PEERS, *further)}
    speed = results.pop("speed")
    results.pop("nightly_refits", None)  # refits of other kinds, named there
    for table in speed["tables"].values():
        assert set(table["learners"]) - set(table["limits"]) <= names
    assert {record["learner"] for record in records(results) if "learner" in record} <= names


def there_is_a_figure_everywhere(tiny):
    speed = read(tiny, "speed")
    for table in speed["tables"].values():
        for name, record in table["learners"].items():
            assert record["rows_per_second"] > 0
            assert name in table["limits"] or record["loss_ratio"] > 0.9
    for curve in speed["growth"]:
        assert len(curve["values"]) == len(curve["seconds"]) == len(curve["bytes"]) >= 2
        assert min(curve["bytes"]) > 1
    for table in (table for study in studies_of(tiny).values() for table in study["tables"]):
        assert table["records"]
        assert all(set(record) & set(table["columns"]) for record in table["records"])
        assert {name for record in table["records"] for name in record} >= set(table["columns"]) - {"loss, ours"}
    assert {path.suffix for path in tiny.iterdir()} == {".json", ".md", ".svg"}
    assert "/" not in json.dumps(speed["machine"])


@pytest.mark.parametrize("name", ["form", "line", "growth", "plots", "markdown", "run", "studies.nightly_refits"])
def test_examples(name, page):
    tried = doctest.testmod(import_module(f"benchmarks.suite.{name}"))
    assert tried.failed == 0
    assert tried.attempted > 0
