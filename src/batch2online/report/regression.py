"""The section of a linear regression."""

from __future__ import annotations

from typing import Any

from batch2online.report import elements, models


def coefficients(model: Any, names: list[str], target: str) -> str:
    """Return what each input adds to the prediction."""
    _, spreads = models.spread(model.coreset_)
    drawn = models.coefficients_figure(names, model.coef_, spreads)
    rows = [("intercept", model.intercept_), *zip(names, model.coef_, strict=True)]
    listed = elements.table([(name, f"{value:.6g}") for name, value in rows], tall=True)
    lead = f"Prediction of {target}: the intercept plus each coefficient times its input."
    lead += f" The {models.MOST_BARS} strongest are drawn." if len(names) > models.MOST_BARS else ""
    picture = elements.figure(drawn, "Blue raises the prediction, orange lowers it.")
    return elements.section("Coefficients", lead, elements.pair(picture, listed))
