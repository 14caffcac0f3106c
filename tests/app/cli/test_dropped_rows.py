"""Rows with missing values that are dropped: counted over all files, and never among those that were learned."""

import io
import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

from batch2online import OnlineRegression
from batch2online.app.cli.app import run_safely

WORDS = ["--task", "regression", "--target", "y", "--missing", "drop"]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Three files of 100 rows, of which 7, 11 and 13 have a missing input or target."""
    monkeypatch.chdir(tmp_path)
    rng, tables = np.random.default_rng(0), []
    for number, n_missing in enumerate((7, 11, 13)):
        table = pd.DataFrame(rng.normal(size=(100, 3)).round(3), columns=["a", "b", "y"])
        places = rng.choice(100, n_missing, replace=False)
        for place, column in zip(places, rng.choice(["a", "b", "y"], n_missing), strict=True):
            table.loc[place, column] = np.nan
        table.to_csv(f"{number}.csv", index=False)
        tables.append(table)
    return tables


def test_rows_dropped_are_counted_over_all_files(tables, capsys):
    files = ["0.csv", "1.csv", "2.csv"]
    assert run_safely(["run", *files, *WORDS, "--json"]) == 0
    result, complete = json.loads(capsys.readouterr().out), pd.concat(tables).dropna()
    assert (result["rows"], result["rows_dropped"]) == (269, 31)
    model = OnlineRegression(random_state=0).partial_fit(complete[["a", "b"]].to_numpy(), complete["y"].to_numpy())
    assert result["metrics"] == pytest.approx(model.metrics_, rel=1e-9)
    assert run_safely(["run", *files, *WORDS, "--quiet"]) == 0
    assert re.search(r"rows +269 at [\d,]+ rows/s, 31 more dropped", capsys.readouterr().out)


def test_rows_dropped_of_a_night_are_its_own(tables, capsys):
    assert run_safely(["run", "0.csv", *WORDS, "--state", "m.b2o", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_dropped"] == 7
    assert run_safely(["learn", "m.b2o", "1.csv", "2.csv", "--alarms", "none"]) == 0
    said = capsys.readouterr().out
    assert "176 rows, 24 more dropped" in said
    assert "m.b2o, 269 rows" in said


class Lines(io.StringIO):
    """A terminal that notes each line of progress: rows, percent, and the time left."""

    def shown(self):
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())
        return re.findall(r"([\d,]+) rows[^%]*?(\d+)%, ([\d:]+) left", text)

    def isatty(self):
        return True


@pytest.mark.parametrize("command", ["run", "learn"])
def test_progress_counts_dropped_rows_as_done(command, tmp_path, monkeypatch, capfd):
    """The line is drawn after the first batch, at times, and at the end: it follows the rows of the input."""
    rng, paths, done = np.random.default_rng(0), [], [0]
    for number in range(5):
        table = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "y"])
        places = rng.choice(200, 60, replace=False)
        table.loc[places, "a"], table.loc[places[:9], "y"] = np.nan, np.nan
        table.to_csv(tmp_path / f"{number}.csv", index=False)
        paths.append(str(tmp_path / f"{number}.csv"))
        done.append(done[-1] + 140)
    model = str(tmp_path / "m.b2o")
    if command == "learn":
        assert run_safely(["run", paths[0], *WORDS, "--state", model, "--quiet"]) == 0
        paths, done = paths[1:], done[:-1]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", terminal := Lines())
    words = [*paths, *WORDS] if command == "run" else [model, *paths, "--alarms", "none"]
    assert run_safely([command, *words]) == 0
    found = {int(rows.replace(",", "")): (int(percent), left) for rows, percent, left in terminal.shown()}
    assert list(found)[:: len(found) - 1] == [140, done[-1]]
    assert found[done[-1]] == (100, "0:00")
    for rows, (percent, _) in found.items():  # a line that is drawn within a batch may show the fraction before it
        assert percent == pytest.approx(100 * rows / done[-1], abs=100 / len(paths) + 1)
