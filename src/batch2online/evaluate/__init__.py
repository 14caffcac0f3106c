"""Measuring online learners, any of them: regret against hindsight, model changes, average sensitivity."""

from typing import TYPE_CHECKING, Any

from batch2online.evaluate.audit import peeks
from batch2online.evaluate.losses import Absolute, ClusteringLoss, Loss, LowRankLoss, Predictions, Squared
from batch2online.evaluate.metrics import changed, label_churn, prediction_change, subspace_angle
from batch2online.evaluate.order_test import order_test
from batch2online.evaluate.orders import Adversarial, Blocks, Drifting, Given, Order, Random, Sorted
from batch2online.evaluate.prequential import prequential
from batch2online.evaluate.result import Curve, Outcome, Result
from batch2online.evaluate.sensitivity import Decay, SensitivityEstimate, average_sensitivity, sensitivity_decay

if TYPE_CHECKING:
    from batch2online.reference.figure import paper_figure

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
    """Return the figure brings all estimators and the paper's algorithms with it: imported on first use."""
    if name == "paper_figure":
        from batch2online.reference.figure import paper_figure

        return paper_figure
    raise AttributeError(f"module 'batch2online.evaluate' has no attribute {name!r}")
