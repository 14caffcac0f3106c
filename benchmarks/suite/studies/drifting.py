"""Streams that drift, and streams that do not: half-lives, windows, and learners that forget by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import forest, linear_model, preprocessing, tree
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier, SGDRegressor

from batch2online import OnlineClassifier, OnlineRegression, datasets
from benchmarks.suite import in_time
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study, followed_cell, loaded

HALF_LIVES = (600, 2_400, 9_600, 38_400)
CHUNK = 250
MOST_ROWS = 60_000
"""Trees of River are left out of longer streams: they would take hours."""

TEXT = (
    f"Each row is predicted before it is learned, chunks of {CHUNK}, the first not scored: loss over that of the best "
    "*single* model of all rows in hindsight, changes of the model in brackets. No such model reaches a ratio below "
    "1. Flights, electricity and weather in time are in their original order. The constants of `auto` were chosen on "
    "other seeds of synthetic streams, on random orders of cps1988 and diamonds and on their original orders; "
    "flights influenced only how often half-lives may change. Rows per second are medians over the streams."
)
Stream = tuple[np.ndarray, np.ndarray]


class Refitted:
    """A batch model, fitted to the last rows alone after every thousand."""

    def __init__(self, model: Any, window: int) -> None:
        self.model, self.window, self.n_changes_ = model, window, 0
        self._X: list[Any] = []
        self._y: list[Any] = []
        self._rows = 0

    def partial_fit(self, X: Any, y: Any) -> None:
        keep = -(-self.window // len(X))
        self._X, self._y = [*self._X, X][-keep:], [*self._y, y][-keep:]
        self._rows += len(X)
        if self._rows % 1_000 == 0 or self.n_changes_ == 0:
            self.model.fit(np.concatenate(self._X), np.concatenate(self._y))
            self.n_changes_ += 1

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(X)


class RowByRow:
    """A model of River."""

    def __init__(self, model: Any) -> None:
        self.model, self.n_changes_ = model, 0

    def partial_fit(self, X: Any, y: Any) -> None:
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), target)
            self.n_changes_ += 1

    def predict(self, X: Any) -> Any:
        return np.array([self.model.predict_one(dict(enumerate(row))) for row in X.tolist()])

    def predict_proba(self, X: Any) -> Any:
        shares = [self.model.predict_proba_one(dict(enumerate(row))).get(1, 0.0) for row in X.tolist()]
        return np.column_stack([1 - np.array(shares), shares])


class EveryChunk:
    """A model of scikit-learn that changes at every call."""

    def __init__(self, model: Any, **first: Any) -> None:
        self.model, self.first, self.n_changes_ = model, first, 0

    def partial_fit(self, X: Any, y: Any) -> None:
        self.model.partial_fit(X, y, **(self.first if not self.n_changes_ else {}))
        self.n_changes_ += 1

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(X)


def regressors() -> dict[str, Callable[[], Any]]:
    ours: dict[str, Callable[[], Any]] = {
        f"ours, half-life {h:,}": lambda h=h: OnlineRegression(half_life=h, random_state=0) for h in HALF_LIVES
    }
    return {
        "ours, all rows": lambda: OnlineRegression(random_state=0),
        **ours,
        "ours, auto": lambda: OnlineRegression(half_life="auto", random_state=0),
        "ours, window 20,000": lambda: OnlineRegression(window=20_000, random_state=0),
        "LinearRegression refitted to 20,000 rows": lambda: Refitted(LinearRegression(), 20_000),
        "scikit-learn SGDRegressor": lambda: EveryChunk(SGDRegressor(random_state=0)),
        "River LinearRegression": lambda: RowByRow(preprocessing.StandardScaler() | linear_model.LinearRegression()),
        "River HoeffdingAdaptiveTreeRegressor": lambda: RowByRow(tree.HoeffdingAdaptiveTreeRegressor(seed=0)),
        "River ARFRegressor": lambda: RowByRow(forest.ARFRegressor(seed=0)),
    }


def classifiers() -> dict[str, Callable[[], Any]]:
    return {
        "ours, all rows": lambda: OnlineClassifier(random_state=0),
        "ours, half-life 1,000": lambda: OnlineClassifier(half_life=1_000, random_state=0),
        "ours, half-life 5,000": lambda: OnlineClassifier(half_life=5_000, random_state=0),
        "ours, half-life 20,000": lambda: OnlineClassifier(half_life=20_000, random_state=0),
        "ours, auto": lambda: OnlineClassifier(half_life="auto", random_state=0),
        "ours, window 20,000": lambda: OnlineClassifier(window=20_000, random_state=0),
        "LogisticRegression refitted to 20,000 rows": lambda: Refitted(LogisticRegression(max_iter=200), 20_000),
        "scikit-learn SGDClassifier": lambda: EveryChunk(
            SGDClassifier(loss="log_loss", random_state=0), classes=[0, 1]
        ),
        "River LogisticRegression": lambda: RowByRow(
            preprocessing.StandardScaler() | linear_model.LogisticRegression()
        ),
        "River HoeffdingAdaptiveTreeClassifier": lambda: RowByRow(tree.HoeffdingAdaptiveTreeClassifier(seed=0)),
        "River ARFClassifier": lambda: RowByRow(forest.ARFClassifier(seed=0)),
    }


def random_walk(n: int, seed: int = 7) -> Stream:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, (X * np.cumsum(rng.normal(size=(n, 5)), axis=0)).sum(axis=1) * 0.01 + rng.normal(size=n)


def abrupt(n: int, seed: int = 7) -> Stream:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    slopes = rng.normal(size=(4, 5))[np.arange(n) * 4 // n]
    return X, (X * slopes).sum(axis=1) + rng.normal(size=n)


def recurring(n: int, seed: int = 7) -> Stream:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    phase = 2 * np.pi * np.arange(n)[:, None] / 20_000
    return X, (X * np.cos(phase + np.arange(5))).sum(axis=1) + rng.normal(size=n)


def streams(form: Form) -> dict[str, Stream]:
    n = form.choose(tiny=1_000, quick=20_000, full=60_000)
    found = {"random walk": random_walk(n), "abrupt": abrupt(n), "recurring": recurring(n)}
    if form.name == "tiny":
        return dict(list(found.items())[:1])
    real: dict[str, Any] = dict(loaded(("flights", "diamonds"), targets=True))
    if "flights" in real:
        found["flights, in time"] = real["flights"]
    found["Trump approval, in time"] = _of_river("TrumpApproval")
    for name, (X, y) in real.items():
        order = np.random.default_rng(5).permutation(len(X))[:n]
        found[f"{name}, random order"] = X[order], y[order]
    return found


def _of_river(name: str) -> Stream:
    from river import datasets as bundled

    rows = list(getattr(bundled, name)())
    X, y = np.array([list(x.values()) for x, _ in rows], dtype=float), np.array([y for _, y in rows], dtype=float)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def labelled_streams() -> dict[str, Stream]:
    X, y = datasets.load_regression("flights")
    late = (y > np.quantile(y, 1 - 0.237)).astype(int)
    X = np.delete(X, 0, axis=1)  # the delay at departure would tell
    order = np.random.default_rng(5).permutation(len(X))[:60_000]
    shipped = {f"{name}, in time": in_time.labelled(name) for name in in_time.FILES}
    return {
        **{name: stream for name, stream in shipped.items() if stream is not None},
        "flights late, in time": (X[:150_000], late[:150_000]),
        "flights late, random order": (X[order], late[order]),
    }


def measure(form: Form) -> Iterator[Study]:
    found = streams(form)
    yield table("regression", {name: of_regression(name, *stream) for name, stream in found.items()})
    if form.name != "tiny":
        found = labelled_streams()
        yield table("classification, log loss", {name: of_classes(name, *stream) for name, stream in found.items()})


def of_regression(name: str, X: Any, y: Any) -> dict[str, Any]:
    return of_stream(name, X, y, regressors(), squared, LinearRegression())


def of_classes(name: str, X: Any, y: Any) -> dict[str, Any]:
    return of_stream(name, X, y, classifiers(), logarithmic, LogisticRegression(max_iter=300))


def of_stream(stream: str, X: Any, y: Any, learners: Any, loss: Any, best: Any) -> dict[str, Any]:
    """Loss over that of the best single model, changes and rows a second of each learner."""
    hindsight = loss(best.fit(X, y), X, y)
    chunk = CHUNK if len(X) > 5_000 else 50
    scale, found = hindsight[chunk:].sum(), {}
    for name, make in learners.items():
        if len(X) > MOST_ROWS and ("Hoeffding" in name or "ARF" in name):
            continue
        total, changes, rate = followed(make(), X, y, loss, chunk)
        found[name] = (total / scale, changes, rate)
        print(stream, name, f"{total / scale:.4f} ({changes}) {rate:,.0f}", flush=True)
    return found


def table(title: str, found: dict[str, dict[str, Any]]) -> Study:
    """What was measured on each stream, as a table."""
    names = dict.fromkeys(name for results in found.values() for name in results)
    records = []
    for name in names:
        cells = {stream: followed_cell(*results[name][:2]) for stream, results in found.items() if name in results}
        rates = [results[name][2] for results in found.values() if name in results]
        records.append({"model": name, **cells, "rows/s": round(float(np.median(rates)))})
    return Study(f"Drifting streams: {title}", TEXT, ["model", *found, "rows/s"], records)


def followed(model: Any, X: Any, y: Any, loss: Any, chunk: int) -> tuple[float, int, float]:
    """Return the loss of all rows but the first chunk, the changes of the model, and rows a second of learning."""
    total, seconds = 0.0, 0.0
    for start in range(0, len(X), chunk):
        part = slice(start, start + chunk)
        if start:
            total += float(loss(model, X[part], y[part]).sum())
        begun = time.process_time()
        model.partial_fit(X[part], y[part])
        seconds += time.process_time() - begun
    return total, int(model.n_changes_), len(X) / seconds


def squared(model: Any, X: Any, y: Any) -> np.ndarray:
    return np.square(np.minimum(1e3, np.abs(np.asarray(model.predict(X)) - y)))


def logarithmic(model: Any, X: Any, y: Any) -> np.ndarray:
    shares = np.asarray(model.predict_proba(X))[np.arange(len(y)), y]
    return -np.log(np.clip(shares, 1e-15, 1.0))
