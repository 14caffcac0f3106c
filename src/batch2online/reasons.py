"""What a change of the model has changed, in words: inputs, predictions, and what it gained on rows seen by neither."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batch2online._types import FloatArray
from batch2online.headline import count_of, number
from batch2online.results import ChangeEvent

_ROUNDING = 1e-9
"""Coefficients that are smaller than this part of what they were, or become, are shown as 0."""


def effects(
    event: ChangeEvent,
    names: Sequence[str] | None = None,
    labels: Mapping[float, Any] | None = None,
    scales: FloatArray | None = None,
    unit: str = "",
) -> list[str]:
    """Return the effects of a change, one phrase each.

    Parameters
    ----------
    event : ChangeEvent
        The change.
    names : sequence of str, optional
        Names of the columns; by default they are numbered.
    labels : mapping, optional
        Labels of classes by their codes.
    scales : array, optional
        Scales by which columns were divided; coefficients are shown for undivided columns.
    unit : str, optional
        Unit of the target.

    >>> event = ChangeEvent(500, "scheduled", 0.1, 2.0, 1.9, churn=0.02, trial=(300, 0.5, 0.45))
    >>> print(*effects(event), sep="; ")
    about 10 rows (2.00%) are given another label; on the next 300 rows, seen by neither model, its loss is 10 % lower
    """
    named = _names_of(names)
    found = []
    if event.prediction_change is not None:
        found.append(f"predictions moved by {number(event.prediction_change)} {unit}".strip() + " (root mean square)")
    if event.angle is not None:
        found.append(f"the subspace rotated by {math.degrees(event.angle):.3g} degrees")
    if event.churn is not None and event.matching is None:
        given = "is" if round(event.churn * event.at) == 1 else "are"
        rows = count_of(round(event.churn * event.at), "row")
        found.append(f"about {rows} ({event.churn:.2%}) {given} given another label")
    if event.coefficients:
        found.append(_coefficients(event, named, labels or {}, scales))
    if event.importances:
        listed = (f"{named(j)} from {old:.1%} to {new:.1%}" for j, old, new in event.importances)
        found.append(f"importance: {', '.join(listed)}")
    return found + ([_gain(event.trial)] if event.trial is not None else [])


def explained(event: ChangeEvent, reason: str | None = None, **given: Any) -> str:
    """Return why a model was replaced and what that changed; see :func:`effects`."""
    parts = effects(event, **given)
    if not parts and event.matching is None:
        parts = [f"losses changed by {number(event.magnitude)} on average"]
    return "; ".join([event.reason if reason is None else reason, *parts])


def _names_of(names: Sequence[str] | None) -> Callable[[int], str]:
    return (lambda j: f"column {j}") if names is None else (lambda j: str(names[j]))


def _coefficients(
    event: ChangeEvent, named: Callable[[int], str], labels: Mapping[float, Any], scales: FloatArray | None
) -> str:
    assert event.coefficients is not None
    classes = event.coefficient_classes or (None,) * len(event.coefficients)
    listed = []
    for (j, old, new), code in zip(event.coefficients, classes, strict=True):
        zero = _ROUNDING * max(abs(old), abs(new))
        shown = (value if abs(value) > zero else 0.0 for value in (old, new))
        before, after = (number(value if scales is None else value / float(scales[j])) for value in shown)
        of = "" if code is None or len(set(classes)) == 1 else f" for {labels.get(code, code)}"
        listed.append(f"{named(j)}{of} from {before} to {after}")
    odds = "" if classes[0] is None or len(set(classes)) > 1 else f" of {labels.get(classes[0], classes[0])}"
    return f"coefficients{odds}: {', '.join(listed)}"


def _gain(trial: tuple[int, float, float]) -> str:
    """Return what the new model gained on the rows after the change.

    >>> _gain((2000, 4.0, 5.0))
    'on the next 2,000 rows, seen by neither model, its loss is 25 % higher'
    """
    rows, old, new = trial
    on = f"on the next {'row' if rows == 1 else count_of(rows, 'row')}, seen by neither model"
    gain = 1 - new / old if old > 0 else 0.0
    if not gain:
        return f"{on}, its loss is the same"
    return f"{on}, its loss is {abs(100 * gain):.2g} % {'lower' if gain > 0 else 'higher'}"
