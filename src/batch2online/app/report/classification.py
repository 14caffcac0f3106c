"""The section of a classifier: confusion matrix, reliability diagram, ROC curve, coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.app.report import elements, model_figures
from batch2online.app.report.context import ReportContext, described
from batch2online.app.report.figures import ACCENT, MUTED, drawing, plain, svg_of
from batch2online.app.report.model_figures import N_BINS, equal_weight_bins
from batch2online.headline import excess, number

MAX_CLASSES = 12


@dataclass(frozen=True)
class ClassifiedRows:
    """The coreset with predictions of the current model.

    Attributes
    ----------
    labels : names of the classes, in the order of the model
    truth : index of the true class of each row
    probabilities : array of shape (n, n_classes)
    weights : number of rows that each row represents
    """

    labels: list[str]
    truth: IntArray
    probabilities: FloatArray
    weights: FloatArray

    @property
    def confusion(self) -> FloatArray:
        """Weights by true class (rows) and predicted class (columns)."""
        counts = np.zeros((len(self.labels), len(self.labels)))
        np.add.at(counts, (self.truth, self.probabilities.argmax(axis=1)), self.weights)
        return counts

    @property
    def positives(self) -> tuple[FloatArray, BoolArray]:
        """Probability of the second of two classes, or of the predicted one of several, and whether it is true."""
        if len(self.labels) == 2:
            return self.probabilities[:, 1], self.truth == 1
        return self.probabilities.max(axis=1), self.truth == self.probabilities.argmax(axis=1)


def classified_coreset(model: Any) -> ClassifiedRows:
    """Return the coreset with predictions of the current model."""
    coreset, known = model.coreset_, model.classes_.tolist()
    places = {code: known.index(label) for code, label in model._labels.items()}
    truth = np.array([places[code] for code in coreset.targets.tolist()], dtype=np.int64)
    return ClassifiedRows(list(map(str, known)), truth, model._shares(coreset.points), coreset.weights)


def describe(context: ReportContext, event: Any) -> str:
    """Return the reason of a change, and what it has changed."""
    return described(context, event)


def section(context: ReportContext) -> str:
    """Return confusion matrix, reliability diagram, the ROC curve of two classes, and coefficients."""
    rows = classified_coreset(context.model)
    lead = (
        "Performance of the current model on the weighted coreset, which it was fitted on. Numbers of rows are sums of "
        f"weights, {rows.weights.sum():,.0f} in total."
    )
    error = getattr(context.model, "error_", 0.0)
    if error:
        lead += f" The estimated loss of the model is {excess(error)} above that of a fit on all rows."
    what = f"of {rows.labels[1]}" if len(rows.labels) == 2 else "of the predicted class"
    note = f"Reliability diagram: probability {what} in ten bins of equal weight; on the diagonal it is calibrated."
    drawn = [elements.figure(_reliability_figure(rows), note)]
    if len(rows.labels) == 2 and 0 < rows.truth.mean() < 1:
        drawn.append(_roc(rows))
    table = _confusion(rows, context.target)
    content = [elements.pair(*drawn), table] if len(drawn) == 2 else [elements.pair(*drawn, table)]
    return "\n".join([elements.section("Classification", lead, *content), _coefficients(context, rows.labels)])


def _confusion(rows: ClassifiedRows, target: str | None) -> str:
    """Return the confusion matrix; for many classes the most frequent errors."""
    counts, labels = rows.confusion, rows.labels
    if len(labels) > MAX_CLASSES:
        wrong = np.argsort(-(counts - np.diag(np.diag(counts))), axis=None, kind="stable")[:MAX_CLASSES]
        pairs = [divmod(int(place), len(labels)) for place in wrong]
        lines = [[f"{counts[i, j]:,.0f}", f"{labels[i]} predicted as {labels[j]}"] for i, j in pairs]
        return elements.listing(["rows", "most frequent errors"], lines)
    heads = [f"true {target or 'class'}", *(f"predicted {label}" for label in labels), "recall"]
    recall = np.diag(counts) / np.maximum(counts.sum(axis=1), np.finfo(np.float64).tiny)
    lines = [
        [label, *(f"{count:,.0f}" for count in counts[i]), f"{recall[i]:.1%}".replace("%", " %")]
        for i, label in enumerate(labels)
    ]
    return elements.listing(heads, lines, strings=1, first=True)


def reliability(probability: FloatArray, is_true: BoolArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean probability and fraction of positives in bins of equal weight."""
    order = np.argsort(probability, kind="stable")
    bins = equal_weight_bins(weights[order])
    total = np.bincount(bins, weights[order], N_BINS)
    kept = total > 0
    sums = [np.bincount(bins, weights[order] * each[order], N_BINS)[kept] for each in (probability, is_true)]
    return sums[0] / total[kept], sums[1] / total[kept]


def _reliability_figure(rows: ClassifiedRows) -> str:
    with drawing(5.2, 3.4) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        axes.plot(*reliability(*rows.positives, rows.weights), "o-", color=ACCENT, markersize=5)
        axes.set_xlabel("mean predicted probability")
        axes.set_ylabel("fraction of positives")
        return svg_of(figure, "reliability", "Reliability diagram with ten bins")


def _roc(rows: ClassifiedRows) -> str:
    probability, is_true = rows.positives
    false_positive, true_positive, _ = roc_curve(is_true, probability, sample_weight=rows.weights)
    area = roc_auc_score(is_true, probability, sample_weight=rows.weights)
    with drawing(5.2, 3.4) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        axes.plot(false_positive, true_positive, color=ACCENT)
        axes.set_xlabel("false positive rate")
        axes.set_ylabel("true positive rate")
        drawn = svg_of(figure, "roc", "ROC curve: true positive rate against false positive rate")
    return elements.figure(drawn, f"ROC curve of {rows.labels[1]}: the area under the curve is {area:.4f}.")


def _coefficients(context: ReportContext, labels: list[str]) -> str:
    model = context.model
    effects = model.coef_ * model_figures.moments(model.coreset_)[1]
    if len(effects) > 1:
        lead = "Coefficients of the logit of each class, times the standard deviation of the feature."
        shown = effects[: 3 * MAX_CLASSES]
        names = [plain(label) for label in labels[: len(shown)]]
        cells = model_figures.matrix_figure(names, context.names, shown, "Coefficients, one class per row")
        note = "Blue increases the probability of the class, orange decreases it."
        note = model_figures.note_of_columns(len(context.names), note)
        return elements.section("Coefficients", lead, elements.figure(cells, note, wide=True))
    lead = f"Log odds of {labels[-1]}: the intercept plus the sum of coefficients times features."
    lead += model_figures.note_of_bars(len(context.names))
    note = f"Blue increases the probability of {labels[-1]}, orange decreases it."
    picture = elements.figure(model_figures.coefficients_figure(context.names, effects[0], None), note)
    slopes = model.coef_[0] / context.scales
    rows = [[number(float(model.intercept_[0] - slopes @ context.means)), "intercept"]]
    order = np.argsort(-np.abs(effects[0]), kind="stable")
    rows += [[number(float(slopes[j]) + 0.0), context.names[j]] for j in order]
    listed = elements.listing(["coefficient", "feature"], rows, tall=True)
    return elements.section("Coefficients", lead, elements.pair(picture, listed))
