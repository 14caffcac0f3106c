"""The calls that :mod:`torture.interrupts` disturbs: all that change an estimator, a construction or a file."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression, Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.refresh import Geometric
from torture.subjects import DurableSubject, Subject, fast_place

_RNG = np.random.default_rng(5)
X = np.ascontiguousarray(_RNG.normal(size=(64, 2)) + 5 * _RNG.integers(2, size=(64, 1)))
TARGETS = {
    "none": None,
    "numbers": X @ [1.0, -2.0] + _RNG.normal(size=64),
    "labels": np.where(X[:, 0] + _RNG.normal(size=64) > 2.5, "high", "low"),
}
WEIGHTS = _RNG.choice([0.5, 1.0, 2.0], size=64)
SEEN = 20
"""Rows seen before most calls: two blocks of eight, and four buffered rows."""

OTHERS = 1_000
"""First id of a shard to be merged."""

_SMALL = {"coreset_size": 10, "random_state": 3, "refresh": Geometric(1.5, start=10)}


@cache
def folder() -> Path:
    """One folder for all histories on disk, since its name is part of a state."""
    place = Path(tempfile.mkdtemp(prefix="interrupts-", dir=fast_place()))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@dataclass(frozen=True)
class Call:
    """One call on one kind of subject."""

    name: str
    new: Callable[[], Any]
    act: Callable[[Any], object]
    go_on: Callable[[Any], object]
    """What the subject learns afterwards."""


# -- estimators -------------------------------------------------------------------------------------------


def estimators() -> dict[str, tuple[Callable[..., Any], str]]:
    """What makes an estimator, and the kind of its targets."""
    wrapped = partial(partial, BatchToOnline, **_SMALL)
    clustering = partial(partial, OnlineClustering, 2, **_SMALL)
    return {
        "OnlineRegression": (partial(OnlineRegression, keep_history=True, **_SMALL), "numbers"),
        "OnlineLowRank": (partial(OnlineLowRank, 1, center=True, keep_history=True, **_SMALL), "none"),
        "OnlineClustering in memory": (clustering(), "none"),
        "OnlineClustering in a folder": (clustering(history=folder()), "none"),
        "OnlineClustering, coreset": (clustering(history="coreset"), "none"),
        "OnlineClassifier": (partial(OnlineClassifier, keep_history=True, **_SMALL), "labels"),
        "OnlineRegression, half-life": (partial(OnlineRegression, keep_history=True, half_life=9, **_SMALL), "numbers"),
        "OnlineRegression, auto": (partial(OnlineRegression, half_life="auto", **_SMALL), "numbers"),
        "OnlineLowRank, window": (partial(OnlineLowRank, 1, window=16, **_SMALL), "none"),
        "Ridge": (wrapped(Ridge(), keep_history=True), "numbers"),
        "KMeans": (wrapped(KMeans(2, n_init=1, max_iter=5)), "none"),
        "LogisticRegression": (wrapped(LogisticRegression(max_iter=20), keep_history=True), "labels"),
    }


def _part(targets: str, start: int, stop: int) -> tuple[Any, Any]:
    y = TARGETS[targets]
    return X[start:stop], None if y is None else y[start:stop]


def _learned(make: Callable[..., Any], targets: str, stop: int = SEEN, start: int = 0, **settings: Any) -> Any:
    return make(**settings).partial_fit(*_part(targets, start, stop))


@cache
def _template(make: Callable[..., Any], targets: str, seen: int) -> Any:
    return _learned(make, targets, seen)


def _copied(make: Callable[..., Any], targets: str, seen: int) -> Any:
    """Return an estimator with all that another holds: harm done to what they share shows in the next copy.

    Two histories on disk cannot write to one place, and only one of them may forget.
    """
    if getattr(make(), "history", None) == folder():
        return _learned(make, targets, seen)
    template, model = _template(make, targets, seen), make()
    vars(model).update(vars(template), _stream=replace(template._stream, buffer=template._stream.buffer.copy()))
    return model


def _one(targets: str, at: int) -> tuple[Any, Any]:
    y = TARGETS[targets]
    return X[at].tolist(), None if y is None else y[at].item()


def calls_on(make: Callable[..., Any], targets: str) -> Iterator[tuple[str, int, Callable[[Any], object]]]:
    """Calls that an estimator and a durable model share: a name, the rows seen before, and the call."""
    follows = make().get_params().get("window") or make().get_params().get("half_life") == "auto"
    yield "learn_one waits", SEEN, lambda model: model.learn_one(*_one(targets, 40))
    yield "learn_one makes a refresh due", 22, lambda model: model.learn_one(*_one(targets, 40))
    yield "learn_one completes a block", 23, lambda model: model.learn_one(*_one(targets, 40))
    yield "partial_fit", SEEN, lambda model: model.partial_fit(*_part(targets, 40, 53))
    yield "partial_fit with weights", SEEN, lambda model: model.partial_fit(*_part(targets, 40, 51), WEIGHTS[:11])
    yield "partial_fit first", 0, lambda model: model.partial_fit(*_part(targets, 0, 11))
    yield "learn_one first", 0, lambda model: model.learn_one(*_one(targets, 40))
    if follows:
        return
    other = _learned(make, targets, 40, 27, first_id=OTHERS)
    yield "merge", SEEN, lambda model: model.merge(other)
    if getattr(make(), "history", None) != "coreset":
        yield "forget", SEEN, lambda model: model.forget([2, 3, 17])


def on_estimators() -> Iterator[Call]:
    for name, (make, targets) in estimators().items():

        def go_on(subject: Subject, targets: str = targets) -> None:
            subject.thing.partial_fit(*_part(targets, 53, 62)).learn_one(*_one(targets, 62))

        def new(seen: int, make: Callable[..., Any] = make, targets: str = targets) -> Subject:
            return Subject(_copied(make, targets, seen) if seen else make())

        calls = list(calls_on(make, targets))
        calls += [
            (f"fit {when}", seen, partial(_fit, targets=targets)) for when, seen in (("first", 0), ("again", SEEN))
        ]
        for call, seen, act in calls:
            yield Call(f"{name}: {call}", partial(new, seen), partial(_on_thing, act), go_on)


def _fit(model: Any, targets: str) -> None:
    model.fit(*_part(targets, 30, 41))


def _on_thing(act: Callable[[Any], object], subject: Subject) -> None:
    act(subject.thing)


# -- durable models -----------------------------------------------------------------------------------------


def on_durables() -> Iterator[Call]:
    for name, (make, targets) in estimators().items():

        def go_on(subject: Subject, targets: str = targets) -> None:
            subject.thing.partial_fit(*_part(targets, 53, 62), key="later")
            subject.thing.learn_one(*_one(targets, 62))

        def new(seen: int, make: Callable[..., Any] = make, targets: str = targets) -> Subject:
            return DurableSubject(make, _files(make, targets, seen) if seen else {})

        calls = list(calls_on(make, targets))
        calls += [
            ("partial_fit with a key", SEEN, partial(_with_key, targets=targets)),
            ("checkpoint", SEEN, lambda durable: durable.checkpoint()),
        ]
        for call, seen, act in calls:
            yield Call(f"Durable {name}: {call}", partial(new, seen), partial(_on_thing, act), go_on)
        yield Call(f"Durable {name}: close", partial(new, SEEN), _close, partial(_reopened, go_on))


@cache
def _files(make: Callable[..., Any], targets: str, seen: int) -> dict[str, bytes]:
    """Return what a dying process leaves: a file with a state, and with rows that came after it."""
    subject = DurableSubject(make)
    for start, stop in ((0, seen - 3), (seen - 3, seen)):
        subject.thing.partial_fit(*_part(targets, start, stop))
    return subject.left_behind()


def _with_key(durable: Any, targets: str) -> None:
    durable.partial_fit(*_part(targets, 40, 53), key="once", source=("file", 53))


def _close(subject: Any) -> None:
    subject.thing.close()


def _reopened(go_on: Callable[[Any], object], subject: Any) -> None:
    subject.thing.close()
    subject.thing = subject.opened()
    go_on(subject)


# -- constructions ------------------------------------------------------------------------------------------


def constructions() -> dict[str, tuple[Callable[..., Any], str]]:
    small = {"coreset_size": 10, "random_state": 3}
    kept = small | {"keep_history": True}
    clustering = partial(partial, coresets.Clustering, 2, **small)
    return {
        "Leverage": (partial(coresets.Leverage, **kept), "numbers"),
        "RidgeLeverage": (partial(coresets.RidgeLeverage, 1, **kept), "none"),
        "Uniform": (partial(coresets.Uniform, **kept), "numbers"),
        "Everything": (partial(coresets.Everything, **kept), "numbers"),
        "Sensitivity": (partial(coresets.Sensitivity, coresets.LewisScore(1.0), **small), "numbers"),
        "Clustering in memory": (clustering(), "none"),
        "Clustering in two stages": (clustering(stages=2), "none"),
        "Clustering in a folder": (clustering(history=folder()), "none"),
        "Clustering, coreset": (clustering(history="coreset"), "none"),
    }


def on_constructions() -> Iterator[Call]:
    for name, (make, targets) in constructions().items():

        def go_on(subject: Subject, targets: str = targets) -> None:
            subject.thing.add(*_part(targets, 53, 62))

        def new(seen: int, make: Callable[..., Any] = make, targets: str = targets) -> Subject:
            return Subject(make().add(*_part(targets, 0, seen)) if seen else make())

        other = make(first_id=OTHERS).add(*_part(targets, 27, 40))
        calls = [
            ("add", SEEN, partial(_add, targets=targets, weights=None)),
            ("add with weights", SEEN, partial(_add, targets=targets, weights=WEIGHTS[:13])),
            ("add first", 0, partial(_add, targets=targets, weights=None)),
            ("merge", SEEN, partial(_merge, other=other)),
        ]
        if "coreset" not in name:
            calls.append(("forget", SEEN, partial(_forget, ids=[2, 3, 17])))
        for call, seen, act in calls:
            yield Call(f"{name}: {call}", partial(new, seen), partial(_on_thing, act), go_on)


def _add(construction: Any, targets: str, weights: Any) -> None:
    construction.add(*_part(targets, 40, 53), weights)


def _merge(construction: Any, other: Any) -> None:
    construction.merge(other)


def _forget(construction: Any, ids: list[int]) -> None:
    construction.forget(ids)


FAMILIES: dict[str, Callable[[], Iterator[Call]]] = {
    "estimators": on_estimators,
    "constructions": on_constructions,
    "durable models": on_durables,
}
"""Kinds of subjects, and what gives the calls on them."""
