"""The numbers of ``batch2online compare``: those of ``evaluate.prequential``, which tests/evaluate recomputes."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pytest

from batch2online import evaluate
from printed import recompute
from printed.commands import run
from printed.net import Between, complaints, differ
from printed.replays import CASES

OURS = "batch2online"
NAMES = {"clusters": "clustering", "subspace": "lowrank"}


def rows_of(kind, seed):
    """Return the rows and targets of a table, standardised, as ``compare`` does for regression."""
    rows, drop = recompute.table(seed), kind in ("squared", "absolute", "classes")
    X = recompute.prepared(rows, drop_first=drop, standardise=drop, known=len(rows)).to_numpy()
    if kind == "subspace":
        X = X - X.mean(0)
    if kind == "classes":
        return X, recompute.codes(rows["two"])[0].astype(float)
    return X, ((rows["y"] - rows["y"].mean()) / rows["y"].std(ddof=0)).to_numpy() if drop else None


def lines(text):
    """Return the cells of the lines of a printed table."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("name", "kind", "seed"),
    [
        pytest.param("regression", "squared", 2),
        pytest.param("regression", "squared", 5, marks=pytest.mark.slow),
        pytest.param("two classes", "classes", 4, marks=pytest.mark.slow),
        pytest.param("clusters", "clusters", 5, marks=pytest.mark.slow),
        pytest.param("subspace", "subspace", 5, marks=pytest.mark.slow),
    ],
)
def test_a_comparison_prints_what_an_evaluation_measures(name, kind, seed, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    case, (X, y), path = CASES[name], rows_of(kind, seed), tmp_path / "table.csv"
    recompute.table(seed).to_csv(path, index=False)
    others = [each for each in (*recompute.TARGETS, "weight") if each != case.target]
    given = ["compare", path, *case.words.split(), "--exclude", ",".join(others), "--missing", "mean", "--seeds", 2]
    given += ["--target", case.target] if case.target else []
    assert run(*given, "--json") == 0
    result, started = json.loads(capsys.readouterr().out), time.perf_counter()
    assert run(*given) == 0
    elapsed, text = time.perf_counter() - started, capsys.readouterr().out
    n, chunk, models = len(X), max(1, len(X) // 10), {OURS: case.make(random_state=0)}
    loss = evaluate.losses.LogarithmicLoss() if kind == "classes" else NAMES.get(kind, kind)
    measured = evaluate.prequential(models, X, y, loss=loss, seeds=2, chunk=chunk, warmup=chunk).rows
    ours = [record for record in result["rows"] if record["model"] == OURS]
    names, out = ("seed", "loss", "optimum", "changes", "churn"), []
    for record, expected in zip(ours, measured, strict=True):
        out += complaints({each: record[each] for each in names}, {each: dict(expected)[each] for each in names})
    means = {
        model: np.mean([
            (each["loss"] / each["optimum"], each["changes"], each["churn"])
            for each in result["rows"] if each["model"] == model
        ], axis=0)
        for model in {each["model"] for each in result["rows"]}
    }  # fmt: skip
    table = {cells[0]: cells[1:] for cells in lines(text) if cells[0] in means}
    assert table.keys() == means.keys()
    heads = next(cells[1:] for cells in lines(text) if cells[0] == "model")
    for model, cells in table.items():
        ratio, changes, churn = means[model]
        known = {"loss / optimum": ratio, "changes": changes, "churn": churn, "rows/s": Between(n / elapsed, 1e8)}
        for head, cell in zip(heads, cells, strict=True):
            out += [f"{model}, {head}: {each}" for each in differ(cell, known[head])]
    about = next(line for line in text.splitlines() if "random order" in line).replace("table.csv", "")
    assert not out + differ(about, n, 2, chunk)
