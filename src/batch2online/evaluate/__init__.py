"""Evaluation of online learners of any library: regret against hindsight, model changes, average sensitivity."""

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
]


def __getattr__(name: str) -> Any:
    """Import the paper's experiment on first use: it brings all estimators and the paper's algorithms with it."""
    if name == "paper_figure":
        from batch2online.evaluate.paper import paper_figure

        return paper_figure
    raise AttributeError(f"module 'batch2online.evaluate' has no attribute {name!r}")
