"""Generated bad input to all estimators and constructions: an error and no trace of it, or a finite model."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.linalg import LinAlgWarning
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from state_bytes import serialise

D = 3
X = np.random.default_rng(0).normal(size=(400, D)) * [1, 10, 100]
Y = X @ [1.0, -1.0, 0.5] + np.random.default_rng(1).normal(size=400)
SHARED = {"random_state": 0, "keep_history": True, "coreset_size": 40}
SUBJECTS = {
    "OnlineRegression": lambda: OnlineRegression(**SHARED),
    "OnlineLowRank": lambda: OnlineLowRank(2, center=True, **SHARED),
    "OnlineClustering": lambda: OnlineClustering(3, **SHARED),
    "BatchToOnline": lambda: BatchToOnline(Ridge(), **SHARED),
    "Leverage": lambda: coresets.Leverage(**SHARED),
    "RidgeLeverage": lambda: coresets.RidgeLeverage(2, **SHARED),
    "Clustering": lambda: coresets.Clustering(3, random_state=0, coreset_size=40),
    "Sensitivity": lambda: coresets.Sensitivity(coresets.LewisScore(1.0), **SHARED),
    "Uniform": lambda: coresets.Uniform(**SHARED),
    "Everything": lambda: coresets.Everything(**SHARED),
}
CELLS = (np.nan, np.inf, -np.inf, 1e155, -1e300, 1e-320, 0.0, "x", None, "1.5", 1j, {}, (), pd.NA, b"1", 2**80)


def snapshot(subject):
    """All that it is: its attributes while it has seen no rows, the bytes of its checkpoint after."""
    if not hasattr(subject, "get_params"):
        return serialise(subject)
    return serialise(subject._state()) if "_stream" in vars(subject) else dict(vars(subject))


def campaign(count: int, seed: int = 0) -> dict[str, int]:
    """So many calls with something wrong, or nearly so, to subjects that have seen rows or none."""
    rng, outcomes = np.random.default_rng(seed), Counter()
    seen = {name: _seen(make) for name, make in SUBJECTS.items()}
    names = list(SUBJECTS)
    for index in range(count):
        name = names[index % len(names)]
        subject = SUBJECTS[name]() if rng.random() < 0.2 else seen[name]
        outcome = one_call(rng, subject)
        outcomes[outcome] += 1
        if outcome != "error, no trace" and subject is seen[name]:
            seen[name] = _seen(SUBJECTS[name])
    return dict(outcomes)


def _seen(make):
    subject = make()
    return subject.partial_fit(X[:100], Y[:100]) if hasattr(subject, "get_params") else subject.add(X[:100], Y[:100])


def one_call(rng, subject) -> str:
    before = snapshot(subject)
    with np.errstate(all="ignore"):
        call = (_estimator_call if hasattr(subject, "get_params") else _construction_call)(rng, subject)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # names of columns that come or go, fewer points than clusters
            warnings.simplefilter("ignore", LinAlgWarning)  # what a wrapped estimator says of extreme values
            call()
    except (ValueError, TypeError):
        assert _is_same(snapshot(subject), before), "an error left a trace"
        return "error, no trace"
    _check_finite(subject)
    return "accepted, unchanged" if _is_same(snapshot(subject), before) else "accepted, finite"


def _is_same(one, other) -> bool:
    """Of one that has seen no rows, attributes with an underscore are caches."""
    if isinstance(one, bytes):
        return one == other
    return {name for name in one if name[0] != "_"} == {name for name in other if name[0] != "_"}


def _check_finite(subject) -> None:
    """No NaN and no infinity in the model or in the coreset."""
    if not hasattr(subject, "get_params"):
        if subject.sketch is not None:
            _assert_finite(subject.coreset())
    elif "_stream" in vars(subject):
        model = subject._stream.model
        _assert_finite(getattr(model, "model", model))  # of an estimator that is wrapped, its own attributes
        _assert_finite(subject.coreset_)
        assert np.isfinite(subject._stream.current.loss)


def _assert_finite(holder) -> None:
    for value in vars(holder).values() if holder is not None else ():
        assert not isinstance(value, np.ndarray) or np.isfinite(value).all(), "not finite"


# -- calls --------------------------------------------------------------------------------------------------


def _estimator_call(rng, model):
    rows, targets, weights = bad_rows(rng), bad_targets(rng), bad_weights(rng)
    one = bad_row(rng)
    calls = [
        lambda: model.partial_fit(rows, targets, weights),
        lambda: model.fit(rows, targets, weights),
        lambda: model.learn_one(one, bad_target(rng)),
        lambda: model.forget(bad_ids(rng)),
        lambda: model.merge(bad_other(rng, model)),
        lambda: (model.transform if hasattr(model, "transform") else model.predict)(rows),
        lambda: model.predict_one(one),
    ]
    return calls[rng.choice(len(calls), p=[0.35, 0.15, 0.15, 0.1, 0.05, 0.1, 0.1])]


def _construction_call(rng, construction):
    rows, targets, weights = bad_rows(rng), bad_targets(rng), bad_weights(rng)
    calls = [
        lambda: construction.add(rows, targets, weights),
        lambda: construction.forget(bad_ids(rng)),
        lambda: construction.merge(bad_other(rng, construction)),
    ]
    return calls[rng.choice(3, p=[0.8, 0.12, 0.08])]


def bad_rows(rng):
    n, width = int(rng.choice([0, 1, 2, 30, 300], p=[0.05, 0.15, 0.1, 0.6, 0.1])), D
    if rng.random() < 0.1:
        width = int(rng.integers(0, 6))
    rows = np.resize(X[rng.integers(300) :], (n, width)).copy()
    if rng.random() < 0.7 and rows.size:
        rows = _with_cell(rng, rows)
    return _in_form(rng, rows)


def _with_cell(rng, rows):
    value = CELLS[rng.integers(len(CELLS))]
    rows = rows.astype(np.float64 if isinstance(value, float) else object)
    rows[(*(rng.integers(size) for size in rows.shape),)] = value
    return rows


def _in_form(rng, rows):
    forms = (
        lambda: rows.tolist(),
        lambda: np.asfortranarray(rows),
        lambda: rows[None],
        lambda: rows[0] if len(rows) else rows,
        lambda: pd.DataFrame(rows, columns=list("abcdef")[: rows.shape[1]]),
        lambda: sp.csr_array(rows.astype(np.float64)) if rows.dtype != object else rows,
        lambda: rows.astype(np.float32) if rows.dtype != object else rows,
        lambda: np.full(rows.shape, "x"),
        lambda: None,
        lambda: "rows",
        lambda: np.ma.masked_array(rows, mask=False),
        lambda: [*rows.tolist(), [1.0]],
        lambda: np.zeros(rows.shape, dtype="datetime64[s]"),
    )
    return forms[rng.integers(len(forms))]() if rng.random() < 0.4 else rows


def bad_targets(rng):
    n = int(rng.choice([0, 1, 2, 30, 300], p=[0.05, 0.1, 0.1, 0.65, 0.1]))
    targets = np.resize(Y, n).copy()
    if rng.random() < 0.3 and n:
        targets = _with_cell(rng, targets)
    forms = (lambda: targets[:, None], lambda: None, lambda: targets.tolist(), lambda: 1.0, lambda: targets[None, None])
    return forms[rng.integers(len(forms))]() if rng.random() < 0.25 else targets


def bad_weights(rng):
    if rng.random() < 0.6:
        return None
    n = int(rng.choice([1, 30, 300], p=[0.2, 0.7, 0.1]))
    share = [0.1, 0.6, 0.2, 0.02, 0.02, 0.02, 0.02, 0.02]
    weights = rng.choice([0.0, 1.0, 2.5, 1e-300, 1e300, -1.0, np.nan, np.inf], size=n, p=share)
    forms = (lambda: weights.tolist(), lambda: 0.0, lambda: "w", lambda: np.zeros(n), lambda: weights[:, None])
    return forms[rng.integers(len(forms))]() if rng.random() < 0.3 else weights


def bad_row(rng):
    row = X[0].tolist() if rng.random() < 0.8 else X[0, :2].tolist()
    if rng.random() < 0.8:
        row[rng.integers(len(row))] = CELLS[rng.integers(len(CELLS))]
    forms = (
        lambda: dict(zip("abc", row, strict=False)),
        lambda: tuple(row),
        lambda: [row],
        lambda: 5.0,
        lambda: None,
        lambda: "row",
    )
    return forms[rng.integers(len(forms))]() if rng.random() < 0.4 else row


def bad_target(rng):
    return CELLS[rng.integers(len(CELLS))] if rng.random() < 0.4 else 1.5


def bad_ids(rng):
    options = (
        [-1],
        [10**9],
        [2**70],
        1.5,
        [1.0],
        "1",
        [None],
        [[1, 2]],
        [np.nan],
        [True],
        [5, 5],
        [5],
        [],
        None,
        [50, 1e3],
    )
    return options[rng.integers(len(options))]


def bad_other(rng, subject):
    options = (
        None,
        subject,
        5,
        _seen(SUBJECTS["Uniform"]),
        _seen(SUBJECTS["OnlineLowRank"]),
        SUBJECTS["OnlineRegression"](),
    )
    return options[rng.integers(len(options))]
