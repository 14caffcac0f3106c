"""Rows with missing values that are dropped: counted over all files, and never among those that were learned."""

import json
import re

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
