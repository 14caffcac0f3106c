"""A batch algorithm on a coreset against the same algorithm refitted on all rows as often."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from batch2online import BatchToOnline, baselines, coresets, evaluate, refresh
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, loaded

IS_TIMED = True
GROWTH, SIZE, ROWS, FEW = 1.2, 5_000, 300_000, 10_000
CORESETS = {
    "PilotSampling": coresets.PilotSampling,
    "Leverage": partial(coresets.Leverage, intercept=True),
    "Uniform": coresets.Uniform,
}
FORMATS = {"seconds": ".1f", "times faster": ".1f"}
TEXT = (
    f"scikit-learn's `GradientBoostingRegressor` with its defaults on a coreset of {SIZE:,} rows, refreshed by "
    f"`Geometric({GROWTH})`, and with the defaults of `BatchToOnline`, against the same estimator refitted on all rows "
    f"by `Geometric({GROWTH})`. Random order, one seed, chunks of 1,000, squared loss from row 1,000 on, each "
    "chunk under the model before it."
)


def measure(form: Form) -> Iterator[Study]:
    records = []
    for name, (X, y) in loaded(
        form.sets_of("diamonds", *form.choose(tiny=(), quick=(), full=("flights",)), tiny="diabetes"), targets=True
    ):
        rows = np.random.default_rng(0).permutation(len(X))[: form.choose(tiny=ROWS, quick=FEW, full=ROWS)]
        records += [{"data": name, "rows": len(rows), **record} for record in compared(X[rows], y[rows], form)]
    columns = ["data", "rows", "solved on", "/ refit", "seconds", "times faster", "changes"]
    yield Study("", TEXT, columns, records, formats=FORMATS)


def compared(X: np.ndarray, y: np.ndarray, form: Form) -> list[dict]:
    trees = form.choose(tiny=5, quick=100, full=100)
    batch, policy = (
        GradientBoostingRegressor(n_estimators=trees, random_state=0),
        refresh.Geometric(GROWTH, start=form.chunk),
    )
    models = {
        name: BatchToOnline(batch, coreset=coreset, coreset_size=SIZE, refresh=policy, loss="squared")
        for name, coreset in CORESETS.items()
    }
    models["defaults"] = BatchToOnline(batch, loss="squared")
    models["all rows"] = baselines.FollowTheLeader(batch, growth=GROWTH)
    seeds, chunk = form.seeds_of(1)[:1], form.chunk
    result = evaluate.prequential(models, X, y, loss="squared", seeds=seeds, chunk=chunk, warmup=chunk)
    refit = result.rows[-1]
    return [
        {
            "solved on": run.model,
            "/ refit": run.loss / refit.loss,
            "seconds": len(X) / run.rows_per_second,
            "times faster": run.rows_per_second / refit.rows_per_second,
            "changes": run.changes,
        }
        for run in result
    ]
