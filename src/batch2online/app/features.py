"""The features of a model, by name and in the units of the columns that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from batch2online.tables.codec import Coded
from batch2online.tables.columns import DURATION, STRING, TIME, ZONED

_UNITS = {TIME: "days since 1970", ZONED: "days since 1970, UTC", DURATION: "hours"}
_PART_UNITS = {"hour": "hours", "weekday": "1 is Monday", "month": "1 is January"}


@dataclass(frozen=True)
class ColumnFacts:
    """What an input says of its columns: the target, units, and means and scales by which rows were scaled before."""

    target: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    moments: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Features:
    """The features of a model.

    Attributes
    ----------
    names : list of str
        Without a note that they are scaled.
    means, scales : lists of float
        Mean and scale of each feature that was standardised, else 0 and 1.
    units : dict
        Units of features, if they are known, and of the target.
    categories : dict
        The levels of each column of strings.
    missing : str
        How missing values are encoded.
    """

    names: list[str]
    means: list[float]
    scales: list[float]
    units: dict[str, str]
    categories: dict[str, list[str]]
    missing: str
    target: str | None = None

    @classmethod
    def of(cls, model: Any, facts: ColumnFacts | None = None) -> Features:
        """Return the features of a model of tables or of arrays."""
        codec, facts = model.stream.columns, facts or ColumnFacts()
        if codec is None:
            names = model.feature_names() or [str(place) for place in range(model.n_features_in_)]
            found = [(name, *facts.moments.get(name, (0.0, 1.0)), "") for name in names]
        else:
            found = [each for coded in codec.coded for each in _features_of(coded, facts)]
        units = {name: unit for name, _, _, own in found if (unit := facts.units.get(name, own))}
        if facts.target in facts.units:
            units[str(facts.target)] = facts.units[str(facts.target)]
        return cls(
            names=[name for name, *_ in found],
            means=[float(mean) for _, mean, _, _ in found],
            scales=[float(scale) for _, _, scale, _ in found],
            units=units,
            categories={} if codec is None else codec.categories,
            missing="refuse" if codec is None else codec.options.missing,
            target=facts.target,
        )

    @property
    def is_standardised(self) -> bool:
        """Whether any feature was scaled."""
        return any(self.means) or any(scale != 1.0 for scale in self.scales)


def _features_of(coded: Coded, facts: ColumnFacts) -> Iterator[tuple[str, float, float, str]]:
    """Yield name, mean, scale and unit of each feature of a column."""
    if coded.kind == STRING:
        yield from ((name, 0.0, 1.0, "") for name in coded.own_names)
        return
    zone = ", UTC" if coded.kind == ZONED else ""
    names = {coded.name: _UNITS.get(coded.kind, "")}
    names |= {f"{coded.name}: {part}": _PART_UNITS[part] + zone for part in coded.parts}
    means, scales = (coded.means, coded.scales) if coded.scales else ([0.0] * len(names), [1.0] * len(names))
    for (name, unit), mean, scale in zip(names.items(), means, scales, strict=True):
        yield (name, *facts.moments.get(name, (mean, scale)), unit)
    if coded.has_missing:
        yield f"{coded.name} is missing", 0.0, 1.0, ""
