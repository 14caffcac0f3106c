"""The types that a file may hold without being trusted, and those that a caller adds.

Loading fits nothing. Scikit-learn's classes on this list keep numbers and nothing else, and fitting one later, when
the caller asks for that or learns further rows, takes time in proportion to the rows if the parameters are within the
limits below. A file that asks for more is refused, unless the caller trusts it: parameters can ask for any amount of
work, and compiled parts of a fitted model (trees, for one) check none of their numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

from batch2online.estimator import Trusted

_HARMLESS = {
    "cluster": ("KMeans",),
    "decomposition": ("PCA", "TruncatedSVD"),
    "dummy": ("DummyClassifier", "DummyRegressor"),
    "linear_model": (
        "BayesianRidge",
        "ElasticNet",
        "GammaRegressor",
        "HuberRegressor",
        "Lasso",
        "LinearRegression",
        "LogisticRegression",
        "PoissonRegressor",
        "Ridge",
        "RidgeClassifier",
        "SGDClassifier",
        "SGDRegressor",
        "TweedieRegressor",
    ),
    "mixture": ("GaussianMixture",),
    "naive_bayes": ("GaussianNB",),
    "pipeline": ("Pipeline",),
    "preprocessing": ("MaxAbsScaler", "MinMaxScaler", "StandardScaler"),
    "svm": ("LinearSVC", "LinearSVR"),
    "tree": ("DecisionTreeClassifier", "DecisionTreeRegressor"),
}

_COMPILED = ("DecisionTreeClassifier", "DecisionTreeRegressor")
"""Harmless to fit, but compiled code does not check the numbers of a fitted one."""

_LARGEST, _LARGEST_WORK, _LONGEST = 10_000, 10_000, 100
_WORK = ("max_iter", "n_init", "n_iter")
_FREE = ("random_state",)


@dataclass(frozen=True)
class Trust:
    """The types that may come out of a file, by their full names; None stands for all."""

    names: frozenset[str] | None = frozenset()

    @classmethod
    def of(cls, trusted: Trusted) -> Trust:
        """Return the argument ``trusted`` of ``load`` as a set of names."""
        if trusted is True:
            return cls(None)
        if isinstance(trusted, str) or not all(isinstance(name, str) for name in trusted or ()):
            raise TypeError(f"trusted must be None, True or a list of the names of types, got {trusted!r}.")
        return cls(frozenset(trusted or ()))

    def covers(self, name: str) -> bool:
        return self.names is None or name in self.names


@cache
def harmless() -> dict[str, type]:
    """Return the classes of the list, by their public names."""
    found: dict[str, type] = {}
    for package, names in _HARMLESS.items():
        module = import_module(f"sklearn.{package}")
        found |= {f"sklearn.{package}.{name}": getattr(module, name) for name in names}
    return found


@cache
def harmless_fitted() -> frozenset[str]:
    """Full names of the types that may be in a fitted model."""
    own = (cls for cls in harmless().values() if cls.__name__ not in _COMPILED)
    return frozenset(f"{cls.__module__}.{cls.__qualname__}" for cls in own)


def public_name(module: str, name: str) -> str:
    """Where a class can be imported from in any version: without private modules."""
    return ".".join([part for part in module.split(".") if not part.startswith("_")] + [name])


def is_modest(params: dict[str, Any]) -> bool:
    """Whether the work that these parameters request is proportional to the rows."""
    work = prod(value for name, value in params.items() if name in _WORK and type(value) is int and value > 0)
    are_small = all(_is_small(value) for name, value in params.items() if name not in _FREE)
    n_jobs = params.get("n_jobs")
    has_cores = not isinstance(n_jobs, int) or abs(n_jobs) <= (os.cpu_count() or 1)
    return work <= _LARGEST_WORK and are_small and has_cores


def _is_small(value: Any) -> bool:
    if isinstance(value, int | str):
        return abs(value) <= _LARGEST if isinstance(value, int) else len(value) <= _LONGEST
    if isinstance(value, list | tuple):
        return len(value) <= _LONGEST and all(map(_is_small, value))
    return True  # numbers, and estimators, which are checked by themselves
