"""Loss and labels changed of online clustering beside ``KMeans`` refits: ``python -m benchmarks.labels [--quick]``.

Every learner gets the same rows in random order, at most 60,000, in chunks of 1,000 (a sixteenth of the rows if these
are fewer). From the second chunk on, each chunk is scored under the model before it, and after each change labels of
all rows are compared with those before: *labels changed* is the sum of these shares, so changes a row. Refits are
``KMeans`` on all rows, with the clusters matched or from the centers before, at doublings and at 30 equal nights.
Figures are means over cells (a data set and k) of means over orders; *loss* is over that of the first. ``--json``
stores them with commit and date.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batch2online import OnlineClustering, datasets
from batch2online.baselines import KMeansRefits
from batch2online.numerics.distances import nearest
from benchmarks.suite import stored

SETS = ("diamonds", "flights", "letter", "shuttle", "china_pixels", "digits")
CLUSTERS, ORDERS, FIRST_ORDER = (5, 10, 20), 5, 700
PRICES = (0.0, 0.05, 0.2)
MOST_ROWS, CHUNK, NIGHTS, N_INIT = 60_000, 1_000, 30, 10
MATCHED = "refit, labels matched, at doublings"


class Run(NamedTuple):
    """Loss from the second chunk on, labels changed a row, the largest share at once, changes, processor seconds."""

    loss: float
    churn: float
    most: float
    changes: int
    seconds: float


def learners(k: int, order: int, prices: Iterable[float], nightly: bool) -> dict[str, Callable[[], Any]]:
    refits = {"labels matched": False, "from the centers before": True}
    found: dict[str, Callable[[], Any]] = {
        f"refit, {name}, at doublings": lambda warm=warm: KMeansRefits(k, 2.0, warm, N_INIT, order)
        for name, warm in refits.items()
    }
    for price in prices:
        found[f"batch2online, churn_price={price:g}"] = lambda price=price: OnlineClustering(
            k, churn_price=price, random_state=order
        )
    if nightly:
        found |= {
            f"refit, {name}, nightly": lambda warm=warm: KMeansRefits(k, 1.0, warm, N_INIT, order)
            for name, warm in refits.items()
        }
    return found


def measured(model: Any, X: np.ndarray, chunk: int) -> Run:
    """Stream the rows through a model."""
    loss, shares, seconds, labels, centers = 0.0, [], 0.0, None, None
    for start in range(0, len(X), chunk):
        rows = X[start : start + chunk]
        if centers is not None:
            loss += float(nearest(rows, centers)[1].sum())
        began = time.process_time()
        new = np.array(model.partial_fit(rows).cluster_centers_)
        seconds += time.process_time() - began
        if centers is None or not np.array_equal(centers, new):
            found = nearest(X, new)[0]
            shares += [] if labels is None else [float((found != labels).mean())]
            labels, centers = found, new
    return Run(loss, sum(shares), max(shares, default=0.0), len(shares), seconds)


def rows_of(name: str) -> np.ndarray:
    return datasets.load_classification(name)[0] if name == "shuttle" else datasets.load_rows(name)


def cell(name: str, k: int, orders: Iterable[int], prices: Iterable[float], nightly: bool) -> dict[str, list[Run]]:
    """Return the runs of each learner, one an order."""
    rows, found = rows_of(name), {}
    for order in orders:
        X = rows[np.random.default_rng(order).permutation(len(rows))][:MOST_ROWS]
        chunk = min(CHUNK, len(X) // 16)
        for learner, make in learners(k, order, prices, nightly).items():
            size = -(-len(X) // NIGHTS) if learner.endswith("nightly") else chunk
            found.setdefault(learner, []).append(measured(make(), X, size))
    return found


def record(name: str, k: int, runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    base = np.array(runs[MATCHED])[:, 0]
    lines = []
    for learner, own in runs.items():
        values = np.array(own)
        loss = float((values[:, 0] / base).mean())
        churn, most, changes, seconds = values[:, 1:].mean(axis=0).tolist()
        line = {"data": name, "k": k, "learner": learner, "loss": loss, "labels changed": churn, "most at once": most}
        lines.append(line | {"changes": changes, "seconds": seconds})
    return lines


def summary(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean over cells of each learner."""
    figures, found = ("loss", "labels changed", "most at once", "changes", "seconds"), []
    for learner in dict.fromkeys(line["learner"] for line in lines):
        own = [line for line in lines if line["learner"] == learner]
        found.append({"learner": learner} | {name: float(np.mean([line[name] for line in own])) for name in figures})
    return found


def shown(line: dict[str, Any]) -> str:
    where = f"{line['data']:13} {line['k']:2}  " if "data" in line else ""
    figures = f"{line['loss']:.4f} {line['labels changed']:.3f} {line['most at once']:.3f} {line['changes']:4.1f}"
    return f"{where}{line['learner']:44} {figures} {line['seconds']:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small sets, k = 5, two orders")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--first-order", type=int, default=FIRST_ORDER, help="seed of the first order of rows")
    parser.add_argument("--prices", nargs="+", type=float, default=PRICES)
    parser.add_argument("--nightly", action="store_true", help="refits at 30 equal nights as well")
    parser.add_argument("--json", type=Path, help="write all lines to this file")
    given = parser.parse_args()
    sets, clusters = (("digits", "letter"), (5,)) if given.quick else (given.sets, CLUSTERS)
    orders = range(given.first_order, given.first_order + (2 if given.quick else given.orders))
    warnings.simplefilter("ignore")
    provenance = stored.provenance(f"python -m benchmarks.labels {' '.join(sys.argv[1:])}".strip())
    lines: list[dict[str, Any]] = []
    for name in sets:
        for k in clusters:
            lines += record(name, k, cell(name, k, orders, given.prices, given.nightly))
            print(*map(shown, lines[-len(given.prices) - 2 - 2 * given.nightly :]), sep="\n", flush=True)
    print("\nmeans over cells: loss, labels changed a row, most at once, changes, processor seconds")
    print(*map(shown, summary(lines)), sep="\n")
    if given.json:
        found = provenance | {"means": summary(lines), "cells": lines}
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
