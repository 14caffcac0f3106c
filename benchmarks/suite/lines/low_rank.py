"""Low rank: rank 10, chunks of 1,000."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from batch2online import datasets
from batch2online.baselines.peers import PeerSettings, named
from benchmarks.suite import limits
from benchmarks.suite.contest import contest, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line
from benchmarks.suite.problems import low_rank as problem
from benchmarks.suite.problems.low_rank import K, draw, learner
from benchmarks.suite.states import line, states

GROUP, CHUNK = "low rank", 1_000
PCA = named("scikit-learn IncrementalPCA")
TIMES_LIMIT = {100: 2.0, 784: 1.6}
TIMES_PCA = {16: 5.0, 100: 5.0, 784: 2.0}


def measure(form: Form) -> Iterator[Line]:
    sizes = form.choose(
        tiny={16: 3_000},
        quick={16: 500_000, 100: 300_000, 784: 100_000},
        full={16: 1_000_000, 100: 500_000, 784: 200_000},
    )
    for columns, rows in sizes.items():
        yield from chunked(form, rows, columns)
    yield short(form)
    yield state(form)


def chunked(form: Form, rows: int, columns: int) -> Iterator[Line]:
    X, _ = draw(np.random.default_rng(0), rows, columns)
    part = rows // 10  # its cost a row does not depend on how many have come
    times = contest(
        {
            "limit": (rows, lambda: limits.gram(X, CHUNK)),
            "ours": (rows, lambda: feed(learner(), X, None, CHUNK)),
            "coreset": (rows, lambda: feed(learner(solve="coreset"), X, None, CHUNK)),
            "pca": (part, lambda: feed(PCA.make("lowrank", PeerSettings(K)), X[:part], None, min(CHUNK, part))),
        },
        form.choose(tiny=1, quick=2, full=3),
    )
    limit, ours, coreset, pca = (times[name] for name in ("limit", "ours", "coreset", "pca"))
    size, note = f"{rows:,} x {columns}", f'`solve="coreset"`: {coreset / limit:.2f}'
    yield Line(GROUP, f"time / `X.T @ X`, {size}", ours / limit, at_most=TIMES_LIMIT.get(columns), note=note)
    yield Line(GROUP, f"rows/s / `IncrementalPCA`, {size}", pca / ours, at_least=TIMES_PCA[columns])


def short(form: Form) -> Line:
    """A short stream of real rows, where the first refreshes weigh most."""
    X = datasets.load_rows(form.choose(tiny="digits", quick="letter", full="letter"))
    times = contest(
        {
            "ours": (len(X), lambda: feed(learner(), X, None, CHUNK)),
            "pca": (len(X), lambda: feed(PCA.make("lowrank", PeerSettings(K)), X, None, CHUNK)),
        },
        form.repeats,
    )
    text = f"rows/s / `IncrementalPCA`, letter, {len(X):,} x {X.shape[1]}"
    return Line(GROUP, text, times["pca"] / times["ours"], at_least=1.5)


def state(form: Form, columns: int = 100) -> Line:
    last = form.choose(tiny=4_000, quick=1_000_000, full=3_000_000)
    return line(GROUP, states(problem, columns, last, form.choose(tiny=100, quick=CHUNK, full=CHUNK)), at_most=1.1)
