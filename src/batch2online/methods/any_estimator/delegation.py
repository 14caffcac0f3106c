"""Methods of a wrapper that are those of its current model, and are there only if the model has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.metaestimators import available_if

from batch2online.numerics.threads import one_openmp_thread


def if_model_has(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Offer a method only if the model has the one of this name, so that ``hasattr`` returns the same for both."""
    decorate: Callable[[Callable[..., Any]], Any] = available_if(lambda self: hasattr(self._model_or_estimator(), name))
    return decorate


def delegated(name: str, doc: str) -> Any:
    """Return the method of a wrapper that passes validated rows to the method of the current model."""

    @one_openmp_thread()
    def method(self: Any, X: Any) -> Any:
        return getattr(self.model_, name)(self._checked_rows(X))

    method.__name__, method.__doc__ = name, doc
    method.__qualname__ = f"BatchToOnline.{name}"
    return if_model_has(name)(method)
