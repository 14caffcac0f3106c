"""Predictions from several threads while another one learns: each belongs to exactly one version of the model."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Sequence

import numpy as np
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.refresh import Geometric

X = np.random.default_rng(0).normal(size=(800, 4)) * [1, 2, 3, 4]
Y = np.column_stack([X @ [1.0, 2.0, 3.0, 4.0], X @ [4.0, 3.0, 2.0, 1.0]])
PROBE = np.ascontiguousarray(X[::160])
FEW = {"wrapped predict": 30}
"""Rows before the first reading: 12, but wrapped estimators have no model at all before the first refresh."""

READERS = {
    "regression predict": (lambda: OnlineRegression(**SETTINGS), lambda model: model.predict(PROBE)),
    "regression predict_one": (lambda: OnlineRegression(**SETTINGS), lambda model: model.predict_one(PROBE[0])),
    "regression coef_": (lambda: OnlineRegression(**SETTINGS), lambda model: model.coef_),
    "low rank transform": (lambda: OnlineLowRank(2, center=True, **SETTINGS), lambda model: model.transform(PROBE)),
    "low rank inverse_transform": (
        lambda: OnlineLowRank(2, center=True, **SETTINGS),
        lambda model: model.inverse_transform(PROBE[:, :2]),
    ),
    "low rank score": (lambda: OnlineLowRank(2, center=True, **SETTINGS), lambda model: model.score(PROBE)),
    "clustering transform": (lambda: OnlineClustering(3, **SETTINGS), lambda model: model.transform(PROBE)),
    "wrapped predict": (lambda: BatchToOnline(Ridge(), **SETTINGS), lambda model: model.predict(PROBE)),
    "clustering predict": (lambda: OnlineClustering(3, **SETTINGS), lambda model: model.predict(PROBE)),
}
SETTINGS = {"coreset_size": 60, "random_state": 0, "refresh": Geometric(1.05)}


def predictions(calls: int, n_threads: int = 4, names: Sequence[str] = tuple(READERS)) -> dict[str, int]:
    """About this many calls in all, over these ways to read a model."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        return {name: check(name, calls // len(names), n_threads) for name in names}
    finally:
        sys.setswitchinterval(before)


def check(name: str, calls: int, n_threads: int) -> int:
    """Read from several threads until so many calls are made, the stream being learned again and again meanwhile."""
    (make_empty, read), few = READERS[name], FEW.get(name, 12)

    def make():
        return make_empty().partial_fit(X[:few], Y[:few])

    answers: list[Counter[bytes]] = []
    failures: list[BaseException] = []
    current = [make()]

    def reader():
        mine: Counter[bytes] = Counter()
        try:
            for _ in range(calls // n_threads):
                mine[np.asarray(read(current[0])).tobytes()] += 1
        except BaseException as error:
            failures.append(error)
        answers.append(mine)

    threads = [threading.Thread(target=reader) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        learn_stream(current, make, is_needed=lambda: any(thread.is_alive() for thread in threads))
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    unknown = {answer for mine in answers for answer in mine} - versions(make, read)
    assert not unknown, f"{len(unknown)} answers belong to no version of the model"
    return sum(sum(mine.values()) for mine in answers)


def learn_stream(current, make, is_needed) -> None:
    model = current[0]
    for start in range(model.n_seen_, len(X), 100):
        model.partial_fit(X[start : start + 100], Y[start : start + 100])
        if not is_needed():
            return
    current[0] = make()


def versions(make, read) -> set[bytes]:
    """What each version of the model answers."""
    whole, model = make(), make()
    few = whole.n_seen_
    whole.partial_fit(X[few:], Y[few:])
    found = {np.asarray(read(model)).tobytes()}
    for at in [whole.stream.engine.policy.start, *(event.at for event in whole.changes_)]:
        if at > model.n_seen_:
            model.partial_fit(X[model.n_seen_ : at], Y[model.n_seen_ : at])
            found.add(np.asarray(read(model)).tobytes())
    return found
