"""What the attributes of a replayed estimator should be, from its rows and the answers of its models."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from printed import recompute
from printed.net import ANY, Between, Near

EXACT = {"squared", "subspace"}
RECALL = "recall of rarest ("
SECONDS = Between(0, 60)


def measures(replay, part=slice(None), whole=True, of=None):
    """Return the measures of some rows, of the models or of the baseline."""
    answers = replay.answers if of is None else of
    total = (replay.w * (replay.X**2).sum(1)).sum() if whole else None
    first = replay.versions[0][0] if replay.versions else len(replay.w)
    found = recompute.quality(replay.case.kind, answers, replay.y, replay.w, part, whole, total, first)
    return {name: Between(*value) if isinstance(value, tuple) else value for name, value in found.items()}


def baseline(replay, part=slice(None)):
    """Return the measures of the baseline; that of clusters is a random draw, low rank has none."""
    case = replay.case
    if case.kind == "subspace":
        return {}
    if case.kind == "clusters":
        return {"mean distance": Between(*recompute.seeds(replay.X, replay.w, case.k)[0])}
    answers = recompute.baseline(case.kind, replay.versions, replay.X, replay.y, replay.w)
    found = measures(replay, part, whole=False, of=answers)
    if case.kind == "classes":  # any of the classes that are equally frequent may be named
        code = recompute.codes(replay.y)[0]
        most = answers >= answers.max(1, keepdims=True) - 1e-12
        right = most[np.arange(len(code)), code]
        bounds = [np.average(each[part], weights=replay.w[part]) for each in (right & (most.sum(1) == 1), right)]
        found["accuracy"] = Between(*bounds)
        if case.wraps:  # its checks, where shares are taken anew, need not be changes
            found["accuracy"] = Between(bounds[0] - 0.05, bounds[1] + 0.05)
            found["log loss"] = Between(0.85 * found["log loss"], 1.15 * found["log loss"])
    return found


def cost(replay, answers, stop=None):
    """Return what a model costs the first rows."""
    return (replay.w * recompute.losses(replay.case.kind, answers, replay.y))[:stop].sum()


def optimum(replay):
    """Return the smallest loss in hindsight, as exactly as it is known."""
    case = replay.case
    best = recompute.optimum(case.kind, replay.X, replay.y, replay.w, case.k)
    if case.wraps:  # out of sample: each half of the rows under a model of the other half
        return Between(best if case.wraps.__class__.__name__ == "Ridge" else 0, math.inf)
    if case.kind == "clusters":
        return Between(0.995 * best, cost(replay, replay.versions[-1][1]))
    if case.kind == "classes":  # of all fits under the penalty, and the models so far
        best = min(best, *(cost(replay, each) for _, each in replay.versions))
    return best if case.kind in EXACT else Near(best)


def secondary(replay):
    """Return the sum of distances, of absolute residuals or of wrong labels."""
    kind, w = replay.case.kind, replay.w
    if kind == "classes":
        return (w * (replay.answers.argmax(1) != recompute.codes(replay.y)[0])).sum()
    if kind == "subspace":
        return (w * np.sqrt(replay.answers)).sum()
    return (w * (replay.answers[:, 0] if kind == "clusters" else abs(replay.y - replay.answers))).sum()


def regret(replay, printed):
    """Return what ``regret_`` should hold; ratios are those to the optimum that is printed beside."""
    case, loss, best = replay.case, cost(replay, replay.answers), optimum(replay)
    ratio = loss / printed if printed > 1e-12 * loss else math.nan
    out = {
        "loss": loss, "optimum": best, "ratio": ratio, "rows": len(replay.w), "weight": replay.w.sum(), "error": 0.0,
        "shortfall": ANY, "resolution": Between(0, 1e-6 * loss), "total": total(replay),
        "optimum_interval": [best, best], "ratio_interval": [ratio, ratio],
    }  # fmt: skip
    return out | ({"excess": Between(0, 1)} if case.wraps else {"secondary_loss": secondary(replay)})


def total(replay):
    """Return the loss of the simplest model of all rows, where one is known."""
    w, kind = replay.w, replay.case.kind
    if kind == "squared" and not replay.case.wraps:
        return (w * (replay.y - np.average(replay.y, weights=w)) ** 2).sum()
    if kind == "subspace":
        return (w * (replay.X**2).sum(1)).sum()
    if kind == "clusters":
        return (w * ((replay.X - np.average(replay.X, axis=0, weights=w)) ** 2).sum(1)).sum()
    return np.nan


def windows(replay, length=64):
    """Return the measures of consecutive windows of rows."""
    stops = [*range(length, len(replay.w), length), len(replay.w)]
    out = []
    for start, stop in pairwise([0, *stops]):
        part = slice(start, stop)
        beside = {} if replay.case.kind == "clusters" else baseline(replay, part)
        out.append(
            {"stop": stop, "rows": stop - start, "metrics": measures(replay, part, whole=False), "baseline": beside}
        )
    return out


def moved(replay, event, at, was):
    """Return how far parameters moved at a change: the size of a change, and what the printed events list."""
    old, new = replay.parameters[was], replay.parameters[at]
    if replay.case.kind == "clusters":
        moves = np.sqrt(((old["cluster_centers_"] - new["cluster_centers_"]) ** 2).sum(1))
        labels, w = [dict(replay.versions)[row][:at, 1] for row in (was, at)], replay.w[:at]
        kept = [recompute.share(labels[1] == i, labels[0] == i, w) for i in range(replay.case.k)]
        matching = [
            {"id": i, "moved": move, "kept": share} for i, (move, share) in enumerate(zip(moves, kept, strict=True))
        ]
        for printed, each in zip(event["matching"], matching, strict=True):
            other = Between(0, replay.case.k - 1)
            each |= {key: other for key in ("split_from", "merged_into") if printed[key] is not None}
        return {"magnitude": moves.max(), "matching": matching}
    if replay.case.kind == "subspace":
        cosine = np.linalg.svd(old["components_"] @ new["components_"].T, compute_uv=False).min()
        angle = Near(np.arccos(min(cosine, 1.0)), 1e-4)
        return {"magnitude": angle, "angle": angle}
    return {}


def classes_of(replay, event, at):
    """Return the class that each of an event's coefficients is of: that with such a coefficient, of all or of two."""
    new, names = replay.parameters[at], recompute.codes(replay.y)[1]
    of = {name: recompute.log_odds(new["coef_"], list(new["classes"]), name) for name in reversed(names)}
    return [
        next((name for name, row in of.items() if np.isclose(row[j], after, rtol=1e-9, atol=0)), names[0])
        for j, _, after in event["coefficients"]
    ]


def listed(replay, event, at, was):
    """Return the numbers of the columns that an event names: those of both models, for the columns that it chose."""
    old, new = replay.parameters[was], replay.parameters[at]
    if event.get("importances"):
        before, after = (each["feature_importances_"] for each in (old, new))
        return {"importances": [(j, before[j], after[j]) for j, *_ in event["importances"]]}
    if not event.get("coefficients"):
        return {}
    if old["coef_"].ndim == 1:
        found = [(j, old["coef_"][j], new["coef_"][j]) for j, *_ in event["coefficients"]]
    else:
        found = [
            (j, *(recompute.log_odds(each["coef_"], list(each["classes"]), name)[j] for each in (old, new)))
            for (j, *_), name in zip(event["coefficients"], classes_of(replay, event, at), strict=True)
        ]
    return {"coefficients": found}


def tolerance(replay, at, excess):
    """Return the bounds of the tolerance of a check: parameters over rows, times a random factor from 1/2 to 1."""
    case, weight = replay.case, replay.w[:at].sum() ** 2 / (replay.w[:at] ** 2).sum()
    parameters = case.k or replay.X.shape[1] + 1
    factor = replay.X.shape[1] if case.kind == "subspace" else 1  # noise in columns; 1.5: of unequal variance
    return Between(0.45 * parameters / at, min(excess, 1.5 * factor * parameters / weight))


def changes(replay, printed):
    """Return what ``changes_`` should hold, one dictionary for each, and what its sentences say beyond that."""
    case, out, beside = replay.case, [], []
    ends = [*(at for at, _ in replay.versions[2:]), len(replay.w)]
    for ((was, old), (at, new)), end, event in zip(pairwise(replay.versions), ends, printed, strict=False):
        found = recompute.change(case.kind, old, new, at, replay.y, replay.w, min(end, at + 2000))
        by = found.pop("losses moved by")
        beside.append({"losses changed": by})
        sampled = case.wraps or case.kind in ("classes", "poisson", "quantile")
        found["magnitude"] = by if sampled else found.get("prediction_change")
        found |= moved(replay, event, at, was) | {
            "n_fit_rows": at,
            "gain": 1 - found["cost_after"] / found["cost_before"],
        }
        found |= listed(replay, event, at, was) | {"seconds": SECONDS}
        if case.kind == "classes" and event.get("coefficients"):
            beside[-1]["names"] = classes_of(replay, event, at)
        if "trial" in found:
            found["trial"] = [end - at, *found["trial"]]
        if not sampled:
            found.pop("trial", None)
        if event.get("tolerance") is not None:
            found["tolerance"] = tolerance(replay, at, found["excess"])
        if case.wraps and at > 500:  # measured on a sample of the rows
            found |= {
                name: Between(0.7 * found[name], 1.4 * found[name])
                for name in ("prediction_change", "churn") if found.get(name) is not None
            }  # fmt: skip
        if case.kind == "clusters":  # the search ends at a tolerance
            found |= {name: Near(found[name], 1e-4) for name in ("cost_before", "cost_after")}
            found |= {name: Between(found[name] - 1e-4, found[name] + 1e-4) for name in ("excess", "gain")}
        out.append(found)
    return out, beside


def timings(replay, printed):
    """Return the fits: one for each model at least, all of the rows so far, and their sums."""
    ats = sorted({at for at, _ in replay.versions} | {at for at, _, _ in printed["models"] if at <= len(replay.w)})
    seconds = sum(seconds for _, _, seconds in printed["models"])
    return {
        "models": [(at, at, SECONDS) for at in ats], "last": (Between(ats[-1], len(replay.w)), SECONDS),
        "solves": Between(len(ats), 4 * len(ats) + 20), "rows": Between(sum(ats), sum(ats) + 20 * len(replay.w)),
        "seconds": Between(seconds, 60),
    }  # fmt: skip


def order(replay):
    """Return the evidence against random order: the e-value 1 shared by all scores where no row was ranked yet."""
    of_columns = ["distance", "first coordinate", "second coordinate", "third coordinate"]
    names = ["loss", "residual", "prediction", "target"] if replay.case.target else of_columns[: replay.X.shape[1] + 1]
    n, start = len(replay.w), -math.log10(len(names))
    ranked, curve = Between(0, max(0, n - 600)), list(range(664, n + 1, 64))
    evidence = start if n < 600 else Between(start - 1, 3)
    return {
        "rows": n, "ranked": ranked, "evidence": evidence, "scores": dict.fromkeys(names, evidence),
        "curve_rows": curve, "curve": [evidence] * len(curve),
    }  # fmt: skip


def coreset(replay, printed):
    """Return the rows of a coreset by their ids, and bounds of their weights; all rows where all are kept."""
    ids, n = np.asarray(printed.ids), len(replay.w)
    total = replay.w.sum()
    return {
        "points": replay.X[ids], "ids": [Between(0, n - 1)] * len(ids), "distinct ids": len(ids),
        "weights": [Between(each, total) for each in replay.w[ids]],
        "total weight": Between(0.5 * total, 2 * total) if replay.case.kind in EXACT else total,
    }  # fmt: skip


def attributes(replay):
    """Return what attributes of fitted models should be: those of the parameters of the last model, and its cost."""
    kind, (at, answers) = replay.case.kind, replay.versions[-1]
    out = {name: value for name, value in replay.parameters[at].items() if not (replay.case.wraps or name == "classes")}
    if not replay.case.wraps and kind != "clusters":
        out |= {"error_": Between(0, 0.2)} if kind != "subspace" else {}
    if kind == "clusters":
        out["inertia_"] = cost(replay, answers)
    if not replay.case.wraps and kind != "classes":
        out["epsilon_"] = Between(1e-3, 0.2)
    if kind == "subspace":
        squares = (replay.w[:, None] * (replay.X @ out["components_"].T) ** 2).sum(0)
        out |= {
            "n_components_": replay.case.k,
            "mean_": np.zeros(replay.X.shape[1]),
            "singular_values_": np.sqrt(squares),
        }
        out["explained_variance_"] = squares / replay.w.sum()
        out["explained_variance_ratio_"] = squares / total(replay)
    return out


def derived(printed, n):
    """Return the numbers of sentences that follow from those of a document: shares, ratios and numbers of rows."""
    out, changes, metrics = [], printed.get("changes"), printed.get("metrics", {})
    for event in changes if isinstance(changes, list) else ():
        out += [event["at"] * event["churn"]] if event.get("churn") is not None else []
        out += [1 - event["trial"][2] / event["trial"][1]] if event.get("trial") else []
    out += [printed["coreset_size"] / n] if "coreset_size" in printed else []
    out += [printed["loss"] / each for each in printed.get("optimum_interval", ()) if each]
    return out + [1 - metrics[name] / each for name, each in printed.get("baseline_metrics", {}).items() if each]


def below_seeds(replay):
    """Return by which share squared distances are below those to the seeds of k-means++."""
    _, squares = recompute.seeds(replay.X, replay.w, replay.case.k)
    now = np.average(replay.versions[-1][1][:, 0] ** 2, weights=replay.w)
    return [Between(*sorted(1 - now / each for each in squares))]


def most(replay, rows):
    """Return the share of the loss of so many rows, those of largest loss, and their ids."""
    losses = replay.w * recompute.losses(replay.case.kind, replay.answers, replay.y)
    order = np.argsort(-losses, kind="stable")[:rows]
    return [losses[order].sum() / losses.sum() if losses.sum() else ANY, *order.tolist()]


def better_than_guessing(replay):
    """Return whether errors are fewer than those of the most frequent class, by two standard errors."""
    if replay.case.kind != "classes":
        return None
    error, right = 1 - measures(replay)["accuracy"], baseline(replay)["accuracy"]
    found = [
        error < e - 2 * math.sqrt((error * (1 - error) + e * (1 - e)) / len(replay.w))
        for e in (1 - right.high, 1 - right.low)
    ]
    return found[0] if found[0] == found[1] else None
