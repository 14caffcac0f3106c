"""Nights of customers who leave or stay: ``batch2online learn`` beside a script that refits on all files so far."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from batch2online.datasets.tables import churn_frame
from benchmarks.suite.form import Form
from benchmarks.suite.studies.nights import LEARN, timed
from benchmarks.suite.study import Study

IS_TIMED = True
ROWS = 500
SCRIPT = """
import glob, sys
import joblib, pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

night, model_file, files = sys.argv[1], sys.argv[2], sys.argv[3:]
new = pd.read_csv(night)
if files:
    p = joblib.load(model_file).predict_proba(new)[:, 1]
    print(log_loss(new["churn"] == "Yes", p), accuracy_score(new["churn"] == "Yes", p > 0.5))
rows = pd.concat([pd.read_csv(file) for file in [*files, night]])
encode = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    remainder=StandardScaler(),
)
model = make_pipeline(encode, LogisticRegression(max_iter=1000)).fit(rows.drop(columns="churn"), rows["churn"])
joblib.dump(model, model_file)
"""
TEXT = (
    f"Customers of a telephone company (`--dataset churn`) in random order, {ROWS} a night, and whether they left. "
    "`learn` appends the night to the model of the nights before; the script reads all files so far and fits "
    "`LogisticRegression`. Processor seconds of a whole process, imports included; log loss and accuracy of the night "
    "under the model of the night before."
)
MEASURES = ("s", "log loss", "accuracy")
HEADS = ["nights", *(f"{who}, {measure}" for measure in MEASURES for who in ("learn", "script"))]
FORMATS = {head: ".2f" if head.endswith(" s") else ".3f" for head in HEADS[1:]}


def measure(form: Form) -> Iterator[Study]:
    n = form.choose(tiny=3, quick=14, full=14)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, nights, changes = written(folder, n), [], 0
        model, other, script = folder / "churn.b2o", folder / "churn.joblib", folder / "refit.py"
        script.write_text(SCRIPT)
        for night, file in enumerate(files, 1):
            task = ["run", file, "--task", "classification", "--target", "churn", "--state", str(model), "--json"]
            own = ["learn", str(model), file, "--json", "--alarms", "none"]
            seconds, said = timed([*LEARN, *(own if night > 1 else task)])
            theirs, printed = timed([sys.executable, str(script), file, str(other), *files[: night - 1]])
            if night > 1:
                found = json.loads(said)
                changes += len(found["changes"])
                before = found["quality_before"]
                loss, accuracy = map(float, printed.split())
                nights.append((seconds, theirs, before["log loss"], loss, before["accuracy"], accuracy))
    note = f"The model changed {changes} times after the first night; the script's changed in each of them."
    yield Study("Nights of churn", TEXT, HEADS, list(records(np.array(nights))), note, FORMATS)


def records(nights: np.ndarray) -> Iterator[dict[str, object]]:
    """Means of some nights; the first one has no model before it."""
    for some in np.array_split(np.arange(len(nights)), min(3, len(nights))):
        values = dict(zip(HEADS[1:], map(float, nights[some].mean(axis=0)), strict=True))
        yield {"nights": f"{some[0] + 2} to {some[-1] + 2}", **values}


def written(folder: Path, n: int) -> list[str]:
    """Write a file a night; return the files."""
    frame = churn_frame().drop(columns="rownames").sample(frac=1.0, random_state=0)
    files = []
    for night in range(n):
        files.append(str(folder / f"night-{night:02}.csv"))
        frame.iloc[ROWS * night : ROWS * (night + 1)].to_csv(files[-1], index=False)
    return files
