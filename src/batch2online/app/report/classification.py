"""The section of a classifier: what it takes for what, how far its probabilities hold, what moves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.app.report import elements, models
from batch2online.app.report.context import ReportContext
from batch2online.app.report.figures import ACCENT, MUTED, drawing, plain, svg_of
from batch2online.app.report.text import why as reason
from batch2online.headline import excess

MOST_CLASSES = 12
_BINS = 10


@dataclass(frozen=True)
class Judged:
    """The rows of the coreset, by the present model.

    Attributes
    ----------
    labels : names of the classes, in the order of the model
    truth : the class of each row, as a place among them
    shares : probabilities (n, n_classes)
    weights : how many rows each stands for
    """

    labels: list[str]
    truth: IntArray
    shares: FloatArray
    weights: FloatArray

    @property
    def confusion(self) -> FloatArray:
        """Weights by true class (rows) and predicted class (columns)."""
        counts = np.zeros((len(self.labels), len(self.labels)))
        np.add.at(counts, (self.truth, self.shares.argmax(axis=1)), self.weights)
        return counts

    @property
    def claims(self) -> tuple[FloatArray, BoolArray]:
        """Return what is claimed with which probability, and whether it is so: the second class, or the likeliest."""
        if len(self.labels) == 2:
            return self.shares[:, 1], self.truth == 1
        return self.shares.max(axis=1), self.truth == self.shares.argmax(axis=1)


def judged(model: Any) -> Judged:
    """Return the coreset as the present model sees it."""
    coreset, known = model.coreset_, model.classes_.tolist()
    places = {code: known.index(label) for code, label in model._labels.items()}
    truth = np.array([places[code] for code in coreset.targets.tolist()], dtype=np.int64)
    return Judged(list(map(str, known)), truth, model._shares(coreset.points), coreset.weights)


def why(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and how far it moved the losses."""
    return f"{reason(event)}; the loss of a row moved by {elements.number(event.magnitude)} on average"


def section(context: ReportContext) -> str:
    """Return confusion, reliability, the ROC curve of two classes, and coefficients."""
    found = judged(context.model)
    return "\n".join([_classes(context, found), _coefficients(context, found.labels)])


def _classes(context: ReportContext, found: Judged) -> str:
    lead = (
        "How the present model judges the rows of the coreset, which it was solved on, by their weights: numbers of "
        f"rows are sums of weights, which stand for {found.weights.sum():,.0f} rows in all."
    )
    error = getattr(context.model, "error_", 0.0)
    if error:
        lead += f" The model is estimated to cost {excess(error)} more than a fit on all its rows."
    drawn = [elements.figure(reliability_figure(*found.claims, found.weights), _reliability_note(found))]
    if len(found.labels) == 2 and 0 < found.truth.mean() < 1:
        drawn.append(_roc(found))
    table = _confusion(found, context.target)
    content = [elements.pair(*drawn), table] if len(drawn) == 2 else [elements.pair(*drawn, table)]
    return elements.section("Classes", lead, *content)


def _confusion(found: Judged, target: str | None) -> str:
    """Return the confusion matrix with numbers; of many classes the pairs that are mixed up most."""
    counts, labels = found.confusion, found.labels
    if len(labels) > MOST_CLASSES:
        wrong = np.argsort(-(counts - np.diag(np.diag(counts))), axis=None, kind="stable")[:MOST_CLASSES]
        pairs = [divmod(int(place), len(labels)) for place in wrong]
        rows = [[f"{counts[i, j]:,.0f}", f"{labels[i]} taken for {labels[j]}"] for i, j in pairs]
        return elements.listing(["rows", "most frequent mistakes"], rows)
    heads = [*(f"predicted {label}" for label in labels), "share found", f"true {target or 'class'}"]
    right = np.diag(counts) / np.maximum(counts.sum(axis=1), np.finfo(np.float64).tiny)
    rows = [
        [*(f"{count:,.0f}" for count in counts[i]), f"{right[i]:.1%}".replace("%", " %"), label]
        for i, label in enumerate(labels)
    ]
    return elements.listing(heads, rows)


def reliability(claimed: FloatArray, is_so: BoolArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean probability and share that is so, in bins of equal weight."""
    order = np.argsort(claimed, kind="stable")
    ends = np.cumsum(weights[order])
    bins = np.minimum((_BINS * (ends - weights[order] / 2) / ends[-1]).astype(np.int64), _BINS - 1)
    total = np.bincount(bins, weights[order], _BINS)
    kept = total > 0
    sums = [np.bincount(bins, weights[order] * each[order], _BINS)[kept] for each in (claimed, is_so)]
    return sums[0] / total[kept], sums[1] / total[kept]


def reliability_figure(claimed: FloatArray, is_so: BoolArray, weights: FloatArray) -> str:
    """Probabilities against how often they came true."""
    with drawing(5.2, 3.4) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        axes.plot(*reliability(claimed, is_so, weights), "o-", color=ACCENT, markersize=5)
        axes.set_xlabel("probability by the model")
        axes.set_ylabel("share that is so")
        return svg_of(figure, "reliability", "Probabilities against the shares that came true, in ten bins")


def _reliability_note(found: Judged) -> str:
    what = f"of {found.labels[1]}" if len(found.labels) == 2 else "of the likeliest class"
    return f"Reliability: probability {what} in ten bins of equal weight; on the line it is what comes true."


def _roc(found: Judged) -> str:
    claimed, is_so = found.claims
    false, true, _ = roc_curve(is_so, claimed, sample_weight=found.weights)
    area = roc_auc_score(is_so, claimed, sample_weight=found.weights)
    with drawing(5.2, 3.4) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        axes.plot(false, true, color=ACCENT)
        axes.set_xlabel(f"share of the others taken for {plain(found.labels[1])}")
        axes.set_ylabel("share of its rows found")
        drawn = svg_of(figure, "roc", "Share of rows found against share of others taken for them")
    return elements.figure(drawn, f"ROC curve of {found.labels[1]}: the area under it is {area:.4f}; 0.5 is guessing.")


def _coefficients(context: ReportContext, labels: list[str]) -> str:
    effects = context.model.coef_ * models.spread(context.model.coreset_)[1]
    if len(effects) > 1:
        lead = "What each input adds to the logit of a class, times the spread of the input: a class a row."
        shown = effects[: 3 * MOST_CLASSES]
        names = [plain(label) for label in labels[: len(shown)]]
        cells = models.matrix_figure(names, context.names, shown, "Coefficients, a class a row")
        note = models.note_of_columns(len(context.names), "Blue speaks for the class, orange against it.")
        return elements.section("Coefficients", lead, elements.figure(cells, note, wide=True))
    lead = f"The logarithm of the odds of {labels[-1]}: the intercept plus each coefficient times its input."
    lead += f" The {models.MOST_BARS} strongest are drawn." if len(context.names) > models.MOST_BARS else ""
    picture = elements.figure(
        models.coefficients_figure(context.names, effects[0], None), f"Blue speaks for {labels[-1]}, orange against it."
    )
    return elements.section("Coefficients", lead, elements.pair(picture, _listed(context, effects[0])))


def _listed(context: ReportContext, effects: FloatArray) -> str:
    slopes = context.model.coef_[0] / context.scales
    rows = [[elements.number(float(context.model.intercept_[0] - slopes @ context.means)), "intercept"]]
    rows += [
        [elements.number(float(slopes[j]) + 0.0), context.names[j]] for j in np.argsort(-np.abs(effects), kind="stable")
    ]
    return elements.listing(["coefficient", "input"], rows, tall=True)
