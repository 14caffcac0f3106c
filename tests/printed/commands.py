"""What the command prints about a table, from a replay of the same rows in Python."""

from __future__ import annotations

import importlib.metadata
import math
import re
import sys

import numpy as np
import pandas as pd

from printed import expected, recompute
from printed.net import ANY, Between, Known, Near
from printed.replays import CASES, replay

ECHO = r"(inputs|settings|versions|command|source|rows_checksum|preparation\.(numbers|categories|truncated)|files).*"
TINY = Between(-2e-3, 2e-3)  # of a constant column, which the intercept stands for
CURVE = ("rows", "loss", "optimum", "weight", "half_life", "ratio", "changes")


def run(*words):
    """Run the command in this process; return its exit code."""
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="batch2online")
    before, sys.argv = sys.argv, ["batch2online", *map(str, words)]
    try:
        entry.load()()
    except SystemExit as end:
        return end.code or 0
    finally:
        sys.argv = before
    return 0


class Table:
    """A random table in a file, its replay in Python, and what the command should say of them."""

    def __init__(self, name, seed, folder, standardise=False, **settings):
        self.name, self.case, self.standardise = name, CASES[name], standardise
        self.rows, self.folder = recompute.table(seed), folder
        self.path, self.second = folder / "table.csv", folder / "second.csv"
        self.rows.to_csv(self.path, index=False)
        self.rows[::-1].to_csv(self.second, index=False)
        self.settings = settings
        self.X = self.features(self.rows)
        self.replay = self.replayed(self.rows)
        others = [each for each in (*recompute.TARGETS, "weight") if each != self.case.target]
        self.words = [*self.case.words.split(), "--exclude", ",".join(others), "--missing", "mean"]
        self.words += ["--target", self.case.target] if self.case.target else []
        self.words += ["--standardize"] if standardise else []
        self.words += [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]

    def features(self, rows):
        """Return the features of rows, as they are made of the first ones."""
        return recompute.prepared(rows, self.case.drop_first, standardise=self.standardise)

    def replayed(self, rows):
        """Return what the command should have learned after these rows."""
        y = None if self.case.target is None else rows[self.case.target].to_numpy()
        return replay(self.case, self.features(rows).to_numpy(), y, **self.settings)

    def has_other_features(self, rows):
        """Return whether means are others with these rows: earlier losses are then of other features."""
        own, others = recompute.moments(self.rows), recompute.moments(rows)
        return not all(one.equals(two) for one, two in zip(own, others, strict=True))

    def regret(self, printed):
        """Return loss, optimum and ratio, of the rows so far."""
        return expected.regret(self.replay, printed)

    def curve(self, printed):
        """Return loss and optimum at the rows at which the command noted them."""
        out = []
        for point in printed:
            part = self.replayed(self.rows[: point["rows"]])  # features were those of fewer rows
            found = expected.regret(part, point["optimum"]) | {"half_life": 0, "changes": len(part.versions) - 1}
            out.append({name: found[name] for name in CURVE})
        return out

    def recent(self, printed):
        """Return what ``run --json`` should print with a window or a half-life."""
        found, n, half_life = self.replay, len(self.replay.w), math.isfinite(self.replay.half_life)
        length = int(found.half_life) if half_life else 130
        rows = n if half_life else int(re.search(r"last (\d+) rows", printed["regret_of"])[1])
        w = found.growing / found.growing[-1] * (np.arange(n) >= n - rows)
        loss = (w * recompute.losses(self.case.kind, found.answers, found.y)).sum()
        kept, y = self.X.to_numpy()[n - rows :], None if found.y is None else found.y[n - rows :]
        best = printed["optimum"]
        if self.case.kind in expected.EXACT and not self.case.wraps:
            best = recompute.optimum(self.case.kind, kept, y, w[n - rows :], self.case.k)
        return {
            "rows": n, "loss": loss, "optimum": best, "ratio": loss / best, "regret": loss - best,
            "metrics": expected.measures(found), "recent_metrics_rows": length,
            "recent_metrics": expected.measures(found, slice(n - length, n), whole=False),
            "changes": len(found.versions) - 1, "metrics_rows": n,
        }  # fmt: skip

    def in_units(self):
        """Return coefficients, centers or components by the names of the columns, with scaling undone."""
        last = self.replay.parameters[self.replay.versions[-1][0]]
        names = [*self.X.columns]
        means, scales = self.preparation().values()
        if "cluster_centers_" in last:
            return {
                "centers": [dict(zip(names, row * scales + means, strict=True)) for row in last["cluster_centers_"]]
            }
        if "components_" in last:
            rows = [row * scales for row in last["components_"]]
            return {"components": [dict(zip(names, row / np.linalg.norm(row), strict=True)) for row in rows]}
        if "coef_" not in last:
            return {}
        coefficients, intercept = np.atleast_2d(last["coef_"]) / scales, np.atleast_1d(last["intercept_"])
        intercept = intercept - coefficients @ means
        rows = [dict(zip(names, row, strict=True)) for row in coefficients]
        for row in rows:
            row |= {"constant": TINY} if "constant" in row else {}
        intercept = [Near(at, 1e-5) for at in intercept]
        rows = [{"intercept": at, "coefficients": row} for at, row in zip(intercept, rows, strict=True)]
        return (
            rows[0]
            if last["classes"] is None
            else {"classes": dict(zip(last["classes"][-len(rows) :], rows, strict=True))}
        )

    def document(self, printed):
        """Return what ``run --json`` should print."""
        found, case, n = self.replay, self.case, len(self.replay.w)
        regret, versions = self.regret(printed["optimum"]), found.versions
        cost, last = expected.cost(found, versions[-1][1]), found.parameters[versions[-1][0]]
        measures = expected.measures(found)
        at_least_optimal = (
            Between(0.999, math.inf) if case.wraps else cost / printed["optimum"] if printed["optimum"] else ANY
        )
        names = {"coef_": "coef", "intercept_": "intercept", "cluster_centers_": "cluster_centers"} | (
            {"components_": "components"})  # fmt: skip
        model = {names[name]: value for name, value in last.items() if name in names}
        if "constant" in self.X and "coef" in model:  # any share of the intercept may be its
            j = self.X.columns.get_loc("constant")
            model["coef"] = model["coef"].astype(object)
            model["coef"][..., j] = TINY
        if case.kind == "subspace":
            model["explained_variance_ratio"] = expected.attributes(found)["explained_variance_ratio_"]
        error = {"error": Between(0, 0.2)} if case.kind not in ("clusters", "subspace") and not case.wraps else {}
        out = {
            "rows": n, "rows_dropped": 0, "loss": regret["loss"], "optimum": regret["optimum"],
            "ratio": regret["ratio"], "regret": regret["loss"] - printed["optimum"],
            "optimum_error": 0.0, "optimum_interval": regret["optimum_interval"], "metrics": measures,
            "baseline_metrics": expected.baseline(found), "window_metrics": expected.windows(found), "metrics_rows": n,
            "recent_metrics_rows": 0, "last_model": {"cost": cost, "ratio": at_least_optimal} | error | model,
            "in_units": self.in_units(), "changes": len(versions) - 1,
            "last_change": versions[-1][0] if len(versions) > 1 else math.nan,
            "coreset_size": Between(1, n), "curve": self.curve(printed["curve"]), "preparation": self.preparation(),
        }  # fmt: skip
        out |= {"AUC_error": Between(0, 0.1)} if "AUC" in measures else {}
        if few := printed["rows_with_most_of_the_loss"]:
            share, *ids = expected.most(found, few["rows"])
            out["rows_with_most_of_the_loss"] = {"rows": few["rows"], "share": share, "ids": ids}
        return out | ({"secondary_loss": regret["secondary_loss"]} if "secondary_loss" in regret else {})

    def preparation(self):
        """Return by which means and standard deviations features were scaled."""
        mean, spread = recompute.moments(self.rows) if self.standardise else ({}, {})
        return {
            "means": np.array([mean.get(name, 0.0) for name in self.X.columns]),
            "scales": np.array([spread.get(name, 1.0) for name in self.X.columns]),
        }

    def said(self, *printed):
        """Return the numbers that sentences may show: those of documents, and what follows from them."""
        derived = [number for document in printed for number in expected.derived(document, len(self.rows))]
        seeds = expected.below_seeds(self.replay) if self.case.kind == "clusters" else []
        listed = printed[-1]["changes"]
        beside = expected.changes(self.replay, listed)[1] if isinstance(listed, list) else []
        sizes = [*self.X.shape, self.case.k or 0, 0.8, 2, 64, *range(self.case.k or 0)]
        return Known(*printed, derived, beside, sizes, shares=seeds)

    def changes(self, printed, found=None):
        """Return the numbers of changes."""
        events, _ = expected.changes(found or self.replay, printed)
        return [{key: value for key, value in event.items() if key not in ("seconds", "gain")} for event in events]

    def shown(self, printed, run):
        """Return what ``show --json`` should print: what ``run`` does, and the changes."""
        document = self.document(run)
        names = ("rows", "rows_with_most_of_the_loss", "loss", "optimum", "ratio", "regret", "metrics",
                 "baseline_metrics", "window_metrics", "AUC_error",
                 "metrics_rows", "recent_metrics_rows", "coreset_size", "in_units")  # fmt: skip
        out = {name: document[name] for name in names if name in document}
        last = dict(document["last_model"])
        last["last_model_ratio"], last["cost"] = last.pop("ratio"), None
        return out | last | {"changes": self.changes(printed["changes"])}

    def night(self, shown_changes):
        """Return what ``learn --json`` should print of the same rows once more, backwards; ``show`` printed changes."""
        case, n, both = self.case, len(self.rows), pd.concat([self.rows, self.rows[::-1]], ignore_index=True)
        X, found = self.features(both), self.replayed(both)
        before = self.replay.versions[-1][1]
        before = np.concatenate([before, before[::-1]])
        measured = [
            expected.measures(found, slice(n, 2 * n), case.kind == "squared", of=of) for of in (before, found.answers)
        ]
        if case.kind == "subspace":
            for measure, answers, rows in zip(measured, (before, found.answers), (self.X, X[n:]), strict=True):
                measure["variance kept"] = 1 - answers[n:].sum() / (rows.to_numpy() ** 2).sum()
        return {
            "night": 2, "rows": n, "rows_dropped": 0, "rows_seen": 2 * n, "quality_before": measured[0],
            "quality_learning": {} if self.has_other_features(both) else measured[1],
            "quality_of_earlier_rows": expected.measures(self.replay),
            "order": {"evidence": expected.order(found)["evidence"]}, "seconds": Between(0, 600),
            "changes": [event for event in self.changes(shown_changes, found) if event["at"] > n],
        }  # fmt: skip
