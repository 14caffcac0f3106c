"""Real rows against the moments of all rows, solved whenever these have doubled: time, loss and changes.

Both learners get the same chunks of 1,000 in random orders that chose no default. Loss and changes count from row 1,000
on; each chunk is scored under the model before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from batch2online import OnlineLowRank, OnlineRegression, datasets
from batch2online.baselines.peers import PeerSettings, named
from batch2online.datasets.tables import MissingPackageError
from benchmarks.suite.contest import contest, feed
from benchmarks.suite.form import Form
from benchmarks.suite.line import Line

GROUP, CHUNK, K = "doublings", 1_000, 10
ORDERS = range(500, 505)
PEER = named("Gram matrix, solved at doublings")
Learner = Callable[[], Any]


def measure(form: Form) -> Iterator[Line]:
    for name in form.choose(tiny=("diabetes",), quick=("flights", "diamonds"), full=("flights", "diamonds", "cps1988")):
        X, y = datasets.load_regression(name)
        yield from beside(form, name, X, y, lambda: OnlineRegression(random_state=0), "regression", at_most=1.5)
    for name in form.choose(tiny=("digits",), quick=("letter", "china_patches", "mnist"), full=("letter", "mnist")):
        try:
            X = datasets.load_rows(name)
        except MissingPackageError:
            continue
        yield from beside(form, name, X, None, lambda: OnlineLowRank(K, random_state=0), "lowrank", at_most=1.0)


def beside(
    form: Form, name: str, X: np.ndarray, y: np.ndarray | None, ours: Learner, task: str, at_most: float
) -> Iterator[Line]:
    """Time in the first order; loss and changes in all of them, on average."""
    chunk = form.choose(tiny=100, quick=CHUNK, full=CHUNK)
    makers = {"ours": ours, "peer": lambda: PEER.make(task, PeerSettings(K))}
    orders = ORDERS[: form.choose(tiny=1, quick=len(ORDERS), full=len(ORDERS))]
    first = ordered(X, y, orders[0])
    times = contest(
        {
            "ours": (len(X), lambda: feed(makers["ours"](), *first, chunk)),
            "peer": (len(X), lambda: feed(makers["peer"](), *first, chunk)),
        },
        form.repeats,
    )
    found = [[loss_and_changes(make(), *ordered(X, y, seed), chunk) for make in makers.values()] for seed in orders]
    (loss, changes), (peers_loss, peers_changes) = np.mean(found, axis=0)
    title, note = f"{name}, {len(X):,} x {X.shape[1]}", f"orders {orders[0]} to {orders[-1]}"
    yield Line(
        GROUP, f"time / Gram matrix solved at doublings, {title}", times["ours"] / times["peer"], at_most=at_most
    )
    yield Line(GROUP, f"loss / its loss, {title}", loss / peers_loss, at_most=1.001, note=note)
    counts = f"{changes:.1f} and {peers_changes:.1f}, {note}"
    yield Line(GROUP, f"changes after row 1,000, {title}", changes / max(peers_changes, 1e-9), at_most=1, note=counts)


def ordered(X: np.ndarray, y: np.ndarray | None, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    order = np.random.default_rng(seed).permutation(len(X))
    return np.ascontiguousarray(X[order]), None if y is None else y[order]


def loss_and_changes(model: Any, X: np.ndarray, y: np.ndarray | None, chunk: int) -> tuple[float, int]:
    """Squared loss of the chunks after the first, each under the model before it, and how often that changed."""
    loss, changes, last = 0.0, -1, b""
    for start in range(0, len(X), chunk):
        rows, targets = X[start : start + chunk], None if y is None else y[start : start + chunk]
        if start:
            now = parameters(model).tobytes()
            loss, changes, last = loss + squared(model, rows, targets), changes + (now != last), now
        feed(model, rows, targets, chunk)
    return loss, changes


def parameters(model: Any) -> np.ndarray:
    name = next(name for name in ("coef_", "weights_", "components_") if hasattr(model, name))
    return np.asarray(getattr(model, name))


def squared(model: Any, rows: np.ndarray, targets: np.ndarray | None) -> float:
    if targets is not None:
        return float(np.square(targets - model.predict(rows)).sum())
    basis = parameters(model)
    return float(np.square(rows).sum() - np.square(rows @ basis.T).sum())
