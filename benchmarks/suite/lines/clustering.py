"""Clustering: chunks of 1,000, on drawn rows, flights and MNIST; ours with its prequential loss tracked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import datasets
from batch2online.baselines.peers import PeerSettings, named
from batch2online.evaluate.adapters import fresh
from benchmarks.suite import limits
from benchmarks.suite.contest import Timing, contest, feed, peak_memory
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line
from benchmarks.suite.problems.clustering import draw, learner

GROUP, CHUNK = "clustering", 1_000
MANY_COLUMNS = 100
MINI_BATCH = named("scikit-learn MiniBatchKMeans")


def measure(form: Form) -> Iterator[Line]:
    rows = form.choose(tiny=3_000, quick=3_000_000, full=3_000_000)
    yield from drawn(form, rows)
    for name in form.choose(tiny=("digits",), quick=("flights", "mnist"), full=("flights", "mnist")):
        yield from real(form, name)
    for history in ("coreset", "file"):
        yield memory(form, history)


def drawn(form: Form, rows: int, k: int = 5) -> Iterator[Line]:
    X, _ = draw(np.random.default_rng(0), rows, 8)
    times, size = timed(X, k, form.choose(tiny=1, quick=2, full=3)), f"{rows:,} x 8, k={k}"
    limit, ours, untracked, tracked = (times[name] for name in ("limit", "ours", "mini batch", "tracked"))
    yield Line(GROUP, f"time / distances and argmin, {size}", ours / limit, at_most=4)
    note = f"loss of both tracked: {tracked / ours:.2f}"
    yield Line(GROUP, f"rows/s / `MiniBatchKMeans`, {size}", untracked / ours, at_least=1, note=note)


def real(form: Form, name: str) -> Iterator[Line]:
    """Against a peer that is asked for its loss too: rows a second, and loss, of each of several streams."""
    try:
        X = datasets.load_rows(name)
    except datasets.MissingPackageError as missing:
        print(f"left out: {missing}", flush=True)
        return
    turns = form.choose(tiny=1, quick=5, full=7)
    for k in (5, 10) if X.shape[1] < MANY_COLUMNS else (10,):
        times, losses = turned(X, k, turns)
        size = f"{name}, k={k}"
        yield Line(
            GROUP, f"rows/s / `MiniBatchKMeans`, its loss tracked, {size}", times["peer"] / times["ours"], at_least=1
        )
        yield Line(GROUP, f"loss / `MiniBatchKMeans`, the worst of {turns} streams, {size}", max(losses), at_most=1)
        yield Line(
            GROUP, f'time with `history="coreset"` / with all rows, {size}', times["bounded"] / times["ours"], at_most=1
        )


def turned(X: np.ndarray, k: int, turns: int) -> tuple[dict[str, Timing], list[float]]:
    """Times of all turns, each another order of the rows, and our loss over the peer's, after the first chunk."""
    times = {name: Timing(len(X)) for name in ("ours", "bounded", "peer")}
    orders = (X[np.random.default_rng(seed).permutation(len(X))] for seed in range(turns))
    return times, [turn(times, rows, k, seed) for seed, rows in enumerate(orders)]


def turn(times: dict[str, Timing], X: np.ndarray, k: int, seed: int) -> float:
    ours, bounded = learner(k, seed=seed), learner(k, seed=seed, history="coreset")
    peers: list[float] = []
    runs = {
        "peer": lambda: peers.append(mini_batch(X, k, tracked=True, seed=seed)),
        "ours": lambda: feed(ours, X, None, CHUNK),
        "bounded": lambda: feed(bounded, X, None, CHUNK),
    }
    for name, run in runs.items():
        np.ones_like(X)  # memory that the machine has at hand, for all alike
        times[name].time(run)
    return tracked_loss(learner(k, seed=seed), X) / peers[0]


def timed(X: np.ndarray, k: int, repeats: int) -> dict[str, Timing]:
    rows = len(X)
    return contest(
        {
            "limit": (rows, lambda: limits.distances(X, k, 10 * CHUNK)),
            "ours": (rows, lambda: feed(learner(k), X, None, CHUNK)),
            "mini batch": (rows, lambda: mini_batch(X, k, tracked=False)),
            "tracked": (rows, lambda: mini_batch(X, k, tracked=True)),
        },
        repeats,
    )


def mini_batch(X: np.ndarray, k: int, tracked: bool, seed: int = 0) -> float:
    """Tracked: asked for its distances to each chunk before it learns it."""
    model = fresh(MINI_BATCH.make("clustering", PeerSettings(k)), seed)
    if tracked:
        return tracked_loss(model, X)
    feed(model, X, None, CHUNK)
    return 0.0


def tracked_loss(model: Any, X: np.ndarray) -> float:
    """Squared distances of each chunk after the first to the centers before it."""
    loss = 0.0
    for start in range(0, len(X), CHUNK):
        rows = X[start : start + CHUNK]
        if start:
            loss -= model.score(rows)
        model.partial_fit(rows)
    return loss


def memory(form: Form, history: str) -> Line:
    """Rows are drawn as they are needed, and counted."""
    last = form.choose(tiny=4_000, quick=1_000_000, full=4_000_000)
    peaks = [peak_memory(lambda rows=rows: _learn(history, rows, last // 40)) for rows in (last // 4, last)]
    text = f"peak memory after {last:,} rows / after {last // 4:,}, history in a {history}"
    return Line(GROUP, text, peaks[1] / peaks[0], at_most=1.1, note=f"{peaks[1] / 1e6:.1f} MB")


def _learn(history: str, rows: int, chunk: int) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        model = learner(history=folder if history == "file" else history)
        for _ in range(0, rows, chunk):
            model.partial_fit(draw(rng, chunk, 8)[0])
