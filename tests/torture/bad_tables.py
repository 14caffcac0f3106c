"""Generated bad tables to estimators that take rows of any kind: a sentence and no trace of it, or a model of them."""

from __future__ import annotations

import datetime as dt
import decimal
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from batch2online import BatchToOnline
from state_bytes import serialise
from table_cases import table, target

N = 40
GOOD = table(3 * N)
Y = target(GOOD)
WORDS = [f"{note} {number}" for number, note in enumerate(GOOD["note"])]
CELLS = (
    *(None, np.nan, pd.NA, pd.NaT, np.inf, -np.inf, 1e150, -0.0, 2**53 + 1, 2**80, 10**400, 1j, True, 7, 1.5),
    *("", "text", "\ud800", "a\0b", "é" * 40, b"bytes", "x" * (2**24 + 1), [], [1, 2], (), {}, {"a": [1]}, {1, 2}),
    *(decimal.Decimal("1.5"), dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.time(1), dt.timedelta(1), object()),
    *(np.datetime64("2024-01-01"), pd.Timestamp(1), pd.Timestamp("2024", tz="UTC"), pd.Period("2024", "M"), len),
    *(np.float32(1), np.int8(1), np.str_("s"), np.array([1, 2]), pd.Interval(0, 1), dt.datetime(1, 1, 1), "2024-01-01"),
)
NAMES = (None, 1, 1.5, True, (1, 2), "", "length", "colour", "\ud800", "x" * 10_000, pd.Timestamp("2024"))
TYPES = (
    "object",
    "category",
    "string",
    "float32",
    "int8",
    "bool",
    "complex128",
    "Sparse[float]",
    "Int64",
    "datetime64[ns]",
)


def solve(rows, weights, targets=None):
    return len(rows)


def nothing(model, rows, targets=None):
    return np.zeros(len(rows))


def frames():
    return BatchToOnline(solve, loss=nothing, coreset_size=20, random_state=0)


def campaign(count: int, seed: int = 0) -> dict[str, int]:
    """So many tables with something wrong, or nearly so, to an estimator that has seen rows or none."""
    rng, outcomes = np.random.default_rng(seed), Counter()
    subjects = {"table": frames().partial_fit(GOOD[:N], Y[:N]), "texts": frames().partial_fit(WORDS[:N], Y[:N])}
    for _ in range(count):
        kind = "table" if rng.random() < 0.8 else "texts"
        subject = frames() if rng.random() < 0.2 else subjects[kind]
        outcomes[one_call(subject, *(bad_table if kind == "table" else bad_texts)(rng))] += 1
        if outcomes.get("learned") and "_stream" in vars(subject) and subject.n_seen_ > 2 * N:
            subjects = {"table": frames().partial_fit(GOOD[:N], Y[:N]), "texts": frames().partial_fit(WORDS[:N], Y[:N])}
    return dict(outcomes)


def one_call(subject, X, y) -> str:
    """What comes of it; anything but these outcomes is raised."""
    before, has_seen = snapshot(subject), "_stream" in vars(subject)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, about what it is given
        try:
            subject.partial_fit(X, y)
        except (ValueError, TypeError) as error:
            said = str(error)
            assert said
            assert len(said) < 2_000, said[:200]
            assert snapshot(subject) == before, "a trace is left"
            return "a sentence, no trace"
        points = subject.coreset_.points
    assert len(points) > 0
    return "learned" if has_seen else "learned as the first rows"


def snapshot(subject):
    return serialise(subject._state()) if "_stream" in vars(subject) else dict(vars(subject))


def bad_texts(rng):
    rows = list(WORDS[N : N + 8])
    for _ in range(rng.integers(1, 3)):
        rows[rng.integers(len(rows))] = CELLS[rng.integers(len(CELLS))]
    forms = (list, tuple, lambda r: pd.Series(r, dtype=object), _as_objects, lambda r: [{"a": cell} for cell in r])
    return forms[rng.integers(len(forms))](rows), Y[N : N + 8]


def _as_objects(rows):
    values = np.empty(len(rows), dtype=object)
    values[:] = rows
    return values


def bad_table(rng):
    frame = GOOD[N : N + 12].reset_index(drop=True)
    for _ in range(rng.integers(1, 4)):
        change = CHANGES[rng.integers(len(CHANGES))]
        try:
            frame = change(frame, rng)
        except Exception:  # pandas itself refuses: the table stays what it was
            continue
    y = Y[N : N + len(frame)] if rng.random() < 0.9 else Y[:5]
    return as_container(frame, rng), y


def as_container(frame, rng):
    """The same in another kind of table, if that can hold it."""
    forms = (
        pl.from_pandas,
        lambda f: pa.Table.from_pandas(f, preserve_index=False),
        lambda f: f.to_numpy(dtype=object),
    )
    if rng.random() < 0.5:
        return frame
    try:
        return forms[rng.integers(len(forms))](frame)
    except Exception:
        return frame


def with_cell(frame, rng):
    name = frame.columns[rng.integers(frame.shape[1])]
    values = frame[name].astype(object).tolist()
    values[rng.integers(len(values))] = CELLS[rng.integers(len(CELLS))]
    return frame.assign(**{name: pd.Series(_as_objects(values), index=frame.index)})


def with_type(frame, rng):
    name = frame.columns[rng.integers(frame.shape[1])]
    return frame.astype({name: TYPES[rng.integers(len(TYPES))]})


def renamed(frame, rng):
    names = list(frame.columns)
    names[rng.integers(len(names))] = NAMES[rng.integers(len(NAMES))]
    return frame.set_axis(pd.Index(names, dtype=object), axis=1)


def with_column(frame, rng):
    return frame.assign(more=[CELLS[rng.integers(len(CELLS))]] * len(frame))


CHANGES = (
    with_cell,
    with_cell,
    with_type,
    renamed,
    with_column,
    lambda frame, rng: frame.iloc[:, rng.permutation(frame.shape[1])],
    lambda frame, rng: frame.drop(columns=frame.columns[rng.integers(frame.shape[1])]),
    lambda frame, rng: pd.concat([frame, frame.iloc[:, :1]], axis=1),
    lambda frame, rng: frame[: rng.integers(3)],
    lambda frame, rng: frame.set_axis(pd.MultiIndex.from_product([["a"], frame.columns]), axis=1),
    lambda frame, rng: frame.iloc[:, :0],
    lambda frame, rng: frame.assign(note=[[word] for word in frame["note"]]),
    lambda frame, rng: frame.assign(day=pd.PeriodIndex(frame["day"], freq="D")),
    lambda frame, rng: frame.assign(colour=frame["colour"].fillna("?").str.encode("utf-8")),
    lambda frame, rng: frame.assign(size=frame["size"].cat.rename_categories(["a", "b", "c"])),
    lambda frame, rng: frame.assign(length=frame["length"].astype("timedelta64[ns]")),
)
