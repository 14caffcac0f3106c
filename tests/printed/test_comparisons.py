"""The numbers of ``evaluate.prequential`` and of ``batch2online compare``, recomputed from the rows."""

from __future__ import annotations

import json
import re
import time
from functools import partial

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA
from sklearn.linear_model import SGDRegressor

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression, evaluate
from printed import comparisons, recompute
from printed.commands import run
from printed.net import Between, complaints, differ
from printed.replays import CASES

SPEED = Between(1, 1e9)
OURS = "batch2online"
LEARNERS = {
    "squared": {"ours": OnlineRegression, "theirs": SGDRegressor},
    "absolute": {"ours": OnlineRegression, "theirs": SGDRegressor},
    "clusters": {"ours": partial(OnlineClustering, 3), "theirs": partial(MiniBatchKMeans, 3, n_init=1)},
    "subspace": {"ours": partial(OnlineLowRank, 2), "theirs": lambda random_state: IncrementalPCA(2)},
}  # fmt: skip
NAMES = {"clusters": "clustering", "subspace": "lowrank"}


def rows_of(kind, seed):
    """Return the rows and targets of a table, standardised, as ``compare`` does for regression."""
    rows, drop = recompute.table(seed), kind in ("squared", "absolute", "classes")
    X = recompute.prepared(rows, drop_first=drop, standardise=drop).to_numpy()
    if kind == "subspace":
        X = X - X.mean(0)
    if kind == "classes":
        return X, recompute.codes(rows["two"])[0].astype(float)
    return X, ((rows["y"] - rows["y"].mean()) / rows["y"].std(ddof=0)).to_numpy() if drop else None


@pytest.mark.parametrize("kind", ["squared", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*LEARNERS][1:])])
@pytest.mark.parametrize(("chunk", "warmup"), [(7, 0), (10, 25)])
def test_every_number_of_an_evaluation_is_recomputed(kind, chunk, warmup):
    X, y = rows_of(kind, 3)
    models = {name: make(random_state=0) for name, make in LEARNERS[kind].items()}
    result = evaluate.prequential(models, X, y, loss=NAMES.get(kind, kind), seeds=(0, 4), chunk=chunk, warmup=warmup)
    out, best = [], comparisons.hindsight(kind, X, y, 3 if kind == "clusters" else 2)
    for record, points in zip(result.rows, result.curves, strict=True):
        order = np.random.default_rng(record.seed).permutation(len(X))
        learner = LEARNERS[kind][record.model](random_state=record.seed)
        rule, at = comparisons.run(kind, learner, X, y, best, order, chunk, warmup)
        ratio = {"ratio": record.loss / record.optimum, "regret": record.loss - record.optimum}
        out += complaints(dict(record), rule | ratio | {"seed": record.seed, "rows_per_second": SPEED})
        expect = comparisons.curve(vars(points), at, chunk, warmup, len(X))
        out += complaints(vars(points), expect | {"seed": record.seed})
    for line in result.summary():
        own = [dict(each) for each in result.rows if each.model == line["model"]]
        means = {
            name: np.mean([each[name] for each in own])
            for name in own[0]
            if name not in ("model", "seed", "peak_memory")
        }
        out += complaints(line, means | {"seeds": 2, "ratio_std": np.std([each["ratio"] for each in own])})
    assert not out


class Slow:
    """A learner of the mean that sleeps while it learns, and less while it predicts."""

    def __init__(self, seconds=0.004):
        self.seconds = seconds

    def partial_fit(self, X, y):
        """Sleep; remember a mean."""
        time.sleep(self.seconds)
        self.mean_ = np.mean(y)

    def predict(self, X):
        """Sleep; predict the mean."""
        time.sleep(self.seconds / 4)
        return np.full(len(X), self.mean_)


def test_rows_a_second_are_those_of_the_learner_alone():
    X, y = rows_of("squared", 3)
    started = time.perf_counter()
    result = evaluate.prequential({"slow": Slow(), "fast": Slow(0.0)}, X, y, loss="squared", seeds=1, chunk=10)
    elapsed = time.perf_counter() - started
    slow, fast = (record.rows_per_second for record in result.rows)
    chunks = -(-len(X) // 10)
    assert len(X) / elapsed <= slow <= len(X) / (0.0039 * chunks + 0.0009 * (chunks - 1))
    assert len(X) / fast <= elapsed - len(X) / slow


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
