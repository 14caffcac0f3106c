"""Models for other tools: :func:`scikit_learn`, :func:`onnx`, :func:`mlflow`.

Each takes the model in force out of an estimator; what comes out learns no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batch2online.export.mlflow_model import mlflow
    from batch2online.export.onnx_model import onnx
    from batch2online.export.scikit_learn_model import scikit_learn

__all__ = ["mlflow", "onnx", "scikit_learn"]


def __getattr__(name: str) -> Any:
    """Import on first use: each function needs a library of its own."""
    if name in __all__:
        return getattr(import_module(f"{__name__}.{name}_model"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
