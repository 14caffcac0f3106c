"""Thirty nights of flights in the order of time: with and without a half-life, beside a refit on all nights so far."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from batch2online.app.cli.app import run_safely
from benchmarks.suite.form import Form
from benchmarks.suite.studies.nights import DAYS, TASK, written
from benchmarks.suite.study import Study

SETTINGS = {"learn": (), "learn, --half-life auto": ("--half-life", "auto")}
REFIT = "refit on all nights"
TEXT = (
    f"RMSE of a night of {DAYS} days of flights, in minutes, under the model of the night before, as means of five "
    "nights. The rows of a year change with the season; `order` says so from the first night on. A half-life lets the "
    "model follow; the refit weighs all nights alike."
)


def measure(form: Form) -> Iterator[Study]:
    n = form.choose(tiny=3, quick=30, full=30)
    with tempfile.TemporaryDirectory() as name:
        files, _ = written(Path(name), n)
        found = {setting: nights(files, Path(name, "model.b2o"), more) for setting, more in SETTINGS.items()}
        found[REFIT] = refits(files)
    records = []
    for start in range(0, n - 1, 5):
        some = {setting: float(np.mean(errors[start : start + 5])) for setting, errors in found.items()}
        records.append({"nights": f"{start + 2} to {min(start + 6, n)}", **some})
    yield Study("Nights in time", TEXT, ["nights", *found], records, formats=dict.fromkeys(found, ".2f"))


def nights(files: list[str], model: Path, more: tuple[str, ...]) -> list[float]:
    """Return the error of each night but the first under the model before it, as ``learn`` reports it."""
    model.unlink(missing_ok=True)
    found = []
    for file in files:
        first = ["run", file, *TASK, *more, "--state", str(model), "--json"]
        with redirect_stdout(io.StringIO()) as said:
            code = run_safely(["learn", str(model), file, "--json", "--alarms", "none"] if model.exists() else first)
        assert code == 0
        found.append(json.loads(said.getvalue()).get("quality_before", {}).get("RMSE"))
    return found[1:]


def refits(files: list[str]) -> list[float]:
    """Return the same of a refit on all rows so far."""
    tables, found = [pd.read_csv(file) for file in files], []
    for night in range(1, len(tables)):
        rows, new = pd.concat(tables[:night]), tables[night]
        encode = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["carrier", "origin"]), remainder="passthrough"
        )
        model = make_pipeline(encode, LinearRegression()).fit(rows.drop(columns="arr_delay"), rows["arr_delay"])
        found.append(float(np.sqrt(np.mean(np.square(model.predict(new) - new["arr_delay"])))))
    return found
