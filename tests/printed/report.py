"""What the report page of a table may show: the numbers of sentences and cells, and the points of charts."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, roc_curve

from printed import expected, net, recompute
from printed.net import Between, Known
from printed.replays import answers_of

CURVES = {"mean loss per row", "loss / optimum", "regret"}
IGNORED = ("Reproduce this run", "Settings", "Fit times")
TEXTS = (10, 20, 30, 50, 80, 90, 95, 400)  # levels, rows that are drawn, refits that are compared
TIMES = r"(in|about) [\d.,]+ s\b|[\d-]{10} \d\d:\d\d|-?[\d.,]+ to -?[\d.,]+|batch2online|table\.csv"
"""What is no number of the table: times, names, and intervals of coefficients."""


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
        self.changes = printed_changes

    def moments(self, points):
        """Return means and standard deviations of columns, by the weights of the coreset."""
        mean = np.average(points, axis=0, weights=self.w)
        return mean, np.sqrt(np.average((points - mean) ** 2, axis=0, weights=self.w))

    def known(self):
        """Return the numbers that sentences, cells and points may show."""
        found, result = self.found, self.result
        curve = [(p["loss"], p["optimum"], p["weight"]) for p in result["curve"]]
        points = [[a / w, b / w, a / b if b else 0, a - b] for a, b, w in curve]
        moved = [
            event.get(name)
            for event in self.events
            for name in ("coefficients", "losses changed", "importances", "gain")
        ]
        more = [
            points, self.raw_mean, self.raw_spread, len(self.w), self.w.sum(), np.median(self.w),
            self.w.max(), share_of_two(self.X, self.w), [each / 100 for each in TEXTS], TEXTS, len(self.events) - 5,
        ]  # fmt: skip
        ranges = self.importance().values() if self.case.wraps else ()
        shares = expected.below_seeds(found) if self.case.kind == "clusters" else ()
        derived = expected.derived(result | {"changes": self.changes}, len(found.w))
        sizes = [*self.table.X.shape, self.case.k or 0, *range(1 + (self.case.k or 0))]
        return Known(
            result, self.changes, derived, more, moved, sizes, [*self.of_model()], ranges=ranges, shares=shares
        )

    def of_model(self):
        """Yield the numbers of the section of the model."""
        parameters, kind = self.found.parameters[self.at], self.case.kind
        if "coef_" in parameters and not self.case.wraps:
            yield np.atleast_2d(parameters["coef_"]) * self.spread
        if kind == "subspace":
            ratios = np.sort(expected.attributes(self.found)["explained_variance_ratio_"])[::-1]
            yield [ratios, ratios.cumsum(), dominance(np.average(self.X**2, axis=0, weights=self.w))]
            yield [event["angle"].value * 180 / np.pi for event in self.events]
        if kind == "clusters":
            yield (parameters["cluster_centers_"] - self.mean) / np.where(self.spread > 0, self.spread, 1)
            yield dominance(self.spread**2)
            for j in range(self.case.k):
                share = self.w[self.last[self.ids, 1] == j].sum() / self.w.sum()
                moves = [event["matching"][j]["moved"] for event in self.events]
                yield [share, share * len(self.found.w), sum(1 for each in moves if each)]
        if kind == "classes" and not self.case.wraps:
            share, right = self.positives()
            code, classes = recompute.codes(self.found.y)
            hot, said = np.eye(len(classes))[code[self.ids]], np.eye(len(classes))[self.last[self.ids].argmax(1)]
            counts = (hot * self.w[:, None]).T @ said
            yield [counts, np.diag(counts) / counts.sum(1)]
            yield [[np.average(each[rows], weights=self.w[rows]) for each in (share, right)]
                   for rows in in_bins(share, self.w)]  # fmt: skip
            if len(classes) == 2:
                yield roc_auc_score(right, share, sample_weight=self.w)
        if kind in ("poisson", "quantile"):
            yield np.average(self.found.y[self.ids] <= self.last[self.ids], weights=self.w)
            yield from self.residuals()

    def positives(self):
        """Return the probability of the second of two classes, or of the predicted one, and whether it is true."""
        answers, code = self.last[self.ids], recompute.codes(self.found.y)[0][self.ids]
        if answers.shape[1] == 2:
            return answers[:, 1], code == 1
        return answers.max(1), answers.argmax(1) == code

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

    def residuals(self):
        """Yield the points of residuals in ten bins of equal weight, by increasing prediction."""
        mean, y = self.last[self.ids], self.found.y[self.ids]
        for number, rows in enumerate(in_bins(mean, self.w), 1):
            w = self.w[rows]
            yield [number, *(np.average(values[rows], weights=w) for values in (mean, y, y <= mean))]
            yield [quantile((y - mean)[rows], w, level) for level in (0.1, 0.5, 0.9)]

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
            return [
                f"row {row} weighs {w}" for w, row in points if not net.agrees(w, weights.get(row, np.nan), 6e-4 * w)
            ]
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


def dominance(squares):
    """Return the shares of the variance that the columns with most of it hold, and the numbers of the others."""
    return [np.sort(squares)[::-1].cumsum() / squares.sum(), [*range(len(squares))]]


def share_of_two(points, w):
    """Return the share of the variance that the first two principal components explain."""
    centred = (points - np.average(points, axis=0, weights=w)) * np.sqrt(w)[:, None]
    values = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    return values[:2].sum() / values.sum()


def complaints(page, report, of_run=True):
    """Return what is wrong on the page of a run, or of a model, which has no curve."""
    known, out = report.known(), []
    for section, text in (*page.blocks, *cells(page, report, out)):
        if section not in IGNORED and not re.match(r"batch2online [\d.]+\. Computed", text):
            out += [f"{section or 'head'}: {each}" for each in known.strangers(re.sub(TIMES, "", text))]
    labels = {each["axes"]["y"][0] for each in page.charts}
    out += [f"no chart of {each}" for each in (CURVES if of_run else set()) - labels]
    return out + [each for chart in page.charts for each in _points(chart, report, known)]


def cells(page, report, out):
    """Yield the cells of tables by their sections; those of the rows nearest to a center are compared here."""
    for section, tables in page.tables.items():
        for rows in tables if section not in IGNORED else ():
            if rows[0][0] == "nearest rows":
                out += _nearest(rows, section, report)
                continue
            yield from ((section, cell) for row in rows for cell in row)


def _nearest(rows, section, report):
    """Return the complaints about the rows nearest to a center: their values by their ids, and that none is nearer."""
    out, j = [], int(section.rpartition(" ")[2])
    raw = recompute.prepared(report.table.rows, False)
    own = report.ids[report.last[report.ids, 1] == j]
    nearest = np.sort(report.last[own, 0])[: len(rows) - 1]
    for (row, *values), distance in zip(rows[1:], nearest, strict=True):
        row = int(row.replace(",", ""))
        numbers = Known([raw.iloc[row][name] for name in rows[0][1:]])
        out += [f"row {row}: {each}" for value in values for each in numbers.strangers(value)]
        out += [] if net.agrees(report.last[row, 0], distance, 1e-9) else [f"row {row} is not one of the nearest"]
    return out


def _points(chart, report, known):
    """Return the complaints about a chart: its title, its tips, and its points, which have five digits."""
    (x, _), (y, unit) = chart["axes"]["x"], chart["axes"]["y"]
    out = known.strangers(chart["title"])
    for each in chart["series"]:
        out += [wrong for tip in each["tips"] for wrong in known.strangers(tip)]
        if not each["label"] or not each["points"] or y == "evidence (log10)":
            continue
        if x in report.names:
            out += [f"response to {x} at {a}: {b}" for a, b in each["points"]
                    if not net.agrees(b, report.response(x, a), 6e-5 * abs(b))]  # fmt: skip
        elif y == "second principal component":
            out += report.scattered(each)
        elif (y, each["label"]) in {("residual", "residual"), ("true positive rate",) * 2}:
            out += report.lie_on(y, each)
        else:
            out += [f"chart {y}: nobody recomputes {b} at {a}" for a, b in each["points"]
                    if not (known.has(a, 6e-5 * abs(a)) and known.has(b, 6e-5 * abs(b), unit == "%"))]  # fmt: skip
    return out
