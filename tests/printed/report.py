"""What the report page of a table should say: sentences, cells and points of charts."""

from __future__ import annotations

import re
from itertools import zip_longest

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, roc_curve

from printed import expected, net, recompute, sentences
from printed.net import ANY, Between
from printed.replays import answers_of

CURVES = {"mean loss per row", "loss / optimum", "regret"}
IGNORED = ("Reproduce this run", "Settings")
NAMES = {"source", "missing values", "string columns", "standardized", "date", "duration", "note"}


class Report:
    """The numbers of a page, from a table and the rows and weights of its coreset."""

    def __init__(self, table, folder, result, printed_changes):
        self.table, self.found, self.case, self.result = table, table.replay, table.case, result
        kept = pd.read_csv(folder / "coreset.csv")
        self.ids, self.w = kept["id"].to_numpy(), kept["weight"].to_numpy()
        self.names, self.X = list(table.X.columns), table.X.to_numpy()[self.ids]
        raw = recompute.prepared(table.rows, self.case.drop_first).to_numpy()[self.ids]
        self.raw_mean, self.raw_spread = self.moments(raw)
        self.mean, self.spread = self.moments(self.X)
        self.scales = np.where(self.spread > 0, self.raw_spread / np.where(self.spread > 0, self.spread, 1), 1)
        self.at, self.last = self.found.versions[-1][0], self.found.versions[-1][1]
        self.events, beside = expected.changes(self.found, printed_changes)
        for event, more in zip(self.events, beside, strict=True):
            event |= more
            if "coefficients" in event:
                event["coefficients"] = [
                    (j, a / self.scales[j], b / self.scales[j]) for j, a, b in event["coefficients"]
                ]
        self.printed_changes = printed_changes

    def moments(self, points):
        """Return means and standard deviations of columns, by the weights of the coreset."""
        mean = np.average(points, axis=0, weights=self.w)
        return mean, np.sqrt(np.average((points - mean) ** 2, axis=0, weights=self.w))

    def quality(self, measures, base):
        """Return the phrases of measures, before or after their names."""
        out = {}
        for name, value in measures.items():
            of = f" of {self.case.target}" if self.case.target else ""
            share = name.startswith(("accuracy", "recall", "variance"))
            mark = "#%" if share else "#" if name == "R2" else "~"
            beside = {"accuracy": "most frequent class", "log loss": "class shares"}.get(name, "mean so far")
            beside = "k-means++ seeds" if self.case.kind == "clusters" else beside
            unit = " standard deviations" if "distance" in name and self.table.standardise else ""
            numbers = [sentences.scaled(each, 100 if share else 1) for each in (value, base.get(name, ANY))]
            for first in (f"{mark}{unit} {name}{of}", f"{name} {mark}{unit}"):
                out |= {first: numbers[:1], f"{first} ({beside}: {mark}{unit})": numbers}
        return out

    def windows(self):
        """Return the windows that are shown: without a last one of few rows."""
        found = expected.windows(self.found)
        return found[:-1] if len(found) > 2 and 2 * found[-1]["rows"] < found[0]["rows"] else found

    def reasons(self):
        """Return the phrases of each change, the last one first."""
        out = []
        for event, printed in zip(self.events, self.printed_changes, strict=True):
            facts = sentences.change(event, self.names) | {"row #:": [event["at"]]}
            for each in event.get("matching", ()):
                for what in ("cluster # moved by ~ standard deviations", "cluster # moved by ~"):
                    facts[what.replace("#", str(each["id"]))] = [each["moved"]]
                facts |= {
                    f"cluster {each['id']} was {how} cluster #": [Between(0, self.case.k - 1)]
                    for how in ("split from", "mostly merged into")
                }
            if self.case.kind == "clusters":
                churn = [sentences.scaled(event["churn"], event["at"]), sentences.scaled(event["churn"], 100)]
                facts |= {f"about # {rows} (#%) changed their label": churn for rows in ("row", "rows")}
                facts["gain #% of the loss"] = [sentences.scaled(event["gain"], 100)]
            out.append((printed["at"], facts))
        return out[::-1]

    def phrases(self):
        """Return the phrases of each section."""
        table, found, n = self.table, self.found, len(self.found.w)
        regret = table.regret(self.result["optimum"])
        windows, changes = self.windows(), len(found.versions) - 1
        loss, best = regret["loss"], self.result["optimum"]
        share = share_of_two(self.X, self.w)
        facts = {
            "": table.phrases(regret)
            | self.quality(expected.measures(found), expected.baseline(found))
            | {
                "# \N{MULTIPLICATION SIGN} the loss": [regret["ratio"]],
                "rank-# approximation": [self.case.k],
                "# model changes in # rows": [changes, n],
                "# model change in # rows": [changes, n],
            },
            "Quality over time": {"Windows of # rows": [windows[0]["rows"]]}
            | self.quality(windows[-1]["metrics"], windows[-1]["baseline"]),
            "Model changes": {
                "# changes, the last at row #": [changes, self.at],
                "# change at row #": [changes, self.at],
                "Earlier changes: #": [changes - 5],
            },
            "Fit times": self.fits(),
            "Data": {"# rows of # features": [n, len(self.names)]},
            "Order of the rows": table.phrases(regret)
            | {"ever reaches # with probability at most #": [3, 0.001], "The 1e#": [-1]},
            "Online loss and hindsight": {
                "In total ~ online, ~ in hindsight": [loss, best],
                "~ in total": [loss - best],
            },
            "Coreset": {
                "# rows with a total weight of ~ represent all rows: half of them stand for at most ~ rows each, "
                "the heaviest for ~": [len(self.w), self.w.sum(), np.median(self.w), self.w.max()],
                "All # rows are kept": [len(self.w)],
                "explain #% of the variance": [100 * share],
                "# of the rows are drawn": [400],
            },
            "Coefficients": {"the # % interval": [95], "estimated loss is # % above": [Between(0, 20)]},
        }
        return facts | self.of_model()

    def fits(self):
        """Return the phrases of fit times."""
        times = expected.timings(self.found, {"models": []})
        return {
            "Fitted # times, on # rows in total, in # s": [times["solves"], times["rows"], Between(0, 60)],
            "# refits on all": [30],
            "taken about # s": [Between(0, 600)],
        }

    def of_model(self):
        """Return the phrases of the section of the model."""
        if self.case.kind == "subspace":
            ratios = expected.attributes(self.found)["explained_variance_ratio_"]
            size = np.average(self.X**2, axis=0, weights=self.w)
            return {
                "Components": self.dominance(size)
                | {"# components explain #% of the sum of squares": [self.case.k, 100 * ratios.sum()]}
            }
        if self.case.kind == "clusters":
            out = {
                "Clusters": {"# clusters": [self.case.k]}
                | {f"Cluster {j}": [] for j in range(self.case.k)}
                | self.dominance(self.spread**2)
            }
            for j, center in enumerate(self.table.in_units()["centers"]):
                facts = {f"Cluster {i}": [] for i in range(self.case.k)}
                share = self.share_of(j)
                facts["about # rows, #%"] = [share * len(self.found.w), 100 * share]
                for i, (name, value) in enumerate(center.items()):
                    facts |= {f"{name} {side}: ~ (all rows: ~)": [value, self.raw_mean[i]] for side in ("high", "low")}
                out[f"Clusters/Cluster {j}"] = facts | self.fate(j)
            return out
        if self.case.kind == "classes" and not self.case.wraps:
            area = ANY
            if len(np.unique(self.found.y)) == 2:
                area = roc_auc_score(*self.positives()[::-1], sample_weight=self.w)
            return {
                "Classification": {
                    "weights, # in total": [self.w.sum()],
                    "the area under the curve is #": [area],
                    "estimated loss of the model is # % above": [Between(0, 20)],
                }
            }
        if self.case.kind in ("poisson", "quantile"):
            below = 100 * np.average(self.found.y[self.ids] <= self.last[self.ids], weights=self.w)
            return {
                "Residuals": {"central # %": [80], "bins: # % in total; the quantile is # %": [below, 80]},
                "Coefficients": {
                    "# % of the targets are below it": [below],
                    "estimated loss is # % above": [Between(0, 20)],
                },
            }
        return {}

    def dominance(self, squares):
        """Return the phrases of the warning of columns that have most of the variance."""
        held, out = np.sort(squares)[::-1].cumsum() / squares.sum(), {}
        for count in range(1, len(squares) // 4 + 2):
            numbers = [100 * held[count - 1], len(squares) - count]
            out[f"{'has' if count == 1 else 'have'} # % of the variance: the # other"] = numbers
        return out

    def fate(self, j):
        """Return the phrases of the moves of a cluster."""
        moves = [(event["at"], event["matching"][j]["moved"]) for event in self.events if event["matching"][j]["moved"]]
        if not moves:
            return {}
        at, by = moves[-1]
        other = Between(0, self.case.k - 1)
        splits = {f"split from cluster # at row {event['at']}": [other] for event in self.events}
        return {
            "moved # times, last at row # by ~": [len(moves), at, by],
            "moved once, at row # by ~": [at, by],
        } | splits

    def share_of(self, j):
        """Return the share of a cluster by the weights of the coreset."""
        return self.w[self.last[self.ids, 1] == j].sum() / self.w.sum()

    def positives(self):
        """Return the probability of the second of two classes, or of the predicted one, and whether it is true."""
        answers, code = self.last[self.ids], recompute.codes(self.found.y)[0][self.ids]
        if answers.shape[1] == 2:
            return answers[:, 1], code == 1
        return answers.max(1), answers.argmax(1) == code

    def cells(self):
        """Return the rows of numbers of tables by the heads that they begin with: None is no number."""
        table, found = self.table, self.found
        out = {
            ("at row", "reason"): [[at, facts] for at, facts in self.reasons()],
            ("feature", "mean"): {
                name: numbers for name, *numbers in zip(self.names, self.raw_mean, self.raw_spread, strict=True)
            },
            ("source",): {"rows learned": [len(found.w)], "rows dropped": [0]},
        }
        units = {} if self.case.wraps else table.in_units()
        if "coefficients" in units or (len(units.get("classes", {})) == 1):
            one = units if "coefficients" in units else next(iter(units["classes"].values()))
            coef = np.atleast_2d(found.parameters[self.at]["coef_"])[0] * self.spread
            out["feature", "effect"] = {"intercept": [None, one["intercept"]]} | {
                name: [effect, one["coefficients"][name], ANY] for name, effect in zip(self.names, coef, strict=True)
            }
        elif "classes" in units:
            coef = found.parameters[self.at]["coef_"] * self.spread
            out["feature", ""] = dict(zip(self.names, coef.T, strict=True))
        if self.case.kind == "classes" and not self.case.wraps:
            code, classes = recompute.codes(found.y)
            hot, said = np.eye(len(classes))[code[self.ids]], np.eye(len(classes))[self.last[self.ids].argmax(1)]
            counts = (hot * self.w[:, None]).T @ said
            recall = 100 * np.diag(counts) / counts.sum(1)
            out[f"true {self.case.target}",] = {
                name: [*row, r] for name, row, r in zip(classes, counts, recall, strict=True)
            }
        if self.case.kind == "clusters":
            last = found.parameters[self.at]["cluster_centers_"]
            scaled = (last - self.mean) / np.where(self.spread > 0, self.spread, 1)
            out["feature", ""] = dict(zip(self.names, scaled.T, strict=True))
            out["heads"] = [[j, 100 * self.share_of(j)] for j in range(self.case.k)]
            out["nearest rows",] = "rows"
            for center in units["centers"]:
                out.setdefault("centers", []).append({name: [value] for name, value in center.items()})
        if self.case.kind == "subspace":
            ratios = expected.attributes(found)["explained_variance_ratio_"]
            order = np.argsort(-ratios, kind="stable")
            out["feature", ""] = dict(zip(self.names, found.parameters[self.at]["components_"][order].T, strict=True))
            out["heads"] = [[j + 1, 100 * ratios[i]] for j, i in enumerate(order)]
        if self.case.wraps:
            seconds = Between(0, 60)
            out["at row", "rows fitted"] = [[at, at, seconds] for at, _ in found.versions[::-1]]
            out["feature", "importance"] = {name: [bounds, bounds] for name, bounds in self.importance().items()}
        return out

    def importance(self):
        """Return bounds of the increase of the mean loss where values of a feature are shuffled."""
        rng, out = np.random.default_rng(1), {}
        y = None if self.found.y is None else self.found.y[self.ids]
        classes = recompute.codes(self.found.y)[1] if self.case.kind == "classes" else None
        loss = lambda X: np.average(  # noqa: E731
            recompute.losses(self.case.kind, answers_of(self.found.model, self.case, X, classes), y), weights=self.w
        )
        for feature in dict.fromkeys(name.partition("=")[0] for name in self.names):
            columns = [j for j, name in enumerate(self.names) if name.partition("=")[0] == feature]
            drawn = []
            for _ in range(20):
                X = self.X.copy()
                X[:, columns] = X[rng.permutation(len(X))][:, columns]
                drawn.append(loss(X) - loss(self.X))
            middle, room = np.mean(drawn), 8 * np.std(drawn) + 1e-9
            out[feature] = Between(middle - room, middle + room)
        return out

    def charts(self):
        """Return the points of series by the label of their vertical axis and their own: a function or numbers."""
        windows, out = self.windows(), {}
        windows = windows if len(windows) > 1 else [{"metrics": {}}]
        names = [name for name in windows[0]["metrics"] if name in windows[-1]["metrics"]][:2]
        for name in names:
            share = name in ("accuracy", "error rate")
            for label, which in (("model", "metrics"), ("baseline", "baseline")):
                if name in windows[0][which]:
                    points = [(w["stop"], sentences.scaled(w[which][name], 100 if share else 1)) for w in windows]
                    out[name, label] = points, "rows seen", "%" if share else ""
        curve = [
            (p["rows"], p["loss"], q["optimum"], p["weight"])
            for p, q in zip(self.table.curve(self.result["curve"]), self.result["curve"], strict=True)
        ]
        out["mean loss per row", "online"] = [(n, loss / w) for n, loss, _, w in curve], "rows seen", ""
        out["mean loss per row", "best in hindsight"] = [(n, best / w) for n, _, best, w in curve], "rows seen", ""
        out["loss / optimum", "ratio"] = (
            [(n, loss / best if best > 1e-12 * loss else ANY) for n, loss, best, _ in curve],
            "rows seen",
            "",
        )
        out["regret", "regret"] = [(n, loss - best) for n, loss, best, _ in curve], "rows seen", ""
        if self.events:
            excess = [(event["at"], sentences.scaled(event["excess"], 100)) for event in self.events]
            excess = [
                (
                    at,
                    Between(max(0.0, v.low), max(0.0, v.high))
                    if isinstance(v, Between)
                    else max(0.0, v)
                    if np.isfinite(v)
                    else 100,
                )
                for at, v in excess
            ]
            out["excess cost", "excess cost"] = excess, "rows seen", "%"
        if self.case.kind == "subspace":
            ratios = 100 * np.sort(expected.attributes(self.found)["explained_variance_ratio_"])[::-1]
            for label, values in (("each component", ratios), ("all up to it", ratios.cumsum())):
                out["explained", label] = [*enumerate(values, 1)], "component", "%"
        if self.case.kind in ("poisson", "quantile"):
            out |= self.residuals()
        if self.case.kind == "classes" and not self.case.wraps:
            share, right = self.positives()
            bins = in_bins(share, self.w)
            out["fraction of positives", "fraction of positives"] = (
                [tuple(np.average(each[rows], weights=self.w[rows]) for each in (share, right)) for rows in bins],
                "mean predicted probability",
                "",
            )
        return out

    def residuals(self):
        """Return the charts of residuals in ten bins of equal weight, by increasing prediction."""
        mean, y = self.last[self.ids], self.found.y[self.ids]
        bins, out = in_bins(mean, self.w), {}
        at = [np.average(mean[rows], weights=self.w[rows]) for rows in bins]
        for level, label in ((0.1, "10% quantile"), (0.5, "median"), (0.9, "90% quantile")):
            values = [quantile((y - mean)[rows], self.w[rows], level) for rows in bins]
            out["residual", label] = [*zip(at, values, strict=True)], "prediction", ""
        if self.case.kind == "poisson":
            targets = [np.average(y[rows], weights=self.w[rows]) for rows in bins]
            return out | {("mean target", "mean target"): ([*zip(at, targets, strict=True)], "mean prediction", "")}
        below = [np.average((y <= mean)[rows], weights=self.w[rows]) for rows in bins]
        label = "fraction of targets below"
        return out | {(label, "fraction below"): ([*enumerate(below, 1)], "bin, by increasing prediction", "")}

    def lie_on(self, y, series):
        """Return the complaints about points that are some of many: residuals of rows, and rates of thresholds."""
        if y == "residual":
            mean = self.last[self.ids]
            known = np.c_[mean, self.found.y[self.ids] - mean]
        else:
            share, right = self.positives()
            known = np.c_[roc_curve(right, share, sample_weight=self.w, drop_intermediate=False)[:2]]
        room = [0.006 * abs(np.array(each)) + 1e-6 for each in series["points"]]
        lost = [each for each, near in zip(series["points"], room, strict=True)
                if not (abs(known - each) <= near).all(axis=1).any()]  # fmt: skip
        return [f"chart {y}: no row or threshold is at {each}" for each in lost]

    def scattered(self, series):
        """Return the complaints about rows on principal components, up to signs, or about their ids and weights."""
        label, points = series["label"], np.array(series["points"], dtype=float)
        if label == "row":  # tips of rows: the id and the weight
            weights = dict(zip(self.ids, self.w, strict=True))
            return _points("weights", [(w, weights.get(row, np.nan)) for w, row in points], 6e-4)
        if not re.fullmatch(r"rows|cluster \d+", label) or len(self.ids) > 400:
            return []
        own = self.last[self.ids, 1] == int(label.split()[1]) if label != "rows" else np.full(len(self.ids), True)
        axes = np.linalg.svd((self.X - self.mean) * np.sqrt(self.w)[:, None], full_matrices=False)[2][:2]
        known = (self.X - self.mean)[own] @ axes.T
        if points.shape != known.shape:
            return [f"{len(points)} rows of {label} are drawn, recomputed {own.sum()}"]
        room = 0.006 * abs(points) + 1e-6
        near = [(abs(points - known * sign) <= room).all(axis=0) for sign in (1, -1)]
        return [] if (near[0] | near[1]).all() else [f"rows of {label} are not on their principal components"]

    def response(self, name, x):
        """Return the mean prediction where a column has the value of some row that is nearest to x."""
        j, X = self.names.index(name), self.X.copy()
        raw = recompute.prepared(self.table.rows, False).to_numpy()[:, self.names.index(name)]
        X[:, j] = self.table.X.to_numpy()[abs(raw - x).argmin(), j]
        classes = recompute.codes(self.found.y)[1] if self.case.kind == "classes" else None
        answers = answers_of(self.found.model, self.case, X, classes)
        return np.average(answers[:, -1] if answers.ndim == 2 else answers, weights=self.w)


def in_bins(values, weights, bins=10):
    """Return the rows of bins of equal weight, by increasing values."""
    order = np.argsort(values, kind="stable")
    middle = (weights[order].cumsum() - weights[order] / 2) / weights.sum()
    places = np.minimum(bins * middle, bins - 1).astype(int)
    return [order[places == each] for each in range(bins) if (places == each).any()]


def quantile(values, weights, level):
    """Return the bounds of a weighted quantile: the values beside it, where rounding decides."""
    order = np.argsort(values, kind="stable")
    sums = weights[order].cumsum()
    places = [min(np.searchsorted(sums, level * sums[-1] + room), len(values) - 1) for room in (-1e-9, 1e-9)]
    return Between(*values[order][places])


def share_of_two(points, w):
    """Return the share of the variance that the first two principal components explain."""
    centred = (points - np.average(points, axis=0, weights=w)) * np.sqrt(w)[:, None]
    values = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    return values[:2].sum() / values.sum()


def complaints(page, report, of_run=True):
    """Return what is wrong on the page of a run, or of a model, which has no curve and no rows that were dropped."""
    tables, charts = report.cells(), report.charts()
    if not of_run:
        del tables["source",]["rows dropped"]
        charts = {key: rule for key, rule in charts.items() if key[0] not in CURVES}
    return _sentences(page, report, of_run) + _tables(page, report, tables) + _charts(page, report, charts)


def _sentences(page, report, of_run):
    out, phrases = [], report.phrases()
    for section, text in page.blocks:
        if section in IGNORED or re.match(r"batch2online [\d.]+\. Computed", text):
            continue
        facts = phrases.get(section, {})
        facts |= {each[:1].upper() + each[1:]: numbers for each, numbers in facts.items()}
        text = text.replace(report.table.path.name, "").replace("batch2online", "")
        out += [f"{section or 'head'}: {text[:60]}: {each}" for each in net.words(text, facts)]
    absent = {"Data", *(["Online loss and hindsight"] if of_run else [])} - {section for section, _ in page.blocks}
    return out + [f"no section {each}" for each in absent]


def _tables(page, report, rules):
    out, changes, seen = [], iter(rules["at row", "reason"]), {"heads", "centers"}
    for section, tables in page.tables.items():
        for rows in tables if section not in IGNORED else ():
            heads, place = rows[0], f"table {section}"
            keys = (tuple(heads[:2]), tuple(heads[:1]), ("feature", "") if heads[0] == "feature" else None)
            known = next((key for key in keys if key in rules), None)
            seen.add(known)
            if known == ("at row", "reason"):
                for at, reason in rows[1:]:
                    number, facts = next(changes)
                    out += _cell(place, at, number) + [f"{place}: {each}" for each in net.words(reason, facts)]
            elif known == ("at row", "rows fitted"):
                for cells, numbers in zip(rows[1:], rules[known], strict=False):
                    out += _cells(place, cells, numbers)
            elif known == ("nearest rows",):
                out += _nearest(place, rows, section, report)
            else:
                if known == ("feature", ""):
                    for head, numbers in zip(heads[1:], rules.get("heads", ()), strict=False):
                        out += [f"{place}: {each}" for each in net.words(head, {"#: #%": numbers})]
                center = known is None and "/Cluster " in section
                rule = rules["centers"][int(section.rpartition(" ")[2])] if center else rules.get(known, {})
                for name, *cells in rows if center or known == ("source",) else rows[1:]:
                    if name not in NAMES:
                        out += _cells(f"{place} {name}", cells, rule.get(name, ()))
                out += [f"{place}: no row {name}" for name in rule.keys() - {row[0] for row in rows}]
    out += [f"no table {key}" for key, rule in rules.items() if key not in seen and rule]
    return out + [f"a change at row {at} is not listed" for at, _ in changes]


def _nearest(place, rows, section, report):
    """Return the complaints about the rows nearest to a center: their values by their ids, and that none is nearer."""
    out, j = [], int(section.rpartition(" ")[2])
    raw = recompute.prepared(report.table.rows, False)
    own = report.ids[report.last[report.ids, 1] == j]
    nearest = np.sort(report.last[own, 0])[: len(rows) - 1]
    for (row, *cells), distance in zip(rows[1:], nearest, strict=True):
        values = raw.iloc[int(row.replace(",", ""))]
        out += [
            each for name, cell in zip(rows[0][1:], cells, strict=True) for each in _cell(place, cell, values[name])
        ]
        found = report.last[int(row.replace(",", "")), 0]
        out += [] if net.agrees(found, distance, 1e-9) else [f"{place}: row {row} is not one of the nearest"]
    return out


def _cells(place, cells, numbers):
    """Return the complaints about a row of cells; those without a number here must not have one."""
    return [each for pair in zip_longest(cells, numbers) for each in _cell(place, *pair)]


def _cell(place, cell, number):
    """Return the complaints about a cell."""
    if not re.search(r"\d", cell or ""):
        return []
    if number is None:
        return [f"{place}: nobody recomputes {cell}"]
    if number is ANY:
        return []
    phrase = "# %" if cell.endswith(" %") else "#" if re.fullmatch(r"-?\d\.\d\d", cell) else "~"
    return [f"{place}: {each}" for each in net.words(cell, {phrase: [number]})]


def _charts(page, report, rules):
    out, reasons = [], dict(report.reasons())
    for chart in page.charts:
        x, y = (chart["axes"][axis][0] for axis in "xy")
        facts = {"of # model changes": [len(report.events)], "# raises": [3]}
        out += [f"chart {y}: {each}" for each in net.words(chart["title"], facts)]
        for each in chart["series"]:
            rule = rules.pop((y, each["label"]), None)
            for tip in each["tips"]:
                if match := re.match(r"row ([\d,]+): ", tip):
                    at = int(match[1].replace(",", ""))
                    out += [f"tip of {y}: {wrong}" for wrong in net.words(tip, reasons.get(at, {}))]
                    rules.pop((y, "excess cost"), None)
            if not each["label"] or not each["points"]:
                continue
            if x in report.names:
                out += _points(y, [(b, report.response(x, a)) for a, b in each["points"]])
            elif y == "second principal component":
                out += report.scattered(each)
            elif y == "evidence (log10)":
                out += _points(y, [(b, Between(-2, 3)) for _, b in each["points"]])
            elif (y, each["label"]) in {("residual", "residual"), ("true positive rate",) * 2}:
                out += report.lie_on(y, each)
            elif rule is None:
                out.append(f"chart {y}: nobody recomputes the points of {each['label']}")
            else:
                out += _series(chart, each, *rule)
    return out + [f"no points of {each}" for each in rules]


def _series(chart, series, points, across, unit):
    """Return the complaints about the axes and the points of a series."""
    (x, _), (y, found), out = chart["axes"]["x"], chart["axes"]["y"], []
    if (x, found) != (across, unit):
        out.append(f"chart {y}: axes {chart['axes']}, recomputed {across}, {unit or 'no unit'}")
    if len(series["points"]) != len(points):
        out.append(f"chart {y}: {len(series['points'])} points, recomputed {len(points)}")
    pairs = zip(series["points"], points, strict=False)
    return out + _points(y, [pair for each in pairs for pair in zip(*each, strict=True)])


def _points(place, pairs, rel=6e-5):
    """Return the complaints about coordinates, which have five digits."""
    return [
        f"chart {place}: {found}, recomputed {known}"
        for found, known in pairs
        if found is not None and not net.agrees(found, known, rel * abs(found))
    ]
