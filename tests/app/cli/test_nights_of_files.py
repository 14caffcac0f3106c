"""Nights of files with the command: a file that has grown, and categories that the first night lacks."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from batch2online import OnlineRegression
from processes import COMMAND, run_to_end

pytest.importorskip("click", reason="needs the extra cli")


def command(*words):
    return run_to_end(COMMAND, *words)


def began(path, table, target):
    table.to_csv(path / "first.csv", index=False)
    words = (path / "first.csv", "--task", "regression", "--target", target, "--state", path / "model.b2o")
    code, _, error = command("run", *words)
    assert code == 0, error
    return path / "model.b2o"


def rows_of(model):
    return json.loads(command("show", model, "--json")[1])["rows"]


@pytest.mark.parametrize(
    "grown",
    [
        pytest.param(True, marks=pytest.mark.xfail(reason="d69: all is learned twice")),
        pytest.param(False, marks=pytest.mark.slow),
    ],
)
def test_a_file_that_was_learned_is_not_learned_again(tmp_path, grown):
    """Only its new rows are learned, or nothing and an error says so."""
    rng = np.random.default_rng(0)
    model = began(tmp_path, pd.DataFrame(rng.random((50, 2)), columns=["a", "y"]), "y")
    log = pd.DataFrame(rng.random((103, 2)), columns=["a", "y"])
    log[:100].to_csv(tmp_path / "log.csv", index=False)
    assert command("learn", model, tmp_path / "log.csv", "--alarms", "none")[0] == 0
    log[: 100 + 3 * grown].to_csv(tmp_path / "log.csv", index=False)
    code, _, error = command("learn", model, tmp_path / "log.csv", "--alarms", "none")
    assert rows_of(model) == (153 if code == 0 else 150), error


@pytest.mark.parametrize("first", [20, pytest.param(1500, marks=pytest.mark.slow)])
def test_categories_that_the_first_night_lacks_are_learned(tmp_path, first):
    rng, n = np.random.default_rng(0), 3000
    shop, kind, size = rng.integers(0, 30, n), rng.choice(list("abcdefgh"), n), rng.normal(size=n)
    price = 5 * rng.normal(size=30)[shop] + [ord(letter) for letter in kind] + size + rng.normal(size=n)
    table = pd.DataFrame({"shop": [f"s{each}" for each in shop], "kind": kind, "size": size, "price": price})
    test = table[2500:]
    model = began(tmp_path, table[:first], "price")
    for name, rows in {"second": table[first:2500], "test": test}.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    assert command("learn", model, tmp_path / "second.csv", "--alarms", "none")[0] == 0
    lines = command("predict", model, tmp_path / "test.csv")[1].splitlines()
    predicted = [float(line[0]) for line in list(csv.reader(lines))[1:]]
    online = OnlineRegression(columns="auto", random_state=0)
    for rows in (table[:first], table[first:2500]):
        online.partial_fit(rows.drop(columns="price"), rows.price)
    expected = online.score(test.drop(columns="price"), test.price)
    assert r2_score(test.price, predicted) >= expected - 0.005
