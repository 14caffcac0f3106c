"""The picture of README.md, docs/compare.svg: k-means with 5 clusters on every fourth pixel of a photograph.

    python benchmarks/readme_figure.py

It draws curves, not a table, so it is no part of the suite. Refits at every chunk are too slow for its other tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.cluster import KMeans

from batch2online import datasets
from batch2online.baselines import FollowTheLeader
from batch2online.baselines.peers import OURS, Told, named
from batch2online.evaluate import prequential

TARGET = Path(__file__).resolve().parent.parent / "docs" / "compare.svg"
COLOURS = {OURS: "#1769aa", "MiniBatchKMeans": "#c2571a", "KMeans, refitted at every chunk": "#7a8591"}
STYLE = {"svg.hashsalt": "batch2online", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def panel(axes: Any, result: Any, quantity: str, label: str) -> None:
    for model, style in zip(result.models, ("-", "-", "--"), strict=True):
        at, mean, spread = result.curve(model, quantity)
        if quantity == "changes":
            mean = mean - mean[0]
        axes.plot(at, mean, style, color=COLOURS[model], label=model, linewidth=1.8)
        axes.fill_between(at, mean - spread, mean + spread, color=COLOURS[model], alpha=0.15, linewidth=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("rows seen")
    axes.set_ylabel(label)
    axes.grid(color="#e3e6ea", linewidth=0.6)


def main() -> None:
    k, chunk = 5, 1000
    models = {
        OURS: named(OURS).make("clustering", Told(k)),
        "MiniBatchKMeans": named("scikit-learn MiniBatchKMeans").make("clustering", Told(k)),
        "KMeans, refitted at every chunk": FollowTheLeader(KMeans(k, n_init=1), growth=1.0),
    }
    X = datasets.load_rows("china_pixels")[::4]
    result = prequential(models, X, loss="clustering", seeds=3, chunk=chunk, warmup=chunk)
    print(result)
    draw(result)


def draw(result: Any) -> None:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.0), layout="constrained")
        FigureCanvasSVG(figure)
        left, right = figure.subplots(1, 2)
        panel(left, result, "ratio", "loss / hindsight")
        left.set_ylim(0.97, 1.08)
        panel(right, result, "changes", "changes after the first 2,000 rows")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
        figure.savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
