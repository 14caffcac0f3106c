"""The command line's state: nothing of others is deleted, one run at a time, killed runs go on or start over."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression, load
from batch2online.app.cli.app import run_safely
from defects.subjects import X, Y
from processes import COMMAND, Started

TASKS = {
    "regression": ["--task", "regression", "--target", "t"],
    "clustering": ["--task", "clustering", "--k", "3", "--history", "memory"],
    "clustering on disk": ["--task", "clustering", "--k", "3", "--history", "history"],
    "lowrank": ["--task", "lowrank", "--k", "2"],
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of 4,000 rows in the working folder."""
    monkeypatch.chdir(tmp_path)
    table = np.column_stack([X, Y])
    np.savetxt("rows.csv", table, delimiter=",", header="a,b,c,t", comments="", fmt="%.6f")
    return "rows.csv"


def run(*words):
    return run_safely(["run", *map(str, words), "-q"])


def sentence(capsys, *words):
    """What a command that ends with an error says."""
    capsys.readouterr()
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert error.count("\n") == 1
    return error


# -- nothing of others is deleted or changed -----------------------------------------------------------------------


def test_a_state_in_a_folder_deletes_nothing_there(table, capsys):
    models = Path("models")
    models.mkdir()
    OnlineRegression(random_state=0).fit(X, Y).save(models / "model-production.b2o")
    for name in ("model-2000.b2o", "position.json", "model.b2o.bak", ".model.b2o.tmp", "notes.txt"):
        (models / name).write_text(name)
    (models / "rows-000000").mkdir()
    (models / "rows-000000" / "segment").write_text("mine")
    before = {path: path.read_bytes() for path in models.rglob("*") if path.is_file()}
    for _ in range(2):
        assert run(table, *TASKS["regression"], "--state", models) == 0
    assert {path: path.read_bytes() for path in before} == before
    assert load(models / "model-production.b2o").n_seen_ == len(X)
    assert set(models.iterdir()) - set(before) == {models / "model.b2o", models / "rows-000000"}


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_model_that_no_run_has_written_is_not_continued(table, capsys, is_durable):
    model = OnlineRegression(random_state=0)
    if is_durable:
        with Durable("mine", model) as durable:
            durable.partial_fit(X[:100], Y[:100])
    else:
        model.fit(X, Y).save("mine")
    rows = load("mine").n_seen_
    sentence(capsys, table, *TASKS["regression"], "--state", "mine")
    assert load("mine").n_seen_ == rows


# -- killed runs, and two at once ----------------------------------------------------------------------------------


def running(*words):
    """A run in a process of its own, which is killed at the end unless it has ended."""
    return Started(COMMAND, "run", *words, "-q")


def wait_until(condition, process):
    deadline = time.monotonic() + 600  # however busy the machine is
    while not condition() and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    assert condition()


INPUT = ["-", "--format", "csv"]
TIMES = 12


@pytest.fixture
def long_table():
    """A table of more than one block of a reader, as bytes: the first block is learned before the rest has come."""
    lines = ["".join(f"{value:.30f}," for value in row)[:-1] for row in np.column_stack([X, Y])]
    return ("a,b,c,t\n" + ("\n".join(lines) + "\n") * TIMES).encode()


def finished(content, *words):
    """The result of a run to its end."""
    with running(*INPUT, *words, "--json") as process:
        out, error = process.communicate(content)
        assert process.returncode == 0, error
    return json.loads(out)


@pytest.mark.parametrize("task", ["regression", "clustering on disk"])
def test_a_run_killed_before_its_first_state_starts_over(long_table, task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with running(*INPUT, *TASKS[task], "--state", "state") as process:
        process.stdin.write(long_table[: len(long_table) * 3 // 4])
        process.stdin.flush()
        wait_until(Path("state").exists, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed = finished(long_table, *TASKS[task], "--state", "state")
    assert resumed == finished(long_table, *TASKS[task])
    assert resumed["rows"] == TIMES * len(X)


def test_a_durable_model_killed_in_its_first_call_starts_over(tmp_path):
    """The file is there, and no state in it."""
    (tmp_path / "here").mkdir()
    with Durable(tmp_path / "here" / "model", OnlineRegression(random_state=0)):
        shutil.copytree(tmp_path / "here", tmp_path / "there")
    with Durable(tmp_path / "there" / "model", OnlineRegression(random_state=0)) as again:
        assert again.partial_fit(X[:100], Y[:100]).model.n_seen_ == 100


def test_the_second_of_two_runs_on_one_state_says_so_and_ends(long_table, table, capsys):
    half = len(long_table) * 3 // 4
    with running(*INPUT, *TASKS["regression"], "--state", "state", "--json") as process:
        process.stdin.write(long_table[:half])
        process.stdin.flush()
        wait_until(lambda: Path("state-owner").exists() and Path("state-owner").stat().st_size, process)
        assert "is open in another process" in sentence(capsys, table, *TASKS["regression"], "--state", "state")
        out, error = process.communicate(long_table[half:])
        assert process.returncode == 0, error
    assert json.loads(out) == finished(long_table, *TASKS["regression"])
    assert not Path("state-owner").exists()
    assert load("state").n_seen_ == TIMES * len(X)
