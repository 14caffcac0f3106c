"""The numbers of sentences: a pattern for each phrase, with the numbers that it should have.

In a pattern ``#`` is a number with fixed decimals, ``~`` one of four significant digits.
"""

from __future__ import annotations

import math

import numpy as np

from printed import expected, recompute
from printed.net import ANY, Between, Near


def scaled(value, factor, plus=0.0):
    """Return ``factor * value + plus`` of a number, of bounds or of a number up to an error."""
    if isinstance(value, Between):
        return Between(*sorted((factor * value.low + plus, factor * value.high + plus)))
    if isinstance(value, Near):
        return Near(
            factor * value.value + plus, value.rel * abs(factor * value.value) / abs(factor * value.value + plus)
        )
    return factor * value + plus


def change(found, names):
    """Return the phrases of a change, from the numbers of its event."""
    at, excess, out = found["at"], found["excess"], {}
    out["scheduled refresh at # rows"] = out["under the old model, at # rows"] = [at]
    if "tolerance" in found:
        bound = scaled(found["tolerance"], 100)
        out["the old model costs #% more than the new one, tolerance #%"] = [scaled(excess, 100), bound]
        out["the old model costs # times as much as the new one, tolerance #%"] = [scaled(excess, 1, 1), bound]
    out["predictions moved by ~ (root mean square)"] = [found.get("prediction_change", ANY)]
    out["losses changed by # on average"] = [found["losses changed"]]
    if "angle" in found:
        out["the subspace rotated by # degrees"] = [scaled(found["angle"], 180 / np.pi)]
    if "churn" in found:
        numbers = [scaled(found["churn"], at), scaled(found["churn"], 100)]
        out["about # row (#%) is given another label"] = out["about # rows (#%) are given another label"] = numbers
    if "trial" in found:
        count, before, after = found["trial"]
        lower = 100 * (1 - after / before) if before else ANY
        out["next # rows, seen by neither model, its loss is # % lower"] = [count, lower]
        out["next # rows, seen by neither model, its loss is # % higher"] = [count, scaled(lower, -1)]
        out["seen by neither model, its loss is # % lower"] = [lower]
        out["seen by neither model, its loss is # % higher"] = [scaled(lower, -1)]
    for which, (j, before, after) in enumerate(found.get("coefficients", ())):
        label = found["names"][which] if found.get("names") else ""
        for name in (f"{names[j]}", f"{names[j]} for {label}", f"column {j}", f"column {j} for {label}"):
            phrase = f"{name} from ~ to ~"
            out[phrase] = out[f"coefficients of {label}: {phrase}"] = [before, after]
    for j, before, after in found.get("importances", ()):
        for name in (names[j], f"column {j}"):
            out[f"{name} from #% to #%"] = [100 * before, 100 * after]
    return out


def seeds(replay, answers):
    """Return by which share squared distances are below those to the seeds of k-means++."""
    _, squares = recompute.seeds(replay.X, replay.w, replay.case.k)
    now = np.average(answers[:, 0] ** 2, weights=replay.w)
    return Between(*sorted(100 * (1 - now / each) for each in squares))


def most(replay, rows):
    """Return the share of the loss of so many rows, those of largest loss, and their ids."""
    losses = replay.w * recompute.losses(replay.case.kind, replay.answers, replay.y)
    order = np.argsort(-losses, kind="stable")[:rows]
    return [losses[order].sum() / losses.sum() if losses.sum() else ANY, *order.tolist()]


def dominant(replay):
    """Return the phrase of the few rows that hold more than half of the loss."""
    out = {}
    for rows in range(1, min(11, len(replay.w))):
        share, *ids = most(replay, rows)
        out[f"# of # rows hold # % of the loss (ids {', '.join('#' * rows)})"] = [
            rows,
            len(replay.w),
            scaled(share, 100),
            *ids,
        ]
    return out


def mark(name):
    """Return the pattern of a measure: a share, four decimals or four digits."""
    return "#%" if name.startswith(("accuracy", "recall", "variance")) else "#" if name == "R2" else "~"


def better_than_guessing(replay):
    """Return whether errors are fewer than those of the most frequent class, by two standard errors."""
    if replay.case.kind != "classes":
        return None
    error, guess = 1 - expected.measures(replay)["accuracy"], scaled(expected.baseline(replay)["accuracy"], -1, 1)
    found = [
        error < e - 2 * math.sqrt((error * (1 - error) + e * (1 - e)) / len(replay.w)) for e in (guess.low, guess.high)
    ]
    return found[0] if found[0] == found[1] else None


def headline(replay, regret):
    """Return the phrases of the first lines; ``regret`` has the ratios that are said."""
    kind, n, found, base = replay.case.kind, len(replay.w), expected.measures(replay), expected.baseline(replay)
    changes, last = len(replay.versions) - 1, replay.versions[-1][0] if replay.versions else 0
    ratio, (low, high) = regret["ratio"], regret["ratio_interval"]
    out = {
        "# rows:": [n], "# changes, the last at row #": [changes, last], "# change at row #": [changes, last],
        "# changes": [changes],  "loss # (# to #) times": [ratio, low, high], "loss # (at most #) times": [ratio, high],
        "loss # times": [ratio], "loss of # times": [ratio], "(below #: ": [1],
    } | dominant(replay)  # fmt: skip
    percent = {name: scaled(value, 100) for name, value in found.items()}
    for name, value in found.items():
        label, mark = (name, "#%") if name.startswith(("accuracy", "recall", "variance")) else (name, "~")
        mark = "#" if name == "R2" else mark
        shown = percent[name] if mark == "#%" else value
        beside = {"accuracy": "most frequent class", "log loss": "class shares"}.get(name, "mean so far")
        beside = "k-means++ seeds" if kind == "clusters" else beside
        if "distance" in name:
            out[f"{name} ~ standard deviations"] = [value]
            out[f"{name} ~ standard deviations ({beside}: ~ standard deviations)"] = [value, base.get(name)]
        if name in base:
            out[f"{label} {mark} ({beside}: {mark})"] = [shown, percent_of(base[name]) if mark == "#%" else base[name]]
        out[f"{label} {mark}"] = [shown]
    if kind == "squared":
        out["explains # % of the variance"] = [percent["R2"]]
        for phrase in ("the mean so far", "the mean"):
            out[f"off by ~, where {phrase} is off by ~"] = [found["RMSE"], base["RMSE"]]
    if kind == "subspace":
        out["keeps # % of the variance"] = [percent["variance kept"]]
    if kind == "clusters":
        below = seeds(replay, replay.versions[-1][1])
        out["squared distances # % below those of k-means++ seeds"] = [below]
        out["squared distances # % above those of k-means++ seeds"] = [scaled(below, -1)]
    if kind == "classes":
        wrong, guess = scaled(percent["accuracy"], -1, 100), scaled(percent_of(base["accuracy"]), -1, 100)
        out["wrong on # % of rows"] = [wrong]
        out |= {f"{how} '{name}' (# %)": [guess] for name in np.unique(replay.y) for how in ("always saying",)}
        out |= {f"always saying '{name}' is wrong on # %": [guess] for name in np.unique(replay.y)}
    loss = {"classes": "log loss"}.get(kind, "mean loss")
    if loss in base:
        lower = base[loss]
        lower = Between(*(100 - 100 * found[loss] / each for each in (lower.low, lower.high))) if isinstance(
            lower, Between) else 100 - 100 * found[loss] / lower  # fmt: skip
        out |= {f"{loss} # % lower": [lower], f"{loss} # % higher": [scaled(lower, -1)]}
        out["mean loss ~ against ~"] = [found[loss], base[loss]]
    return out


def percent_of(value):
    return scaled(value, 100)
