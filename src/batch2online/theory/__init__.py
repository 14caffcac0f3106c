"""Sizes and bounds, every constant in one place; and what they promise for a run, next to what it measured."""

from typing import TYPE_CHECKING, Any

from batch2online.theory.bounds import (
    allowed_regret,
    clustering_regret,
    clustering_sensitivity,
    every_step_regret,
    exact_stability,
    general_sensitivity,
    geometric_models,
    geometric_regret,
    lazy_regret,
    leverage_sensitivity,
    low_rank_regret,
    on_change_inconsistency,
    reaction,
    refresh_times,
    regression_regret,
    ridge_leverage_sensitivity,
)
from batch2online.theory.sizes import (
    FAILURE,
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
    from batch2online.theory.certificates import Certificate, certificate

__all__ = [
    "FAILURE",
    "Certificate",
    "allowed_regret",
    "certificate",
    "clustering_regret",
    "clustering_sensitivity",
    "clustering_size",
    "clustering_size_theory",
    "clustering_sizes",
    "every_step_regret",
    "exact_stability",
    "general_sensitivity",
    "geometric_models",
    "geometric_regret",
    "lazy_regret",
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
    "sampling_constant",
]


def __getattr__(name: str) -> Any:
    """Import certificates on first use: they look at estimators, and sizes and bounds lie below all of these."""
    if name in ("Certificate", "certificate"):
        from batch2online.theory import certificates

        return getattr(certificates, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
