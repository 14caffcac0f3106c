"""Anchored coresets against refits on all rows and streaming peers: classes, counts, quantiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from batch2online import datasets
from benchmarks.suite import predictors
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

IS_TIMED = True
NAMES = tuple(name for name in predictors.CONTESTS if name != "breast_cancer")
QUICK = (
    "flights_late",
    "shuttle",
    "separable",
    "diamonds_cut",
    "ten_classes",
    "doctor_visits, poisson",
    "diamonds, absolute",
    "diamonds, huber",
)
FORMATS = {
    "rows/s": ",.0f",
    "times refits": ".1f",
    "times lbfgs": ".1f",
    "MB": ".1f",
    "peak MB": ".1f",
    "worst ours / refits": ".5f",
    "ours / refits": ".5f",
}
TEXT = (
    "`OnlineClassifier` and `OnlineRegression(loss=...)` with their defaults against the batch algorithm refitted on "
    "all rows at the same times, whenever their number has doubled: scikit-learn's `LogisticRegression` (by Newton's "
    "method, its fastest; lbfgs for several classes), `PoissonRegressor` and `GammaRegressor` (Newton's), and for "
    "the absolute and Huber losses ours with all rows kept. `times lbfgs` compares with `LogisticRegression()` as "
    "is, on one stream. Random order, chunks of 1,000, each scored under the model before it, losses from row 1,000 "
    "on over those of the best model in hindsight, means over {seeds} seeds; rows per processor second; maximum "
    "memory between calls, with buffered rows, and during a call; changes after row 1,000."
)


def measure(form: Form) -> Iterator[Study]:
    names = form.sets or form.choose(tiny=("breast_cancer",), quick=QUICK, full=NAMES)
    records = [record for name in names for record in compared(name, form)]
    columns = ["data", "rows", "refits", "ours", "ours / refits", "worst ours / refits"]
    columns += ["rows/s", "times refits", "times lbfgs", "MB", "peak MB", "changes"]
    yield Study("", TEXT.format(seeds=len(form.seeds_of(5))), columns, records, formats=FORMATS)


def shuffled(name: str, seed: int) -> tuple[np.ndarray, Any]:
    X, y = predictors.CONTESTS[name].load()
    order = np.random.default_rng(seed).permutation(len(X))
    return np.ascontiguousarray(X[order]), y[order]


def compared(name: str, form: Form) -> Iterator[dict[str, Any]]:
    contest, chunk, found = predictors.CONTESTS[name], form.chunk, []
    try:
        best = contest.ours(coreset_size=predictors.EVERYTHING, random_state=0).fit(*contest.load())
    except datasets.MissingPackageError as missing:
        print(f"left out: {missing}", flush=True)
        return
    for seed in form.seeds_of(5):
        X, y = shuffled(name, seed)
        least = float(contest.loss(best, X[chunk:], y[chunk:]).sum())
        ours = predictors.stream(contest.ours(random_state=seed), contest.loss, X, y, chunk)
        refits = predictors.stream(predictors.refits_of(contest, X.shape[1]), contest.loss, X, y, chunk)
        print(
            name, seed, ours.loss / least, refits.loss / least, ours.rows_per_second, refits.rows_per_second, flush=True
        )
        found.append((ours, refits, least))
    X, y = shuffled(name, 0)
    held, peak = predictors.megabytes(contest.ours(random_state=0), X, y, chunk)
    record = {"data": name, "rows": len(X), "MB": held, "peak MB": peak, **summary(found)}
    if contest.loss is predictors.log_loss:
        plain = predictors.stream(
            predictors.Refits(LogisticRegression, 3 * (X.shape[1] + 1)), contest.loss, X, y, chunk
        )
        record["times lbfgs"] = record["rows/s"] / plain.rows_per_second
    yield record


def summary(found: list[tuple[predictors.Stream, predictors.Stream, float]]) -> dict[str, Any]:
    ratios = np.array([(refits.loss / least, ours.loss / least) for ours, refits, least in found])
    return {
        "refits": ratios[:, 0].mean(),
        "ours": ratios[:, 1].mean(),
        "ours / refits": (ratios[:, 1] / ratios[:, 0]).mean(),
        "worst ours / refits": (ratios[:, 1] / ratios[:, 0]).max(),
        "rows/s": float(np.median([ours.rows_per_second for ours, _, _ in found])),
        "times refits": float(np.median([ours.rows_per_second / refits.rows_per_second for ours, refits, _ in found])),
        "changes": max(ours.changes for ours, _, _ in found),
    }
