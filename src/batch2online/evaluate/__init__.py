"""Evaluation of online learners of any library: regret against hindsight, model changes, average sensitivity."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from batch2online.evaluate.loop import peeks
from batch2online.evaluate.losses import (
    Absolute,
    ClusteringLoss,
    Loss,
    LowRankLoss,
    Predictions,
    Squared,
    changed,
    label_churn,
    prediction_change,
    subspace_angle,
)
from batch2online.evaluate.orders import Adversarial, Blocks, Drifting, Given, Order, Random, Sorted, order_test
from batch2online.evaluate.prequential import prequential
from batch2online.evaluate.result import Curve, Outcome, Result
from batch2online.evaluate.sensitivity import Decay, SensitivityEstimate, average_sensitivity, sensitivity_decay

if TYPE_CHECKING:
    from batch2online.evaluate.paper import paper_figure
    from batch2online.evaluate.theorems import theorem_figures

__all__ = [
    "Absolute",
    "Adversarial",
    "Blocks",
    "ClusteringLoss",
    "Curve",
    "Decay",
    "Drifting",
    "Given",
    "Loss",
    "LowRankLoss",
    "Order",
    "Outcome",
    "Predictions",
    "Random",
    "Result",
    "SensitivityEstimate",
    "Sorted",
    "Squared",
    "average_sensitivity",
    "changed",
    "label_churn",
    "order_test",
    "paper_figure",
    "peeks",
    "prediction_change",
    "prequential",
    "sensitivity_decay",
    "subspace_angle",
    "theorem_figures",
]


_HOMES = {"paper_figure": "paper", "theorem_figures": "theorems"}


def __getattr__(name: str) -> Any:
    """Import the paper's experiments on first use: they bring all estimators and the paper's algorithms with them."""
    if name in _HOMES:
        return getattr(import_module(f"batch2online.evaluate.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'batch2online.evaluate' has no attribute {name!r}")
