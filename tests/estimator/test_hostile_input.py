"""Any names and any bytes end in a result or in one sentence: no traceback, no signal, no control sequence."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import batch2online
from batch2online.app.cli.app import run_safely
from batch2online.storage import model_file
from processes import run_to_end

NAMES = ["[/a]", "[bold]", "\x1b[31mRED\x1b]0;owned\x07", ":smile:", "<b>x</b>"]
ROWS = np.random.default_rng(0).standard_normal((200, len(NAMES) + 1))


def write_csv(path, names, rows=ROWS):
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return path


def sentence(words, capsys):
    """What a command that refuses its input prints."""
    assert run_safely([str(word) for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert captured.err.strip().isprintable()
    return captured.err


# -- names, values and paths are text ---------------------------------------------------------------


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("target", [*NAMES, "t"])
@pytest.mark.few(2)
def test_names_are_shown_as_they_are(tmp_path, monkeypatch, capsys, target):
    path = write_csv(tmp_path / "[red]x[bold].csv", [*NAMES, "t"])
    monkeypatch.chdir(tmp_path)
    out = "[/out]"
    words = ["--task", "regression", "--target", target, "--out", out]
    assert run_safely(["run", str(path), *words]) == 0
    assert run_safely(["show", out]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "from [red]x[bold].csv" in text
    assert "[/out]/report.html" in text
    shown = [name.replace("\x1b", "\\x1b").replace("\x07", "\\x07") for name in NAMES if name != target]
    assert all(name in text for name in shown)


def test_the_report_shows_names_as_they_are(tmp_path, capsys, full):
    path = write_csv(tmp_path / "[red]\x1b[2J.csv", [*NAMES, "t"])
    tasks = (["regression", "--target", "t"], ["lowrank", "--k", "2"], ["clustering", "--k", "2"])
    for task in tasks if full else tasks[:1]:
        assert run_safely(["run", str(path), "--task", *task, "--out", str(tmp_path / "out")]) == 0
        text = (tmp_path / "out" / "report.html").read_text()
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "[red]\\x1b[2J.csv" in text
        assert "<b>x</b>" not in text
        assert "&lt;b&gt;x&lt;/b&gt;" in text
        assert "[/a]" in text


@pytest.mark.parametrize("name", [*NAMES, b"\xff\xfe.csv"])
def test_errors_show_names_as_they_are(tmp_path, capsys, name):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + os.fsencode(name).replace(b"/", b"|"))
    sentence(["run", path, "--task", "lowrank", "--k", "1"], capsys)
    Path(path).write_text("a,b\n1,\x1b[31m\n2,3\n4,5\n")
    assert "'\\x1b[31m' is not a number" in sentence(["run", path, "--task", "lowrank", "--k", "1"], capsys)
    sentence(["run", path, "--task", "lowrank", "--k", "1", "--columns", NAMES[2]], capsys)


@pytest.mark.usefixtures("no_report")
def test_a_path_that_is_not_utf8_gives_a_whole_result(tmp_path, capsys):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))
    write_csv(path, [*NAMES, "t"])
    assert run_safely(["run", str(path), "--task", "lowrank", "--k", "1", "--out", str(tmp_path / "out")]) == 0
    assert "\\udcff.csv" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "result.json").read_bytes())["source"] == "\\udcff.csv"


# -- bytes that no reader expects ---------------------------------------------------------------------

TABLES = {
    "mixed.jsonl": (b'{"a": "2020-01-01"}\n{"a": 3.5}\n', "line 2, column 'a': 3.5 is not a string"),
    "null.jsonl": (b"null\n", "line 1 is not a JSON object"),
    "null_inside.jsonl": (b'{"a": 1}\n' * 50 + b"null\n" + b'{"a": 2}\n', "line 51 is not a JSON object"),
    "key.jsonl": (b'{"a\x85": 1, "b": 2}\n', "line 1: byte 0x85 at position 4 is not valid UTF-8"),
    "deep.jsonl": (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}\n", "line 1 is not valid JSON"),
    "deeper.jsonl": (b'{"a": 1}\n' * 9 + b'{"b": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n", "line 10 is not valid"),
    "half.jsonl": (b'{"a": "\\ud800"}\n', "line 1 is not valid JSON"),
}


READ_ALL = """
import sys
from batch2online.app.cli.app import run_safely
from batch2online.storage import model_file
for name in sys.argv[1:]:
    assert run_safely(["run", name, "--task", "lowrank", "--k", "1"]) == 2, name
"""


def test_odd_lines_of_json_are_one_sentence_each(tmp_path, monkeypatch):
    """In a process of its own: some of these used to end it by a signal."""
    for name, (content, _) in TABLES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    code, out, error = run_to_end(READ_ALL, *TABLES)
    assert (code, out) == (0, ""), error[-2000:]
    for line, (name, (_, message)) in zip(error.splitlines(), TABLES.items(), strict=True):
        assert line.startswith(f"Error: {name}, ")
        assert message in line


def test_two_columns_of_one_name(tmp_path, capsys):
    table = pa.Table.from_arrays([pa.array(column) for column in ROWS[:, :3].T], names=["a", "a", "t"])
    path = tmp_path / "twice.parquet"
    pa.parquet.write_table(table, path)
    assert "several columns with the same name" in sentence(["run", path, "--task", "clustering", "--k", 2], capsys)
    path = write_csv(tmp_path / "once.csv", ["a", "b"], ROWS[:, :2])
    words = ["run", path, "--task", "clustering", "--k", 2, "--columns", "a,b,a"]
    assert "--columns lists 'a' more than once" in sentence(words, capsys)


SIDE_FILES = [b"", b"{}", b"[]", b"null", b"\xff", b"{" * 100_000, b'{"preparation": 5}', b'{"preparation": {}}']
FIELDS = ("numbers", "categories", "drop_first", "target", "missing", "means", "scales", "standardised", "known_rows")


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    path = write_csv(folder / "rows.csv", ["a", "b"], ROWS[:, :2])
    assert run_safely(["run", str(path), "--task", "lowrank", "--k", "1", "--out", str(folder / "out")]) == 0
    return folder


@pytest.mark.parametrize("facts", [5, {}, {"target": 7}, {"target": None, "units": {"a": 1}, "moments": {}}])
def test_malformed_facts_of_columns_are_one_sentence(run_once, tmp_path, capsys, facts):
    model = batch2online.load(run_once / "out" / "model.b2o")
    model_file.save(tmp_path / "model.b2o", model._state(), {"input": {"facts": facts}})
    assert "says of the columns of its run is malformed" in sentence(
        ["predict", tmp_path, run_once / "rows.csv"], capsys
    )


@pytest.mark.parametrize("content", [b"[]", b"x" * 5000, b"SQLite format 3\0" + b"\0" * 5000])
def test_a_state_that_holds_no_model(tmp_path, capsys, content):
    path = write_csv(tmp_path / "rows.csv", ["a", "b"], ROWS[:, :2])
    state = tmp_path / "state.b2o"
    state.write_bytes(content)
    assert "state.b2o" in sentence(["run", path, "--task", "lowrank", "--k", 1, "--state", state], capsys)
    assert state.read_bytes() == content


def test_json_holds_finite_numbers_alone(tmp_path, capsys):
    """A perfect fit in hindsight leaves nothing to compare with."""
    path = tmp_path / "exact.csv"
    path.write_text("a,b,t\n" + "".join(f"{i}.5,{i * i % 7},{3 * i}\n" for i in range(60)))
    words = ["run", str(path), "--task", "regression", "--target", "t", "--missing", "drop", "--json"]
    assert run_safely([*words, "--out", str(tmp_path / "out")]) == 0

    def refuse(text):
        raise AssertionError(text)

    result = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert result["ratio"] is None
    assert json.loads((tmp_path / "out" / "result.json").read_text(), parse_constant=refuse) == result
    assert run_safely(["show", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=refuse)["ratio"] is None


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.full
def test_many_columns_start_soon(tmp_path, suffix):
    """20,000 columns in half a second of an idle processor; pairwise comparisons took eight."""
    from batch2online.app.cli.run.source import open_stream
    from batch2online.app.cli.settings import Settings
    from batch2online.app.cli.tasks import Task
    from batch2online.app.inputs import open_source

    rows = np.random.default_rng(0).standard_normal((5, 20_000)).round(3)
    names = [f"column_{j}" for j in range(20_000)]
    path = tmp_path / f"wide.{suffix}"
    if suffix == "csv":
        write_csv(path, names, rows)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows.tolist()))
    else:
        pa.parquet.write_table(pa.table(list(rows.T.copy()), names=names), path)
    started = time.process_time()
    stream = open_stream(open_source(str(path)), path.name, Task(Settings(task="clustering", learner={"k": 2})))
    found = np.concatenate([some for some, _ in stream.chunks()])
    assert time.process_time() - started < 4
    np.testing.assert_array_equal(found, rows)


@pytest.mark.full
def test_fuzzed_tables_never_end_in_a_signal(full):
    """The full campaign: ``python -m torture readers`` from this folder, 100,000 tables."""
    from torture.readers import readers

    outcomes = readers(400 if full else 40, seed=7)
    assert {outcome.split()[0] for outcome in outcomes} == {"csv", "tsv", "jsonl", "parquet", "arrow"}
    assert {outcome.split()[1] for outcome in outcomes} == {"read", "refused"}
