"""The section of a linear regression, and why it changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.report import elements, models, residuals
from batch2online.app.report.story import Story
from batch2online.app.report.text import why as reason
from batch2online.headline import excess
from batch2online.methods.least_squares.problem import LeastSquares, standard_errors
from batch2online.methods.least_squares.solver import least_squares

_NORMAL = 1.96


def why(story: Story, event: Any) -> str:
    """Return the reason of a change, and which coefficients moved by how much."""
    moved_by = elements.number(event.magnitude)
    if residuals.is_other(story.model):
        return f"{reason(event)}; the loss of a row moved by {moved_by} on average"
    said = f"{reason(event)}; predictions moved by {moved_by} (root mean square)"
    moved = [
        f"{story.names[j]} from {elements.number(old / story.scales[j])} to {elements.number(new / story.scales[j])}"
        for j, old, new in event.coefficients or ()
    ]
    return f"{said}; coefficients: {', '.join(moved)}" if moved else said


def section(story: Story) -> str:
    """Return what each input adds to the prediction, strongest first."""
    model = story.model
    if np.ndim(model.coef_) != 1:
        return _several_targets(story)
    _, spreads = models.spread(model.coreset_)
    errors = _half_widths(model)
    order = np.argsort(-np.abs(model.coef_ * spreads), kind="stable")
    drawn = models.coefficients_figure(story.names, model.coef_ * spreads, None if errors is None else errors * spreads)
    sum_of = "the intercept plus each coefficient times its input"
    says = f"exp of {sum_of}" if _is_log(model) else sum_of
    lead = f"Prediction of {story.target or 'the target'}: {says}.{_covered(model)}"
    lead += f" The {models.MOST_BARS} strongest are drawn." if len(story.names) > models.MOST_BARS else ""
    note = "Blue raises the prediction, orange lowers it."
    note += "" if errors is None else " Lines are each 95 % interval."
    picture = elements.figure(drawn, note)
    told = elements.section("Coefficients", lead, elements.pair(picture, _listed(story, order, errors)))
    return "\n".join(part for part in (residuals.section(story), told) if part)


def _is_log(model: Any) -> bool:
    """Whether the model predicts the logarithm of the mean."""
    return getattr(model, "loss", "squared") in ("poisson", "gamma", "tweedie")


def _covered(model: Any) -> str:
    """Return how many targets lie below a quantile, and how far the model is from a fit on all its rows."""
    said, coreset = "", model.coreset_
    if getattr(model, "loss", "") == "quantile" and len(coreset):
        below = coreset.targets <= coreset.points @ model.coef_ + model.intercept_
        share = 100 * np.average(below, weights=coreset.weights)
        said = f" {share:.1f} % of the targets lie below it, by the weights of the coreset."
    error = float(getattr(model, "error_", 0.0))
    return f"{said} It is estimated to cost {excess(error)} more than a fit on all its rows." if error > 0 else said


def _listed(story: Story, order: Any, errors: FloatArray | None) -> str:
    coefficients = story.model.coef_ / story.scales
    intercept = float(story.model.intercept_ - coefficients @ story.means)
    rows = [[elements.number(intercept), "", "intercept"]]
    for j in order:
        value, half = float(coefficients[j]), None if errors is None else float(errors[j] / story.scales[j])
        between = "" if half is None or not np.isfinite(half) else _between(value, half)
        rows.append([elements.number(value), between, story.names[j]])
    if errors is None:
        return elements.listing(["coefficient", "input"], [[row[0], row[2]] for row in rows], tall=True)
    return elements.listing(["coefficient", "95 % interval", "input"], rows, tall=True)


def _between(value: float, half: float) -> str:
    return f"{elements.number(value - half)} to {elements.number(value + half)}"


def _half_widths(model: Any) -> FloatArray | None:
    """Half the width of the interval of each coefficient, None where the problem is not least squares.

    Intervals are those of least squares on all rows, widened by how far the present model is from it.
    """
    now = model._view()
    if not isinstance(now.problem, LeastSquares) or not now.is_solved or now.problem != LeastSquares(now.problem.exact):
        return None
    best = least_squares(now.construction.statistics.moments).coefficients[0]
    return np.asarray(_NORMAL * standard_errors(now.construction)[0] + np.abs(best - model.coef_))


def _several_targets(story: Story) -> str:
    cells = models.matrix_figure(
        [str(j) for j in range(len(story.model.coef_))], story.names, story.model.coef_, "Coefficients, a target a row"
    )
    return elements.section("Coefficients", "One row for each target.", elements.figure(cells, wide=True))
