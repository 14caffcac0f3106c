"""The sections of a classifier: confusion matrix, reliability diagram, ROC curve, coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import auc, confusion_matrix, roc_curve

from batch2online._types import BoolArray, FloatArray, IntArray
from batch2online.app.report.charts import Axis, Chart, Series, diagonal, truncated
from batch2online.app.report.context import ReportContext
from batch2online.app.report.elements import Part, Section, Table
from batch2online.app.report.model_figures import bar_table, binned_means, matrix_table, moments, note_of_columns
from batch2online.headline import excess, number

MAX_CLASSES, MAX_THRESHOLDS = 12, 200


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
    def predicted(self) -> IntArray:
        """Index of the most probable class of each row."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def confusion(self) -> FloatArray:
        """Weights by true class (rows) and predicted class (columns)."""
        codes = np.arange(len(self.labels))
        counts = confusion_matrix(self.truth, self.predicted, labels=codes, sample_weight=self.weights)
        return np.asarray(counts, dtype=np.float64)

    @property
    def positives(self) -> tuple[FloatArray, BoolArray]:
        """Probability of the second of two classes, or of the predicted one of several, and whether it is true."""
        if len(self.labels) == 2:
            return self.probabilities[:, 1], self.truth == 1
        return self.probabilities.max(axis=1), self.truth == self.predicted


def classified_coreset(model: Any) -> ClassifiedRows:
    """Return the coreset with predictions of the current model."""
    coreset, known = model.coreset_, model.classes_.tolist()
    places = {code: known.index(label) for code, label in model._labels.items()}
    truth = np.array([places[code] for code in coreset.targets.tolist()], dtype=np.int64)
    return ClassifiedRows(list(map(str, known)), truth, model._shares(coreset.points), coreset.weights)


def sections(context: ReportContext) -> list[Section]:
    """Return confusion matrix, reliability diagram, the ROC curve of two classes, and coefficients."""
    rows = classified_coreset(context.model)
    lead = (
        "Performance of the current model on the weighted coreset, which it was fitted on. Numbers of rows are sums of "
        f"weights, {rows.weights.sum():,.0f} in total."
    )
    error = getattr(context.model, "error_", 0.0)
    if error:
        lead += f" The estimated loss of the model is {excess(error)} above that of a fit on all rows."
    curves = [_roc_chart(rows)] if len(rows.labels) == 2 and 0 < rows.truth.mean() < 1 else []
    parts: list[Part] = [confusion_table(rows, context.target), _reliability_chart(rows, wide=not curves), *curves]
    return [Section("Classification", lead, parts), coefficients_section(context, rows.labels)]


def confusion_table(rows: ClassifiedRows, target: str | None) -> Table:
    """Return the confusion matrix; for many classes the most frequent errors."""
    counts, labels, first = rows.confusion, rows.labels, f"true {target or 'class'}"
    if len(labels) > MAX_CLASSES:
        wrong = np.argsort(-(counts - np.diag(np.diag(counts))), axis=None, kind="stable")[:MAX_CLASSES]
        pairs = [divmod(int(place), len(labels)) for place in wrong]
        lines = [[labels[i], labels[j], f"{counts[i, j]:,.0f}"] for i, j in pairs]
        return Table([first, "most often predicted as", "rows"], lines)
    recall = np.diag(counts) / np.maximum(counts.sum(axis=1), np.finfo(np.float64).tiny)
    lines = [
        [label, *(f"{count:,.0f}" for count in counts[i]), f"{recall[i]:.1%}".replace("%", " %")]
        for i, label in enumerate(labels)
    ]
    return Table([first, *(f"predicted {label}" for label in labels), "recall"], lines)


def _reliability_chart(rows: ClassifiedRows, wide: bool) -> Chart:
    mean, fraction = binned_means(*rows.positives, rows.weights)
    x, y = Axis("mean predicted probability", -0.02, 1.02), Axis("fraction of positives", -0.02, 1.02)
    drawn = Series("fraction of positives", mean.tolist(), fraction.tolist(), "both")
    what = f"of {rows.labels[1]}" if len(rows.labels) == 2 else "of the predicted class"
    note = f"Reliability diagram: probability {what} in ten bins of equal weight; on the diagonal it is calibrated."
    return Chart("Reliability diagram with ten bins", x, y, [drawn, diagonal([0, 1])], note, wide, height=300)


def _roc_chart(rows: ClassifiedRows) -> Chart:
    probability, is_true = rows.positives
    x, y, _ = roc_curve(is_true, probability, sample_weight=rows.weights, drop_intermediate=False)
    some = np.unique(np.linspace(0, len(x) - 1, MAX_THRESHOLDS).astype(int))
    curve = Series("true positive rate", x[some].tolist(), y[some].tolist())
    axes = Axis("false positive rate", -0.02, 1.02), Axis("true positive rate", -0.02, 1.02)
    note = f"ROC curve of {rows.labels[1]}: the area under the curve is {auc(x, y):.4f}."
    title = "ROC curve: true positive rate against false positive rate"
    return Chart(title, *axes, [curve, diagonal([0, 1])], note, height=300)


def coefficients_section(context: ReportContext, labels: list[str]) -> Section:
    """Return the coefficients of two classes by decreasing effect, or a matrix of those of several."""
    model = context.model
    effects = model.coef_ * moments(model.coreset_)[1]
    if len(effects) > 1:
        lead = (
            "Coefficients of the logit of each class, times the standard deviation of the feature. Blue increases the "
            f"probability of the class, orange decreases it.{note_of_columns(len(context.names))}"
        )
        shown = effects[: 3 * MAX_CLASSES]
        heads = list(map(truncated, labels[: len(shown)]))
        return Section("Coefficients", lead, [matrix_table(heads, context.names, shown)])
    lead = (
        f"Log odds of {labels[-1]}: the intercept plus the sum of coefficients times features. The effect is the "
        "coefficient times the standard deviation: blue makes the class more likely, orange less likely."
    )
    slopes = model.coef_[0] / context.scales
    first = ["intercept", number(float(model.intercept_[0] - slopes @ context.means))]
    values = [number(float(slope) + 0.0) for slope in slopes]
    table = bar_table(["feature", "effect", "coefficient"], context.names, effects[0], [values], first=first)
    return Section("Coefficients", lead, [table])
