"""``half_life="auto"`` beside each of its half-lives, on streams that had no say in its constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.engine.half_lives import HALF_LIVES
from benchmarks.suite.drift_streams import REPORTED
from benchmarks.suite.form import Form
from benchmarks.suite.studies.drifting import logarithmic, squared
from benchmarks.suite.studies.drifting_clusters import nearest
from benchmarks.suite.study import Study

CHUNK = 250
FIRST_SEED = 20

TEXT = (
    f"Each row is predicted before it is learned, chunks of {CHUNK}, the first four not scored, three seeds. By how "
    'much `half_life="auto"` costs more than the best of the half-lives that it chooses from, none included, '
    "which is known in hindsight alone: mean over the seeds and worst of them, below 0 where it costs less; and by how "
    "much more than without half-life. Squared, log and squared distance losses. Neither these streams nor their seeds "
    "had a say in the constants of `auto`, which were chosen on other streams of these kinds."
)


def _lost(model: Any, X: Any) -> Any:
    """Squared distances to the subspace."""
    return np.square(X - model.inverse_transform(model.transform(X))).sum(axis=1)


KINDS: dict[str, tuple[Any, tuple[int, ...], Any]] = {
    "regression": (OnlineRegression, HALF_LIVES["moments"], squared),
    "classes": (OnlineClassifier, HALF_LIVES["low"], logarithmic),
    "clusters": (
        lambda **settings: OnlineClustering(5, history="coreset", **settings),
        HALF_LIVES["low"],
        lambda model, X, _: nearest(X, model.cluster_centers_),
    ),
    "low rank": (
        lambda **settings: OnlineLowRank(2, **settings),
        HALF_LIVES["moments"],
        lambda model, X, _: _lost(model, X),
    ),
}


def measure(form: Form) -> Iterator[Study]:
    names = list(REPORTED)[:: form.choose(tiny=14, quick=4, full=1)]
    seeds = [FIRST_SEED + seed for seed in form.seeds_of(3)]
    records = [of_stream(name, seeds, form.choose(tiny=2_000, quick=20_000, full=10**9)) for name in names]
    columns = ["stream", "loss of", "best half-life", "auto over best, %", "worst seed, %", "auto over none, %"]
    formats = dict.fromkeys(columns[3:], ".2f")
    yield Study("Half-lives chosen as rows come", TEXT, columns, records, formats=formats)


def of_stream(name: str, seeds: list[int], most: int) -> dict[str, Any]:
    kind, make, n = REPORTED[name]
    losses = np.array([of_seed(kind, *make(min(n, most), seed)) for seed in seeds])  # none, half-lives, auto
    fixed, auto = losses[:, :-1], losses[:, -1]
    over_best, over_none = 100 * (auto / fixed.min(axis=1) - 1), 100 * (auto / fixed[:, 0] - 1)
    best = [(None, *KINDS[kind][1])[place] for place in sorted(set(fixed.argmin(axis=1).tolist()))]
    record = {
        "stream": name,
        "loss of": kind,
        "best half-life": ", ".join("none" if each is None else f"{each:,}" for each in best),
        "auto over best, %": float(over_best.mean()),
        "worst seed, %": float(over_best.max()),
        "auto over none, %": float(over_none.mean()),
    }
    print(*record.values(), flush=True)
    return record


def of_seed(kind: str, X: Any, y: Any) -> list[float]:
    """Losses without half-life, with each of them, and with auto."""
    make, half_lives, loss = KINDS[kind]
    return [
        followed(make(half_life=half_life, random_state=0), X, y, loss) for half_life in (None, *half_lives, "auto")
    ]


def followed(model: Any, X: Any, y: Any, loss: Any) -> float:
    total = 0.0
    for start in range(0, len(X), CHUNK):
        part = slice(start, start + CHUNK)
        target = None if y is None else y[part]
        total += float(loss(model, X[part], target).sum()) if start >= 4 * CHUNK else 0.0
        model.partial_fit(X[part], *(() if y is None else (target,)))
    return total
