"""Checks that every online estimator and every coreset passes, yours included.

:func:`check_estimator` and :func:`check_sketch` feed small streams and compare: the result must not depend on how rows
are cut into chunks or shards, copies and files must continue bit for bit, bad values must be refused with their row and
column, an error must leave the state as it was, and losses, costs, fits and optimum of a problem must agree with each
other. scikit-learn's own checks (:func:`sklearn.utils.estimator_checks.check_estimator`) are separate; run both.

>>> from batch2online import OnlineRegression
>>> from batch2online.checks import check_estimator
>>> check_estimator(OnlineRegression(), only=["chunks_do_not_matter", "the_seed_decides"])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sklearn.base import clone, is_classifier, is_regressor

from batch2online.checks.case import BLOCK, Case, Check, failing_on_call, refuses, small_blocks, state, with_value
from batch2online.checks.of_estimators import estimator_checks
from batch2online.checks.of_problems import problem_checks
from batch2online.checks.of_sketches import sketch_checks

__all__ = [
    "BLOCK",
    "Case",
    "check_estimator",
    "check_sketch",
    "estimator_checks",
    "failing_on_call",
    "problem_checks",
    "refuses",
    "sketch_checks",
    "small_blocks",
    "state",
    "with_value",
]


def check_estimator(
    estimator: Any, *, targets: str | None = None, only: Iterable[str] | None = None, **known: Any
) -> None:
    """Raise AssertionError, with the name of the check, if an online estimator breaks a promise of the package.

    Parameters
    ----------
    estimator : OnlineEstimator
        The estimator, with the settings to be checked; it is cloned.
    targets : str, optional
        Which targets it is shown, see :class:`Case`; labels for classifiers and numbers for regressors by default.
    only : iterable of str, optional
        Names of checks, if not all are to run; they are the keys of ``sketch_checks`` and ``estimator_checks``.
    **known
        Further attributes of :class:`Case`: what the estimator does not offer, and whether its shards merge exactly.
    """

    def make(**settings: Any) -> Any:
        return clone(estimator).set_params(**settings)

    kind = "labels" if is_classifier(estimator) else "numbers" if is_regressor(estimator) else "none"
    _check(Case(make, targets or kind, **known), estimator_checks | sketch_checks, only)


def check_sketch(
    make: Callable[..., Any], *, targets: str = "none", only: Iterable[str] | None = None, **known: Any
) -> None:
    """Raise AssertionError, with the name of the check, if a coreset breaks a promise of the package.

    Parameters
    ----------
    make : callable
        A coreset's class, or a function that returns a new one; see :class:`Case`.
    targets, only, **known
        As for :func:`check_estimator`.

    Examples
    --------
    >>> from batch2online.coresets import Uniform
    >>> check_sketch(Uniform, targets="numbers", only=["shards_merged_in_any_order_are_one_stream"])
    """
    if not callable(make):
        raise TypeError(f"make must be the class of a coreset or a function that returns one, got {make!r}.")
    _check(Case(make, targets, **known), sketch_checks, only)


def _check(case: Case, checks: Mapping[str, Check], only: Iterable[str] | None) -> None:
    names = list(checks) if only is None else list(only)
    unknown = [name for name in names if name not in checks]
    if unknown:
        raise ValueError(f"unknown checks: {unknown}; known are {sorted(checks)}.")
    with small_blocks(BLOCK):
        for name in names:
            try:
                checks[name](case)
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error
