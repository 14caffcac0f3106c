"""scikit-learn's stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import SGDRegressor


def regression(k: int) -> dict[str, Any]:
    return {"scikit-learn SGDRegressor": SGDRegressor()}
