"""An estimator as a model of MLflow. Needs the extra ``mlflow``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import batch2online

SERVED = '''"""Serve a checkpoint of batch2online."""

from mlflow import models, pyfunc

import batch2online


class Served(pyfunc.PythonModel):
    def load_context(self, context):
        settings = context.model_config
        path, trusted, refit = context.artifacts["checkpoint"], settings.get("trusted"), settings.get("refit", False)
        self.model = batch2online.load(path, trusted=trusted, refit=refit)

    def predict(self, context, model_input, params=None):
        act = self.model.predict if hasattr(self.model, "predict") else self.model.transform
        return act(model_input)


models.set_model(Served())
'''
"""The code that MLflow copies into the model's folder and runs to serve it: nothing is pickled."""


def mlflow(model: Any, path: str | Path, *, trusted: Any = None, refit: bool = False, **settings: Any) -> None:
    """Write an estimator as a model in MLflow's form, which ``mlflow.pyfunc.load_model`` reads.

    Parameters
    ----------
    model : estimator
        Any of ours. It is stored as its own checkpoint, so ``batch2online.load`` can go on with it as well.
    path : path
        A folder that does not exist yet.
    trusted : None, True or list of str
        What :func:`batch2online.load` may build when the model is loaded.
    refit : bool
        Whether it may fit the estimator again then.
    **settings
        Further arguments of ``mlflow.pyfunc.save_model``.
    """
    from mlflow import pyfunc

    with TemporaryDirectory() as folder:
        checkpoint, code = Path(folder) / "model.b2o", Path(folder) / "served.py"
        model.save(checkpoint)
        code.write_text(SERVED, encoding="utf-8")
        pyfunc.save_model(
            str(path),
            python_model=str(code),
            artifacts={"checkpoint": str(checkpoint)},
            model_config={"trusted": trusted, "refit": refit},
            **{"pip_requirements": [f"batch2online=={batch2online.__version__}"], **settings},
        )
