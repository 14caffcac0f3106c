"""What is said of models that let old rows go: in the headline, the report, the terminal, the check of an order."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from batch2online import OnlineRegression
from batch2online.app.cli.app import run_safely
from batch2online.app.report import overview
from batch2online.app.report.page import model_report
from batch2online.results import ChangeEvent


def drifting(n=4_000, speed=0.05):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X * np.cumsum(rng.normal(size=(n, 3)), axis=0)).sum(axis=1) * speed + rng.normal(size=n)


@pytest.mark.slow
def test_the_headline_says_which_rows_count():
    X, y = drifting()
    told = {
        name: OnlineRegression(random_state=0, **settings).partial_fit(X, y).headline().distance
        for name, settings in {
            "plain": {},
            "fading": {"half_life": 500},
            "window": {"window": 158},  # and three rows since the last check
            "auto": {"half_life": "auto"},
        }.items()
    }
    assert told["plain"].endswith("the best possible linear fit")
    assert told["fading"].endswith("the best possible linear fit for rows weighted by a half-life of 500")
    assert told["window"].endswith("the best possible linear fit for the last 161 rows")
    assert told["auto"].endswith("for rows weighted by a half-life of 600")
    calm = OnlineRegression(random_state=0, half_life="auto").partial_fit(*drifting(1_500, speed=0.0))
    assert calm.headline().distance.endswith("for all rows, unweighted: no half-life is active")


@pytest.mark.slow
def test_the_report_says_which_half_life_was_in_force_when():
    X, y = drifting()
    model = OnlineRegression(random_state=0, half_life="auto").partial_fit(X, y)
    switch = next(event for event in model.changes_ if event.kind == "half_life")
    page = model_report(model)
    assert f"Half-life: none at first, 600 from row {switch.at:,}." in page
    assert "rows so far, weighted by a half-life of 600" in page
    assert overview.switches(OnlineRegression().partial_fit(X, y)) == ""
    calm = OnlineRegression(random_state=0, half_life="auto").partial_fit(*drifting(1_500, speed=0.0))
    assert "no half-life was better" in model_report(calm)


class Busy:
    """A model whose half-lives have changed often."""

    half_life, n_seen_ = "auto", 10_000
    changes_ = tuple(
        ChangeEvent(at=at, kind="half_life", magnitude=1.0, cost_before=1.0, cost_after=1.0, rows=rows)
        for at, rows in zip(range(1_000, 9_000, 1_000), [600, 0] * 4, strict=True)
    )


def test_many_switches_are_told_in_short():
    assert overview.switches(Busy()) == (
        " The half-life changed 8 times, last to none from row 8,000; none was active for 60% of the rows."
    )


@pytest.mark.parametrize("option", [["--half-life", "400"], ["--window", "400"], ["--half-life", "auto"]])
@pytest.mark.few(1)
@pytest.mark.slow
def test_a_run_judges_its_last_model_on_the_rows_that_count(option, tmp_path, capsys):
    X, y = drifting()
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
    command = ["run", str(tmp_path / "rows.csv"), "--task", "regression", "--target", "y", *option]
    assert run_safely([*command, "--out", str(tmp_path / "out")]) == 0
    said = "on the last " if option[0] == "--window" else "weighted by a half-life"
    assert said in " ".join(capsys.readouterr().out.split())
    curve = json.loads((tmp_path / "out" / "result.json").read_text())["curve"]
    last = curve[-1]
    assert last["weight"] < 0.5 * last["rows"]  # means over rows would be too small
    assert 0.5 < last["loss"] / last["weight"] < 10
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("older ones are forgotten" in page) == (option[0] == "--window")
    assert ("of a row halves every" in page) == (option[0] != "--window")


def test_evidence_beyond_doubt_is_told_without_digits():
    X, y = drifting(2_000)
    verdict = OnlineRegression(random_state=0).partial_fit(X, y).order_
    assert "evidence 1e12 from row" in replace(verdict, evidence=12.3, alarm=700).sentence()
    assert "evidence beyond 1e100 from row" in replace(verdict, evidence=1e4, alarm=700).sentence()
