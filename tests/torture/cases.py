"""Estimators of every kind, a script of calls for each, and what the model must be after each call."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, Durable, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.refresh import Geometric
from state_bytes import serialise

X = np.random.default_rng(0).normal(size=(900, 3)) * [1, 3, 10] + [0, 5, 0]
NUMBERS = X @ [1.0, -1.0, 2.0]
WORDS = np.where(NUMBERS > 0, "up", "down")
COUNTS = np.floor(np.abs(NUMBERS) / 8)
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
HISTORY = Path(tempfile.gettempdir(), "torture-history")

_shared = {"coreset_size": 25, "random_state": 5, "refresh": Geometric(1.5)}
_kept = _shared | {"keep_history": True}
ESTIMATORS = {
    "regression": (lambda **given: OnlineRegression(**_kept, **given), NUMBERS),
    "low rank": (lambda **given: OnlineLowRank(2, **_kept, **given), None),
    "clustering, memory": (lambda **given: OnlineClustering(3, **_shared, history="memory", **given), None),
    "clustering, disk": (lambda **given: OnlineClustering(3, **_shared, history=HISTORY, **given), None),
    "clustering, coreset": (lambda **given: OnlineClustering(3, **_shared, history="coreset", **given), None),
    "classification": (lambda **given: OnlineClassifier(**_kept, **given), WORDS),
    "counts": (lambda **given: OnlineRegression(loss="poisson", **_kept, **given), COUNTS),
    "regression, half-life": (lambda **given: OnlineRegression(half_life=60, **_kept, **given), NUMBERS),
    "regression, auto": (lambda **given: OnlineRegression(half_life="auto", **_shared, **given), NUMBERS),
    "low rank, window": (lambda **given: OnlineLowRank(2, window=80, **_shared, **given), None),
    "wrapped Ridge": (lambda **given: BatchToOnline(Ridge(), **_kept, **given), NUMBERS),
    "wrapped LogisticRegression": (lambda **given: BatchToOnline(LogisticRegression(), **_kept, **given), WORDS),
}
"""How to make each, and its targets."""

FOLLOWING = ("regression, auto", "low rank, window")
"""Those that neither forget nor merge."""
WITH_HISTORY = tuple(name for name in ESTIMATORS if name not in ("clustering, coreset", *FOLLOWING))
N_CALLS = 24

small_blocks = patch("batch2online.rows._BLOCK_ROWS", (40,))
"""Few rows fill several blocks."""


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=MEMORY)


def model(name: str, **given):
    return ESTIMATORS[name][0](**given)


def targets(name: str, rows):
    whole = ESTIMATORS[name][1]
    return None if whole is None else whole[rows]


@cache
def script(name: str) -> tuple[tuple, ...]:
    """Calls that change a model: rows, a single row, rows of another model, forgetting."""
    rng, calls, ids, next_id, used = np.random.default_rng(3), [], [], 0, 0
    for number in range(N_CALLS):
        kind = ("rows", "one", "rows", "forget", "rows", "merge", "one", "one")[number % 8]
        if (kind == "forget" and name not in WITH_HISTORY) or (kind == "merge" and name in FOLLOWING):
            kind = "rows"
        if kind == "forget":
            gone = sorted(rng.choice(ids, 3, replace=False).tolist())
            ids = sorted(set(ids) - set(gone))
            calls.append(("forget", gone))
            continue
        n = 1 if kind == "one" else int(rng.integers(3, 28))
        first = next_id + 1000 if kind == "merge" else next_id
        calls.append((kind, slice(used, used + n), first))
        ids += range(first, first + n)
        next_id, used = first + n, used + n
    return tuple(calls)


def carry_out(name: str, call: tuple, learner, **given) -> None:
    """Do one call of a script to an estimator or a durable one; ``given`` goes to calls that take rows."""
    kind, what, *first = call
    if kind == "forget":
        learner.forget(what)
    elif kind == "merge":
        learner.merge(model(name, first_id=first[0]).partial_fit(X[what], targets(name, what)))
    elif kind == "one":
        y = targets(name, what.start)
        learner.learn_one(X[what.start].tolist(), y if y is None or isinstance(y, str) else float(y), **given)
    else:
        learner.partial_fit(X[what], targets(name, what), **given)


def digest(estimator) -> str:
    """Tell one model from another: all of its state, rows of its history included."""
    return hashlib.sha256(serialise(estimator._state())).hexdigest() if "_stream" in vars(estimator) else "nothing"


@cache
def expected(name: str) -> tuple[str, ...]:
    """Digests of an undisturbed model after none, one, two ... calls of the script."""
    undisturbed = model(name)
    found = [digest(undisturbed)]
    for call in script(name):
        carry_out(name, call, undisturbed)
        found.append(digest(undisturbed))
    assert len(set(found)) == len(found)
    return tuple(found)


def lived(path: Path, name: str, n_calls: int, durability: str = "os", **settings) -> Durable:
    """Return a durable model after the first calls of its script."""
    durable = Durable(path, model(name), durability=durability, **settings)
    for number in range(n_calls):
        keyed(name, number, durable)
    return durable


def keyed(name: str, number: int, durable: Durable) -> None:
    """Carry out a call of the script under a key and with a position, where it may have them."""
    call = script(name)[number]
    given = {"key": f"call {number}"} if call[0] in ("rows", "one") else {}
    carry_out(name, call, durable, **given | ({"source": ("calls", number)} if call[0] == "rows" else {}))


def reopened(path: Path, name: str, **settings) -> tuple[str, int]:
    """Return the digest of the model in a file and how many calls it says it has lost; leave it as after a crash.

    Calls whose rows are there are sent once more and must do nothing.
    """
    durable = Durable(path, model(name), durability="os", **settings)
    try:
        found, positions = digest(durable.model), durable.positions
        calls = script(name)[: expected(name).index(found)] if found in expected(name) else ()
        for number, call in enumerate(calls):
            if call[0] in ("rows", "one"):
                keyed(name, number, durable)
        assert digest(durable.model) == found, "a call with a key was carried out twice"
        last = max((number for number, call in enumerate(calls) if call[0] == "rows"), default=None)
        assert positions.get("calls") == last, f"the position is {positions}, not {last}"
        return found, durable.reopened.lost if durable.reopened else 0
    finally:
        durable._session.abandon()
