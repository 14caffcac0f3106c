"""Sizes and bounds with all constants, and certificates that compare them with a run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from batch2online.theory.bounds import (
    allowed_regret,
    clustering_regret,
    clustering_sensitivity,
    coreset_excess,
    every_step_regret,
    exact_stability,
    general_sensitivity,
    geometric_models,
    geometric_regret,
    leverage_sensitivity,
    low_rank_regret,
    on_change_inconsistency,
    reaction,
    refresh_times,
    regression_regret,
    ridge_leverage_sensitivity,
    ridge_running_minimum_sensitivity,
    running_minimum_sensitivity,
    warm_start_regret,
)
from batch2online.theory.sizes import (
    FAILURE,
    HORIZON,
    adaptive_clustering_size,
    adaptive_constant,
    adaptive_epsilon,
    clustering_size,
    clustering_size_theory,
    clustering_sizes,
    leverage_constant,
    leverage_constant_theory,
    low_rank_size,
    regression_size,
    sampling_constant,
)

if TYPE_CHECKING:
    from batch2online.paper.certificates import Certificate, certificate

__all__ = [
    "FAILURE",
    "HORIZON",
    "Certificate",
    "adaptive_clustering_size",
    "adaptive_constant",
    "adaptive_epsilon",
    "allowed_regret",
    "certificate",
    "clustering_regret",
    "clustering_sensitivity",
    "clustering_size",
    "clustering_size_theory",
    "clustering_sizes",
    "coreset_excess",
    "every_step_regret",
    "exact_stability",
    "general_sensitivity",
    "geometric_models",
    "geometric_regret",
    "leverage_constant",
    "leverage_constant_theory",
    "leverage_sensitivity",
    "low_rank_regret",
    "low_rank_size",
    "on_change_inconsistency",
    "reaction",
    "refresh_times",
    "regression_regret",
    "regression_size",
    "ridge_leverage_sensitivity",
    "ridge_running_minimum_sensitivity",
    "running_minimum_sensitivity",
    "sampling_constant",
    "warm_start_regret",
]


def __getattr__(name: str) -> Any:
    """Import certificates on first use: they are part of the paper, sizes and bounds of the library."""
    if name in ("Certificate", "certificate"):
        return getattr(import_module("batch2online.paper.certificates"), name)
    raise AttributeError(f"module 'batch2online.theory' has no attribute {name!r}")
