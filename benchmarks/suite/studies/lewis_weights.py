"""Least absolute deviations on online Lewis weights, against the anchored coreset and other samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import QuantileRegressor

from batch2online import BatchToOnline, OnlineRegression, coresets, evaluate, theory
from batch2online.checks import small_blocks
from batch2online.evaluate.losses import PredictorLosses
from batch2online.refresh import Geometric
from benchmarks.suite.form import Form
from benchmarks.suite.study import Kept, Study, loaded

SIZE, BLOCK = 500, 250
LOSS = (
    "Absolute errors of all rows, each under the model before its chunk, over those of the best model in hindsight: "
    "the mean over the streams, and after the slash rows kept at the end. `QuantileRegressor` is fitted to samples "
    'whenever rows have grown by half. *Anchored*: `OnlineRegression(loss="absolute")` with the same refits, which '
    "keeps rows and sums of all rows."
)
SENSITIVITY = (
    "The probability that the coreset changes when a random row is deleted and the draws of the others stay, with its "
    "95 % interval, and after the slash the bound of Lemma 13. Four columns of normal numbers, 20 expected rows, ε = "
    "0.5, blocks of 250 rows. *Weights*: the sum of the weights at arrival."
)


def measure(form: Form) -> Iterator[Study]:
    rows = form.choose(tiny=300, quick=10_000, full=30_000)
    records = [compared(name, X, y, form) for name, (X, y) in [*streams(rows), *real(form)]]
    yield Study(f"Least absolute deviations, {SIZE} rows", LOSS, ["rows", *learners()], records)
    sizes = form.choose(tiny=(50, 100), quick=(250, 1_000), full=(250, 1_000, 4_000))
    trials = form.choose(tiny=5, quick=50, full=200)
    with small_blocks(BLOCK):
        found = list(reactions(sizes, trials))
    columns = ["rows", "measured", "slope", "weights"]
    yield Study("Average sensitivity of online Lewis weights", SENSITIVITY, columns, found)


def streams(n: int) -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    yield "normal", (X, X.sum(axis=1) + rng.normal(size=n))
    X = rng.standard_t(2, size=(n, 8))
    yield "heavy tails", (X, X.sum(axis=1) + rng.standard_t(2, size=n))
    X = rng.normal(size=(n, 8))
    X[:, 0] *= rng.random(n) < 100 / n
    yield "rare column", (X, X.sum(axis=1) * (1 + 9 * (X[:, 0] != 0)) + rng.normal(size=n))


def real(form: Form) -> Iterator[tuple[str, Any]]:
    return loaded(form.sets_of("diamonds", tiny="diabetes"), targets=True)


def learners() -> dict[str, Callable[[], Any]]:
    def wrapped(coreset: Any) -> Any:
        fitted = QuantileRegressor(alpha=0.0, solver="highs")
        return BatchToOnline(fitted, loss="absolute", coreset=coreset, refresh=Geometric(1.5))

    size: dict[str, Any] = {"coreset_size": SIZE}
    return {
        "Lewis weights": lambda: wrapped(coresets.LewisWeights(1.0, intercept=True, coreset_size=2 * SIZE)),
        "leverage": lambda: wrapped(coresets.Leverage(intercept=True, **size)),
        "uniform": lambda: wrapped(coresets.Uniform(**size)),
        "anchored, 500": lambda: OnlineRegression(loss="absolute", refresh=Geometric(1.5), **size),
        "anchored": lambda: OnlineRegression(loss="absolute", refresh=Geometric(1.5)),
    }


def compared(name: str, X: np.ndarray, y: np.ndarray, form: Form) -> dict[str, Any]:
    models = {each: Kept(make()) for each, make in learners().items()}
    seeds = form.seeds_of(form.choose(tiny=1, quick=2, full=5))
    result = evaluate.prequential(models, X, y, loss=PredictorLosses(loss="absolute"), seeds=seeds, chunk=form.chunk)
    kept = {each: np.mean([len(model.coreset_) for model in models[each].learned]) for each in models}
    cells = {each: f"{result.mean(each, 'ratio'):.4f} / {kept[each]:,.0f}" for each in models}
    return {"rows": f"{name}, {len(X):,} x {X.shape[1]}", **cells}


def reactions(sizes: tuple[int, ...], trials: int) -> Iterator[dict[str, Any]]:
    X = np.random.default_rng(0).normal(size=(max(sizes), 4))
    settings: dict[str, Any] = {"coreset_size": 20, "epsilon": 0.5}
    decay = evaluate.sensitivity_decay(coresets.LewisWeights(1.0, **settings), X, sizes=sizes, trials=trials)
    for n, found in zip(sizes, decay.estimates, strict=True):
        sketch = coresets.LewisWeights(1.0, random_state=0, keep_history=True, **settings).add(X[:n])
        weights, total = weights_at_arrival(X[:n]), float(sketch.scores_of_all().sum())
        bound = theory.online_lewis_sensitivity(n, sketch.sketch.constant, total, weights, 0.5)
        yield {
            "rows": f"{n:,}",
            "measured": f"{found.mean:.4f} ({found.low:.4f}-{found.high:.4f}) / {bound:.4f}",
            "slope": f"{decay.slope:.2f} ({decay.low:.2f} to {decay.high:.2f})",
            "weights": f"{weights:.1f}",
        }


def weights_at_arrival(X: np.ndarray) -> float:
    """The sum of the scores that rows have at the end of their block."""
    total = 0.0
    for start in range(0, len(X), BLOCK):
        stop = min(start + BLOCK, len(X))
        every = coresets.LewisWeights(1.0, random_state=0, keep_history=True).add(X[:stop])
        total += float(every.scores_of_all()[start:].sum())
    return total
