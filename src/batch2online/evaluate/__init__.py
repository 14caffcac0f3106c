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

if TYPE_CHECKING:
    from batch2online.paper.figure import paper_figure
    from batch2online.paper.sensitivity import Decay, SensitivityEstimate, average_sensitivity, sensitivity_decay
    from batch2online.paper.theorems import theorem_figures

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


_IN_PAPER = {
    "Decay": "sensitivity",
    "SensitivityEstimate": "sensitivity",
    "average_sensitivity": "sensitivity",
    "paper_figure": "figure",
    "sensitivity_decay": "sensitivity",
    "theorem_figures": "theorems",
}


def __getattr__(name: str) -> Any:
    """Import what is of the paper on first use: it brings all estimators and the paper's algorithms with it."""
    if name in _IN_PAPER:
        return getattr(import_module(f"batch2online.paper.{_IN_PAPER[name]}"), name)
    raise AttributeError(f"module 'batch2online.evaluate' has no attribute {name!r}")
