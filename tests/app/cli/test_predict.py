"""``predict`` gives a line for each row of its input; models are shown, and data sets written, with names and units."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from rich.console import Console

import batch2online
from batch2online import datasets
from batch2online.app.cli.app import run_safely
from batch2online.app.cli.files import write_csv
from batch2online.app.cli.terminal import pairs, print_paragraphs
from batch2online.app.inputs import Layout, open_source

pytestmark = pytest.mark.usefixtures("no_reports")

SOURCES = Path(batch2online.__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of y = 2 x + [colour is red], one that refuses gaps and one that fills them."""
    path = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(0)
    x, colour = rng.standard_normal(500).round(3), rng.choice(["red", "green"], 500)
    lines = [f"{a},{c},{2 * a + (c == 'red')}" for a, c in zip(x.tolist(), colour, strict=True)]
    (path / "rows.csv").write_text("x,colour,y\n" + "\n".join(lines) + "\n")
    for name, options in {
        "refuse": ["--missing", "refuse"],
        "mean": ["--missing", "mean"],
        "strict": ["--unknown", "refuse"],
    }.items():
        words = ["run", str(path / "rows.csv"), "--task", "regression", "--target", "y", "--out", str(path / name)]
        assert run_safely([*words, *options, "-q"]) == 0
    return path


NEW = "name,x,colour,when\nann,1,red,2024-01-01\nbob,,green,2024-01-02\ncy,2,,\ndi,3,blue,2024-01-04\neve,4,red,x\n"


def predicted(folder, capsys, *words, text=NEW, model="refuse", name="new.csv"):
    (folder / name).write_text(text)
    assert run_safely(["predict", str(folder / model), str(folder / name), *words]) == 0, capsys.readouterr().err
    return list(csv.reader(io.StringIO(capsys.readouterr().out)))


def test_one_line_a_row_whatever_is_missing(folder, capsys):
    header, *lines = predicted(folder, capsys)
    assert header == ["prediction"]
    found = [float(line[0]) if line[0] else None for line in lines]
    assert found == [pytest.approx(3, abs=0.1), None, None, pytest.approx(6, abs=0.1), pytest.approx(9, abs=0.1)]


def test_gaps_are_filled_as_in_the_run(folder, capsys):
    _, *lines = predicted(folder, capsys, model="mean")
    assert len(lines) == 5
    assert all(line[0] for line in lines)


def test_a_text_that_the_run_would_refuse_is_refused(folder, capsys):
    (folder / "new.csv").write_text(NEW)
    assert run_safely(["predict", str(folder / "strict"), str(folder / "new.csv")]) == 2
    error = capsys.readouterr().err
    assert "line 5, column 'colour', holds 'blue', which the first rows did not" in error


def test_an_id_or_all_columns_stand_beside(folder, capsys):
    header, *lines = predicted(folder, capsys, "--id", "name")
    assert header == ["name", "prediction"]
    assert [line[0] for line in lines] == ["ann", "bob", "cy", "di", "eve"]
    header, *lines = predicted(folder, capsys, "--append")
    assert header == ["name", "x", "colour", "when", "prediction"]
    assert lines[1] == ["bob", "", "green", "2024-01-02", ""]
    assert [line[3] for line in lines][-1] == "x"
    (folder / "new.csv").write_text(NEW)
    assert run_safely(["predict", str(folder / "refuse"), str(folder / "new.csv"), "--id", "q"]) == 2
    assert "has no column 'q'; --id names one of its columns" in capsys.readouterr().err


def test_parquet_by_name(folder, capsys):
    (folder / "new.csv").write_text(NEW)
    out = folder / "p.parquet"
    words = ["predict", str(folder / "refuse"), str(folder / "new.csv"), "--append", "--out", str(out)]
    assert run_safely(words) == 0
    table = pyarrow.parquet.read_table(out)
    assert table.column_names == ["name", "x", "colour", "when", "prediction"]
    assert table["prediction"].null_count == 2
    again = ["predict", str(folder / "refuse"), str(out), "--append", "--out", str(folder / "again.parquet")]
    assert run_safely(again) == 0
    names = pyarrow.parquet.read_table(folder / "again.parquet").column_names
    assert names[-2:] == ["prediction", "prediction (predicted)"]


TEXTS = {
    "csv": ("bad.csv", "x,colour\n1,red\nhigh,red\n", "bad.csv, line 3, column 'x': 'high' is not a number"),
    "all text": ("text.csv", "x,colour\nlow,red\nhigh,red\n", "text.csv, line 2, column 'x': 'low' is not a number"),
    "json": ("bad.jsonl", '{"x": "low", "colour": "red"}\n', "bad.jsonl, line 1, column 'x': 'low' is not a number"),
    "a number in text": ("odd.jsonl", '{"x": 1, "colour": 5}\n', "column 'colour': 5 is not a string"),
    "missing column": ("less.csv", "x\n1\n", "has no column 'colour', which the model needs"),
    "empty": ("empty.csv", "", "is empty"),
}


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.few(2)
def test_text_where_numbers_are_wanted_is_one_sentence(folder, capsys, case):
    name, text, message = TEXTS[case]
    (folder / name).write_text(text)
    assert run_safely(["predict", str(folder / "refuse"), str(folder / name)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_numbers_read_as_text_stay_levels(folder, tmp_path, capsys):
    """A column of levels that happen to look like numbers in the new file is text all the same."""
    path = tmp_path / "codes.csv"
    path.write_text("code,y\n" + "A1,1\n7,2\nB2,3\n" * 20)
    assert run_safely(["run", str(path), "--task", "regression", "--target", "y", "--out", str(tmp_path / "m")]) == 0
    capsys.readouterr()
    (tmp_path / "new.csv").write_text("code\n7\n7\n")
    assert run_safely(["predict", str(tmp_path / "m"), str(tmp_path / "new.csv")]) == 0
    assert [round(float(line), 6) for line in capsys.readouterr().out.split()[1:]] == [2, 2]


def test_names_stand_once_before_predictions_of_several_blocks(folder, tmp_path, capsys):
    table = pa.table({"x": np.arange(200_000.0), "colour": ["red"] * 200_000})
    pyarrow.parquet.write_table(table, tmp_path / "long.parquet")
    assert run_safely(["predict", str(folder / "refuse"), str(tmp_path / "long.parquet")]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.strip('"') == "prediction"
    assert len(lines) == 200_000
    assert header not in lines


# -- names and units ----------------------------------------------------------------------------------


def test_a_state_predicts_as_well(folder, tmp_path, capsys):
    words = ["run", str(folder / "rows.csv"), "--task", "regression", "--target", "y", "-q"]
    assert run_safely([*words, "--state", str(tmp_path / "state.b2o")]) == 0
    capsys.readouterr()
    (folder / "new.csv").write_text(NEW)
    assert run_safely(["predict", str(tmp_path / "state.b2o"), str(folder / "new.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6


def shown(capsys, *words):
    assert run_safely([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_coefficients_are_shown_in_units(tmp_path, capsys):
    """Scaled inputs make no difference to what a coefficient means."""
    plain = shown(capsys, "run", "--dataset", "diabetes", "--task", "regression")["in_units"]
    words = ["--dataset", "diabetes", "--task", "regression", "--standardize", "--out", tmp_path / "out"]
    shown(capsys, "run", *words)
    scaled = shown(capsys, "show", tmp_path / "out")["in_units"]
    assert list(plain["coefficients"]) == ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
    assert plain["units"]["bmi"] == "per kg/m2"
    assert scaled["coefficients"] == pytest.approx(plain["coefficients"], rel=1e-4, abs=1e-4)
    assert scaled["intercept"] == pytest.approx(plain["intercept"], rel=1e-4)


def test_centers_and_components_are_shown_by_name(tmp_path, capsys):
    words = ["--dataset", "breast_cancer", "--task", "clustering", "--k", "2"]
    found = shown(capsys, "run", *words, "--out", tmp_path / "out")
    rows = datasets.load_table("breast_cancer").columns
    for center in found["in_units"]["centers"]:
        assert rows["mean radius"].min() < center["mean radius"] < rows["mean radius"].max()
    assert run_safely(["show", str(tmp_path / "out")]) == 0
    assert "mean area" in capsys.readouterr().out


def test_written_data_sets_have_their_names_and_give_the_same_model(tmp_path, capsys):
    path = tmp_path / "diabetes.csv"
    assert run_safely(["datasets", "--write", "diabetes", "--out", str(path)]) == 0
    assert "progression" in path.read_text().splitlines()[0]
    assert "bmi (kg/m2)" in capsys.readouterr().err
    from_file = shown(capsys, "run", path, "--task", "regression", "--target", "progression")
    by_name = shown(capsys, "run", "--dataset", "diabetes", "--task", "regression")
    assert from_file["last_model"] == by_name["last_model"]
    assert run_safely(["datasets", "--write", "nothing"]) == 2
    assert "choose one of" in capsys.readouterr().err


THREADS = """
import numpy as np
from threadpoolctl import threadpool_info
from batch2online import OnlineLowRank
from batch2online.methods.low_rank.problem import LowRank

def threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

before, during = threads(), []
fit = LowRank.fit
LowRank.fit = lambda *arguments: during.append(threads()) or fit(*arguments)
OnlineLowRank(2).partial_fit(np.random.default_rng(0).standard_normal((400, 250)))
print(max(before), max(map(max, during)), threads() == before)
"""


@pytest.mark.skipif(os.cpu_count() == 1, reason="one core has one thread")
@pytest.mark.slow
def test_the_library_keeps_blas_to_one_thread():
    """More threads than one only wait for each other on a busy machine; 250 columns are many."""
    asked = [name for name in os.environ if name.endswith("_NUM_THREADS")]
    environment = {name: value for name, value in os.environ.items() if name not in asked}
    words = [sys.executable, "-c", THREADS]
    run = subprocess.run(
        words, env=environment | {"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=True
    )
    before, during, is_restored = run.stdout.split()
    assert int(before) > 1
    assert (during, is_restored) == ("1", "True")


# -- CSV that other programs read ---------------------------------------------------------------------


def test_a_row_without_answer_keeps_its_line_for_every_reader(folder, tmp_path):
    (folder / "new.csv").write_text(NEW)
    out = tmp_path / "p.csv"
    assert run_safely(["predict", str(folder / "refuse"), str(folder / "new.csv"), "--out", str(out)]) == 0
    assert out.read_text().splitlines()[2:4] == ['""', '""']
    assert pd.read_csv(out)["prediction"].isna().tolist() == [False, True, True, False, False]
    table = next(open_source(str(out), Layout()).batches(["prediction"], [])).table
    assert table["prediction"].is_null().to_pylist() == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ([1.5, None, -2.0], ["1.5", '""', "-2"]),
        ([True, None], ["true", '""']),
        (["a", None, "", "-"], ['"a"', '""', '""', '"\'-"']),
        ([None, None], ['""', '""']),
    ],
)
def test_one_column_has_no_empty_line(values, lines):
    file = io.BytesIO()
    write_csv(pa.table({"x": values}), file)
    assert file.getvalue().decode().splitlines() == ["x", *lines]


FORMULAS = ["=1+2", "+1+2", "-1+2", "@SUM(A1)", "\t=1", "--5", "+", '=HYPERLINK("http://x","a,b")', "-1.5.2", "=1\n2"]
HARMLESS = ["-1.5", "+3e4", "-.5", "a=b", "'x", "", "1-2", "ü"]


@pytest.mark.parametrize("encoded", [False, True])
def test_strings_that_a_spreadsheet_may_run_are_written_as_strings(encoded):
    cells = pa.array([*FORMULAS, *HARMLESS])
    table = pa.table({"=name": cells.dictionary_encode() if encoded else cells, "n": np.arange(-9.0, len(cells) - 9)})
    written = {}
    for keep in (False, True):
        file = io.BytesIO()
        write_csv(table, file, keep_formulas=keep)
        written[keep] = list(csv.reader(io.StringIO(file.getvalue().decode(), newline="")))
    assert written[True][0] == ["=name", "n"]
    assert [row[0] for row in written[True][1:]] == cells.to_pylist()
    assert written[False][0] == ["'=name", "n"]
    assert [row[0] for row in written[False][1:]] == [*(f"'{cell}" for cell in FORMULAS), *HARMLESS]
    assert written[False][1][1] == "-9"  # a number is a number


def test_names_that_meet_after_the_apostrophe_stay_two_columns():
    file = io.BytesIO()
    write_csv(pa.table({"=a": [1], "'=a": ["@b"]}), file)
    assert file.getvalue() == b"'=a,'=a\n1,\"'@b\"\n"


def test_formulas_can_be_kept_for_programs(folder, tmp_path, capsys):
    text = "name,x,colour\n=cmd()|x,1,red\n-7,2,red\n"
    assert [line[0] for line in predicted(folder, capsys, "--append", text=text)[1:]] == ["'=cmd()|x", "-7"]
    kept = predicted(folder, capsys, "--append", "--keep-formulas", text=text)
    assert [line[0] for line in kept[1:]] == ["=cmd()|x", "-7"]
    (tmp_path / "labels.csv").write_text("x,label\n" + "".join(f"{i},{'=a' if i % 3 else '-b'}\n" for i in range(60)))
    words = ["run", str(tmp_path / "labels.csv"), "--task", "classification", "--target", "label", "-q"]
    for option, label in (([], "'=a"), (["--keep-formulas"], "=a")):
        assert run_safely([*words, *option, "--out", str(tmp_path / "out")]) == 0
        lines = (tmp_path / "out" / "coreset.csv").read_text().splitlines()
        assert label in {row["label"] for row in csv.DictReader(lines)}
        assert "=a" in pyarrow.parquet.read_table(tmp_path / "out" / "coreset.parquet")["label"].to_pylist()


# -- paths --------------------------------------------------------------------------------------------


def test_no_path_is_broken_however_long(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    long = tmp_path / ("a" * 90) / "with a space" / ("b" * 90)
    long.mkdir(parents=True)
    table = long / f"rows and {'c' * 100}.csv"
    rng = np.random.default_rng(0)
    np.savetxt(table, rng.normal(size=(80, 3)), delimiter=",", header="a,b,y", comments="")
    words = [str(table), "--task", "clustering", "--k", "2"]
    assert run_safely(["run", *words, "--history", str(long / "rows"), "--out", str(long / "out")]) == 0
    said = capsys.readouterr().out
    assert str(long / "out" / "report.html") in said
    assert table.name in said
    assert run_safely(["show", str(long / "out")]) == 0
    assert f"history={long / 'rows'}" in capsys.readouterr().out
    assert run_safely(["compare", *words, "--seeds", "1"]) == 0
    assert table.name in capsys.readouterr().out
    assert run_safely(["datasets", "--write", "diabetes", "--out", str(long / "d.csv")]) == 0
    assert str(long / "d.csv") in capsys.readouterr().err
    assert run_safely(["show", str(long / "nothing")]) == 2
    assert str(long / "nothing") in capsys.readouterr().err


def test_words_are_wrapped_between_them():
    screen = Console(width=24, file=io.StringIO(), color_system=None)
    print_paragraphs(
        pairs(
            [
                ("name", "some words in a row"),
                ("fits", "exactly sixteen!"),
                ("of", "x" * 30),
                ("list", ["a b", "c d", "e"]),
            ]
        ),
        screen,
    )
    assert screen.file.getvalue().splitlines() == [
        "  name  some words in a",
        "        row",
        "  fits  exactly sixteen!",
        f"    of  {'x' * 30}",
        "  list  a b, c d, e",
    ]
