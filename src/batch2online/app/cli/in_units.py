"""What a model holds, with the names of its inputs and in the units of its table."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.app.inputs.preparation import Preparation


def in_units(model: Any, preparation: Preparation | None) -> dict[str, Any]:
    """Return coefficients, centers or components by the names of inputs, as if nothing had been scaled."""
    names = _names(model, preparation)
    means, scales = _moments(preparation, len(names))
    if hasattr(model, "cluster_centers_"):
        centers = model.cluster_centers_ * scales + means
        return {"units": _units(names, preparation), "centers": [_by_name(names, center) for center in centers]}
    if hasattr(model, "components_"):
        return {"units": {}, "components": [_by_name(names, component) for component in model.components_]}
    if hasattr(model, "coef_") and np.ndim(model.coef_) == 1:
        return _coefficients(model, names, means, scales, preparation)
    if hasattr(model, "coef_") and hasattr(model, "classes_"):
        return _by_class(model, names, means, scales)
    return {}


def _names(model: Any, preparation: Preparation | None) -> list[str]:
    if preparation is None:
        return [str(name) for name in getattr(model, "feature_names_in_", range(model.n_features_in_))]
    return [*preparation.numbers, *preparation.names[len(preparation.numbers) :]]


def _moments(preparation: Preparation | None, width: int) -> tuple[FloatArray, FloatArray]:
    """Return what was subtracted from each input and what it was divided by."""
    means, scales = np.zeros(width), np.ones(width)
    if preparation is not None and preparation.standardised:
        means[: len(preparation.means)] = preparation.means
        scales[: len(preparation.scales)] = preparation.scales
    return means, scales


def _coefficients(
    model: Any, names: list[str], means: FloatArray, scales: FloatArray, preparation: Preparation | None
) -> dict[str, Any]:
    slopes = np.asarray(model.coef_) / scales
    target = None if preparation is None else preparation.units.get(str(preparation.target))
    units = _units(names, preparation)
    return {
        "units": {name: per for name in names if (per := _per(target, units.get(name)))},
        "intercept": float(np.asarray(model.intercept_) - slopes @ means),
        "coefficients": _by_name(names, slopes),
    }


def _by_class(model: Any, names: list[str], means: FloatArray, scales: FloatArray) -> dict[str, Any]:
    """Coefficients of the logarithm of odds for each class; of two classes for the second."""
    slopes, labels = np.asarray(model.coef_) / scales, model.classes_.tolist()
    constants = np.asarray(model.intercept_) - slopes @ means
    shown = labels if len(slopes) == len(labels) else labels[-1:]
    rows = zip(map(str, shown), constants.tolist(), slopes, strict=True)
    return {
        "units": {},
        "classes": {
            label: {"intercept": constant, "coefficients": _by_name(names, slope)} for label, constant, slope in rows
        },
    }


def _per(target: str | None, unit: str | None) -> str:
    """Return the unit of a coefficient.

    >>> _per("US dollars", "carat"), _per("US dollars", None), _per(None, "mm")
    ('US dollars per carat', 'US dollars', 'per mm')
    """
    return f"{target or ''} per {unit}".strip() if unit else target or ""


def _units(names: list[str], preparation: Preparation | None) -> dict[str, str]:
    return {} if preparation is None else {name: preparation.units[name] for name in names if name in preparation.units}


def _by_name(names: list[str], values: FloatArray) -> dict[str, float]:
    return dict(zip(names, np.asarray(values, dtype=np.float64).tolist(), strict=True))
