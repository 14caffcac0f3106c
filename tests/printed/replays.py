"""Streams through the public interface, with the answers of each model: what ``recompute`` needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from printed import recompute

PARAMETERS = ("coef_", "intercept_", "cluster_centers_", "components_", "feature_importances_")


@dataclass
class Case:
    """An estimator, the same as words of the command line, and what it minimises."""

    kind: str
    target: str | None
    make: Any
    words: str = ""
    k: int | None = None
    wraps: Any = None
    drop_first: bool = False


def _wrapped(kind, target, estimator, name):
    task = "regression" if kind == "squared" else "classification"
    words = f"--task {task} --estimator sklearn.{name}"
    return Case(kind, target, lambda **kw: BatchToOnline(estimator, **kw), words, wraps=estimator)


def _linear(kind, target, words, **settings):
    maker = OnlineClassifier if kind == "classes" else OnlineRegression
    return Case(kind, target, lambda **kw: maker(**settings, **kw), f"--task {words}", drop_first=True)


CASES = {
    "regression": _linear("squared", "y", "regression"),
    "poisson": _linear("poisson", "k", "regression --loss poisson", loss="poisson"),
    "quantile": _linear("quantile", "y", "regression --loss quantile --quantile 0.8", loss="quantile", quantile=0.8),
    "two classes": _linear("classes", "two", "classification"),
    "three classes": _linear("classes", "three", "classification"),
    "clusters": Case(
        "clusters", None, lambda **kw: OnlineClustering(3, history="coreset", **kw), "--task clustering --k 3", 3
    ),
    "subspace": Case("subspace", None, lambda **kw: OnlineLowRank(2, **kw), "--task lowrank --k 2", 2),
    "ridge": _wrapped("squared", "y", Ridge(), "linear_model.Ridge"),
    "tree": _wrapped(
        "squared", "y", DecisionTreeRegressor(max_depth=3), "tree.DecisionTreeRegressor --set max_depth=3"
    ),
    "logistic": _wrapped("classes", "two", LogisticRegression(), "linear_model.LogisticRegression"),
    "class tree": _wrapped(
        "classes", "three", DecisionTreeClassifier(max_depth=3), "tree.DecisionTreeClassifier --set max_depth=3"
    ),
}


@dataclass
class Replay:
    """A stream that was learned row by row: the models as their answers for all rows, and as parameters."""

    case: Case
    model: Any
    X: Any
    y: Any
    w: Any
    weighted: bool
    versions: list
    parameters: dict
    half_life: float = np.inf

    @property
    def answers(self):
        """The answer for each row of the model before it."""
        return recompute.stream(self.versions, recompute.so_far(self.case.kind, self.X, self.y, self.growing))

    @property
    def growing(self):
        """The weights of the rows with a half-life, beside that of the first row."""
        return self.w * 2 ** (np.arange(len(self.w)) / self.half_life)

    def until(self, rows):
        """Return the stream as it was after so many rows; the model stays the last one."""
        y = None if self.y is None else self.y[:rows]
        versions = [(at, answers[:rows]) for at, answers in self.versions if at <= rows]
        return Replay(
            self.case,
            self.model,
            self.X[:rows],
            y,
            self.w[:rows],
            self.weighted,
            versions,
            self.parameters,
            self.half_life,
        )


def answers_of(model, case, X, classes):
    """Return the answers of the current model as ``recompute`` reads them; a class that it does not know has 0."""
    if case.kind == "classes":
        out = np.zeros((len(X), len(classes)))
        known = getattr(model, "model_", model).classes_
        out[:, [list(classes).index(name) for name in known]] = model.predict_proba(X)
        return out
    if case.kind == "clusters":
        squares = ((X[:, None] - model.cluster_centers_) ** 2).sum(2)
        return np.c_[np.sqrt(squares.min(1)), model.predict(X)]
    if case.kind == "subspace":
        return ((X - model.inverse_transform(model.transform(X))) ** 2).sum(1)
    return model.predict(X)


def replay(case, X, y=None, weights=None, **settings):
    """Learn the rows one by one, and note each model: a change is where answers for any row differ."""
    model, versions, parameters, last = case.make(random_state=0, **settings), [], {}, None
    classes = recompute.codes(y)[1] if case.kind == "classes" else None
    w = np.ones(len(X)) if weights is None else weights
    for row in range(len(X)):
        rows = slice(row, row + 1)
        targets = () if y is None else (y[rows],)
        model.partial_fit(X[rows], *targets, **({} if weights is None else {"sample_weight": w[rows]}))
        if not model.has_model_:
            continue
        source = getattr(model, "model_", model)
        found = {name: np.array(getattr(source, name)) for name in PARAMETERS if hasattr(source, name)}
        flat = np.concatenate([each.ravel() for each in found.values()])
        if case.wraps is None and last is not None and np.array_equal(flat, last):
            continue  # the same numbers: no answers are needed
        answers = answers_of(model, case, X, classes)
        if not versions or not np.array_equal(answers, versions[-1][1]):
            versions.append((row + 1, answers))
            parameters[row + 1] = found | {"classes": getattr(source, "classes_", None)}
        last = flat
    if case.kind == "classes" and not case.wraps:  # a class that a model does not know is scored as half a row
        shares = [(at, 0.5 / (w[:at].sum() + 0.5)) for at, _ in versions]
        versions = [(at, np.where(a.any(0), a, share)) for (at, a), (_, share) in zip(versions, shares, strict=True)]
    return Replay(case, model, X, y, w, weights is not None, versions, parameters, settings.get("half_life", np.inf))
