"""The model in force as an ONNX graph. Needs the extra ``onnx``."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online.export.scikit_learn_model import scikit_learn


def onnx(model: Any, *, dtype: Any = np.float64) -> Any:
    """Return the model in force as an ONNX graph, by way of skl2onnx.

    Parameters
    ----------
    model : estimator
        One that has a model, see :func:`scikit_learn` for what it becomes.
    dtype : float64 or float32
        Of the rows that the graph takes. Their input is called ``X``.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` gives the bytes of a file. Classifiers give labels, then probabilities.
    """
    import skl2onnx

    fitted = scikit_learn(model)
    options = {id(fitted): {"zipmap": False}} if hasattr(fitted, "predict_proba") else None
    example = np.zeros((1, model.n_features_in_), dtype=dtype)
    return skl2onnx.to_onnx(fitted, example, options=options, target_opset=_OPSET)


_OPSET = 17
"""Read by every onnxruntime since 1.12."""
