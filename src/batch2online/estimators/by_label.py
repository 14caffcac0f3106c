"""Models of classes in the order of the labels: the engine knows classes in the order in which they came."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.engine.online import Online
from batch2online.losses import Logistic
from batch2online.problems.generalized_linear import LinearPredictor


def _sorted_codes(engine: Online) -> list[float]:
    labels: dict[float, Any] = engine.problem.labels  # type: ignore[attr-defined]
    return sorted(labels, key=labels.__getitem__)


def _places(classes: tuple[float, ...], codes: list[float]) -> list[int]:
    """Return where the classes of a model stand among all codes."""
    place = {code: position for position, code in enumerate(codes)}
    return [place[code] for code in classes]


def sorted_labels(engine: Online) -> Any:
    """Labels seen so far, sorted."""
    labels: dict[float, Any] = engine.problem.labels  # type: ignore[attr-defined]
    return np.array([labels[code] for code in _sorted_codes(engine)])


def by_label(engine: Online) -> tuple[FloatArray, FloatArray]:
    """Coefficients and intercepts in the order of the labels."""
    model: LinearPredictor = engine.model
    codes = _sorted_codes(engine)
    if len(codes) <= 2:
        sign = -1.0 if len(model.classes) == 2 and model.classes[0] != codes[0] else 1.0
        return sign * model.coefficients, sign * model.intercepts
    coefficients, intercepts = np.zeros((len(codes), engine.width)), np.full(len(codes), -model.unknown)
    own = _places(model.classes, codes)
    if len(model.classes) == 2:
        coefficients[own], intercepts[own] = np.outer([-0.5, 0.5], model.coefficients), model.intercepts * [-0.5, 0.5]
    elif len(own) > 2:
        coefficients[own], intercepts[own] = model.coefficients, model.intercepts
    return coefficients, intercepts


def probabilities(engine: Online, eta: FloatArray) -> FloatArray:
    """Probabilities of all labels, in their order; 0 for those that the model does not know."""
    model, codes = engine.model, _sorted_codes(engine)
    if not model.classes:
        return np.full((len(eta), len(codes)), 1 / len(codes))
    found = Logistic().probabilities(eta)
    if len(model.classes) == 2:
        found = np.column_stack([1 - found, found])
    elif len(model.classes) == 1:
        found = np.ones_like(found)
    everything = np.zeros((len(eta), len(codes)))
    everything[:, _places(model.classes, codes)] = found
    return everything
