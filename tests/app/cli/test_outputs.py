"""The files of ``--out`` are replaced as one, whenever the process ends."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.cli.run.outputs import in_place, put_in_place
from processes import run_to_end

pytestmark = pytest.mark.usefixtures("no_reports")

NAMES = ("a", "b", "c")


class Killed(BaseException):
    pass


def folder_of(path, text):
    path.mkdir()
    for name in NAMES:
        (path / name).write_text(text)
    return path


def content(folder):
    return {in_place(folder, name).read_text() for name in NAMES}


def die_at(monkeypatch, count):
    """Let the process die before its ``count``-th change of a folder."""
    left = iter(range(count - 1))

    def dying(act):
        def call(*arguments):
            if next(left, None) is None:
                raise Killed
            return act(*arguments)

        return call

    for name in ("rename", "replace", "rmdir"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))


@pytest.mark.parametrize("foreign", [None, "notes.txt"])
def test_a_folder_holds_all_old_or_all_new_files(tmp_path, monkeypatch, foreign):
    seen = set()
    for count in range(1, 20):
        folder = folder_of(tmp_path / f"out{count}", "old")
        if foreign:
            (folder / foreign).write_text("mine")
        with monkeypatch.context() as patch:
            die_at(patch, count)
            try:
                put_in_place(folder_of(tmp_path / f"new{count}", "new"), folder)
                is_done = True
            except Killed:
                is_done = False
        found = content(folder)
        assert found in ({"old"}, {"new"})
        seen |= found
        put_in_place(folder_of(tmp_path / f"newer{count}", "newer"), folder)
        assert content(folder) == {"newer"}
        assert sorted(file.name for file in folder.iterdir()) == sorted([*NAMES, *([foreign] if foreign else [])])
        assert foreign is None or (folder / foreign).read_text() == "mine"
        if is_done:
            break
    assert is_done
    assert seen == {"old", "new"}


def test_a_folder_keeps_its_mode_and_what_others_put_there(tmp_path):
    folder = folder_of(tmp_path / "out", "old")
    folder.chmod(0o750)
    put_in_place(folder_of(tmp_path / "new", "new"), folder)
    assert folder.stat().st_mode & 0o777 == 0o750
    (folder / "sub").mkdir()
    (folder / "sub" / "mine").write_text("mine")
    put_in_place(folder_of(tmp_path / "newer", "newer"), folder)
    assert (folder / "sub" / "mine").read_text() == "mine"
    assert content(folder) == {"newer"}


@pytest.mark.usefixtures("no_report")
def test_the_working_folder_and_links_to_folders_are_replaced_inside(tmp_path, monkeypatch, capsys):
    write_rows(tmp_path / "rows.csv")
    words = ["run", str(tmp_path / "rows.csv"), "--task", "lowrank", "--k", "1", "--out"]
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "real")
    for out in (".", "../link", "../link"):
        assert run_safely([*words, out]) == 0
        assert Path("report.html").is_file()
    assert (tmp_path / "link").is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "real", "rows.csv"]


def write_rows(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) * [1, 100] + [5, 1000]
    y = X @ [2.0, 3.0]
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,t", comments="")
    return y


KILL = """
import os, sys
real = os.replace
def replace(source, target):
    if str(target).endswith("result.json"):
        os.kill(os.getpid(), 9)
    real(source, target)
os.replace = replace
from batch2online.app.cli.app import run_safely
run_safely(sys.argv[1:])
"""


def test_predictions_after_a_killed_run_are_those_of_one_run(tmp_path, monkeypatch):
    """The second run prepares its columns in another way; a mixture of both would predict nonsense."""
    monkeypatch.chdir(tmp_path)
    y = write_rows(tmp_path / "a.csv")
    words = ["run", "a.csv", "--task", "regression", "--target", "t", "--out", "out", "-q"]
    assert run_safely([*words, "--standardize"]) == 0
    code, _, _ = run_to_end(KILL, *words)
    assert code == -9
    assert run_safely(["predict", "out", "a.csv", "--out", "p.csv"]) == 0
    np.testing.assert_allclose(np.loadtxt("p.csv", skiprows=1), y, rtol=1e-6)
    assert run_safely(words) == 0
    assert not (tmp_path / "out" / ".pending").exists()
