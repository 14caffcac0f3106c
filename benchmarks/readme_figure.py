"""The picture of README.md, docs/compare.svg: labels, memory and time of k-means on a long stream.

    python benchmarks/readme_figure.py [--rows 5120000] [--seeds 2]

Rows are drawn at random, with repetition, from the flights data set (8 columns). After each power of two of 10,000 rows
each learner labels the same 5,000 rows; a label counts as changed when it differs from the one given before. Rows are
read from one array that all learners share; the memory of a learner is that of the rows it keeps for itself.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

from batch2online import OnlineClustering, datasets
from batch2online.evaluate.metrics import nearest

TARGET = Path(__file__).resolve().parent.parent / "docs" / "compare.svg"
STYLE = {"svg.hashsalt": "batch2online", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
K, CHUNK = 5, 10_000


class Ours:
    name, colour = "batch2online", "#1769aa"

    def __init__(self, seed: int) -> None:
        self.model = OnlineClustering(K, history="coreset", random_state=seed)

    def learn(self, X: Any, start: int) -> None:
        self.model.partial_fit(X[start : start + CHUNK])

    def centers(self) -> Any:
        return self.model.cluster_centers_

    def kept(self, seen: int) -> int:
        return len(self.model.coreset_)


class Doubling:
    name, colour = "KMeans (n_init=10), refit at doublings", "#7a8591"

    def __init__(self, seed: int) -> None:
        self.model, self.next = KMeans(K, n_init=10, random_state=seed), CHUNK

    def learn(self, X: Any, start: int) -> None:
        if start + CHUNK >= self.next:
            self.model.fit(X[: start + CHUNK])
            self.next *= 2

    def centers(self) -> Any:
        return self.model.cluster_centers_

    def kept(self, seen: int) -> int:
        return seen


class MiniBatch:
    name, colour = "MiniBatchKMeans", "#c2571a"

    def __init__(self, seed: int) -> None:
        self.model = MiniBatchKMeans(K, n_init=10, random_state=seed)

    def learn(self, X: Any, start: int) -> None:
        self.model.partial_fit(X[start : start + CHUNK])

    def centers(self) -> Any:
        return self.model.cluster_centers_

    def kept(self, seen: int) -> int:
        return CHUNK


def curve(learner: Any, X: Any, probe: Any) -> Any:
    """Rows seen, labels changed so far (share of the probe, summed), rows kept, seconds, at each doubling."""
    points, seconds, churn, labels, mark = [], 0.0, 0.0, None, CHUNK
    for start in range(0, len(X), CHUNK):
        started = time.perf_counter()
        learner.learn(X, start)
        seconds += time.perf_counter() - started
        seen = start + CHUNK
        if seen >= mark or seen >= len(X):
            new = nearest(learner.centers(), probe)
            churn += 0.0 if labels is None else float((new != labels).mean())
            labels, mark = new, mark * 2
            points.append((seen, churn, learner.kept(seen), seconds))
    return np.array(points).T


def cost(centers: Any, rows: Any) -> float:
    return float(np.square(rows - centers[nearest(centers, rows)]).sum())


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_120_000)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    rows = datasets.load_rows("flights")
    best = cost(KMeans(K, n_init=10, random_state=0).fit(rows).cluster_centers_, rows)
    curves: dict[Any, list[Any]] = {kind: [] for kind in (Ours, Doubling, MiniBatch)}
    for seed in range(arguments.seeds):
        rng = np.random.default_rng(seed)
        X = rows[rng.integers(len(rows), size=arguments.rows)]
        probe = rows[rng.integers(len(rows), size=5_000)]
        for kind, found in curves.items():
            learner = kind(seed)
            found.append(curve(learner, X, probe))
            _seen, churn, kept, seconds = found[-1][:, -1]
            excess = cost(learner.centers(), rows) / best
            told = f"cost {excess:.4f}, {churn:.2f} labels changed a row, {kept:,.0f} rows kept, {seconds:.1f} s"
            print(f"{kind.name}, seed {seed}: {told}", flush=True)
    draw(curves, rows.shape[1] * 8)


def draw(curves: dict[Any, list[Any]], row_bytes: int) -> None:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 2.9), layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(1, 3)
        for kind, found in curves.items():
            for number, (seen, churn, kept, seconds) in enumerate(found):
                label = kind.name if number == 0 else None
                for axes, values in zip(panels, (churn, kept * row_bytes / 1e6, seconds), strict=True):
                    axes.plot(seen, values, color=kind.colour, label=label, linewidth=1.4)
        for axes, title in zip(panels, ("labels changed, per row", "rows kept, MB", "seconds"), strict=True):
            axes.set(xscale="log", xlabel="rows seen", title=title)
            axes.grid(color="#e3e6ea", linewidth=0.6)
        panels[1].set_yscale("log")
        panels[2].set_yscale("log")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
        figure.savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
