"""Parameters of an estimator that has seen rows: they are changed for the next ``fit`` alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from sklearn.base import BaseEstimator


class Parameters(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The part of an estimator that takes new parameters."""

    __sklearn_is_fitted__: Callable[[], bool]
    _check_may_change: Callable[[], None]

    def set_params(self, **params: Any) -> Self:
        """Set parameters, for the next ``fit``.

        What was learned so far was learned with the former ones. So an estimator that has seen rows predicts as before,
        but refuses to learn on, to merge, to forget and to be saved until it is fitted anew or they are set back.
        """
        self._check_may_change()
        before = self.get_params(deep=True)
        super().set_params(**params)
        if self.__sklearn_is_fitted__():
            now = self.get_params(deep=True)
            former = {name: before.get(name) for name in params} | vars(self).get("_former", {})
            self._former = {name: value for name, value in former.items() if not _is_same(value, now.get(name))}
        return self

    def _check_settings(self) -> None:
        """Refuse to go on with other parameters than those that rows were learned with."""
        former = vars(self).get("_former")
        if former:
            names = ", ".join(sorted(former))
            raise ValueError(
                f"{names} was changed after rows were seen: call fit to begin anew with it, or set it back to go on."
            )


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same, as far as can be told."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except (TypeError, ValueError):
        return False
