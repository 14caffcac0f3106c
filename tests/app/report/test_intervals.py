"""95 % intervals of coefficients in reports: those of least squares, in the units of the coefficients beside them."""

import re

import numpy as np
import pandas as pd
import pytest

from batch2online import OnlineRegression
from batch2online.app.cli.app import run_safely
from batch2online.refresh import Geometric
from printed.page import Page

N = 500
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 3)) * [0.01, 1.0, 200.0] + [5.0, 0.0, -900.0]
Y = 4 + X @ [300.0, -2.0, 0.02] + RNG.normal(size=N)


def intervals(path):
    """Return the coefficients of the page, and the ends of their intervals."""
    tables = Page(path.read_text(encoding="utf-8")).tables["Coefficients"]
    table = next(each for each in tables if "95 % interval" in each[0])
    at = [table[0].index(name) for name in ("feature", "coefficient", "95 % interval")]
    cells = {line[at[0]]: (line[at[1]], line[at[2]]) for line in table[1:] if line[at[0]] != "intercept"}
    number = lambda text: float(text.replace("\N{MINUS SIGN}", "-").replace(",", ""))  # noqa: E731
    found = [[number(value), *map(number, re.split(" to ", ends))] for value, ends in cells.values()]
    return list(cells), np.array(found)


def check(path, names, w=None):
    """Compare the page with least squares: 1.96 standard errors, and how far the shown coefficient is from it.

    Numbers of the page have four digits, which is within 5 % of these intervals.
    """
    w = np.ones(N) if w is None else w
    A = np.column_stack([np.ones(N), X]) * np.sqrt(w)[:, None]
    best, (residual,), *_ = np.linalg.lstsq(A, Y * np.sqrt(w), rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(A.T @ A)) * residual / (w.sum() - A.shape[1]))
    found, shown = intervals(path)
    order = [names.index(name) + 1 for name in found]
    assert sorted(order) == [1, 2, 3]
    halves = 1.96 * errors[order] + np.abs(best[order] - shown[:, 0])
    assert (shown[:, 2] - shown[:, 1]) / 2 == pytest.approx(halves, rel=0.05)
    assert shown[:, 1:].mean(axis=1) == pytest.approx(shown[:, 0], abs=0.05 * halves.min(), rel=1e-3)


@pytest.mark.parametrize("options", [[], ["--standardize"], ["--refresh", "geometric:1.5"]], ids=" ".join)
def test_intervals_of_a_run_are_in_the_units_of_the_columns(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(np.column_stack([X, Y]), columns=["a", "b", "c", "y"]).to_csv("rows.csv", index=False)
    words = ["--task", "regression", "--target", "y", *options, "--out", "out", "--quiet"]
    assert run_safely(["run", "rows.csv", *words]) == 0
    check(tmp_path / "out" / "report.html", ["a", "b", "c"])


@pytest.mark.parametrize("settings", [{}, {"refresh": Geometric(1.3)}, {"half_life": 60}], ids=str)
def test_intervals_of_a_regression(settings, tmp_path):
    model = OnlineRegression(**settings, random_state=0).partial_fit(X, Y)
    model.report(tmp_path / "report.html")
    weights = 0.5 ** ((N - 1 - np.arange(N)) / settings["half_life"]) if "half_life" in settings else None
    check(tmp_path / "report.html", ["x1", "x2", "x3"], weights)


def test_fewer_rows_than_columns_have_no_interval(tmp_path):
    rows = RNG.normal(size=(30, 40))
    for half_life in (None, 5):
        model = OnlineRegression(half_life=half_life, random_state=0).partial_fit(rows, rows[:, 0])
        model.report(tmp_path / "report.html")
        tables = Page((tmp_path / "report.html").read_text(encoding="utf-8")).tables["Coefficients"]
        assert {line[-1] for line in tables[-1][1:]} == {""}
