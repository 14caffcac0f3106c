"""An estimator as a model of MLflow. Needs the extra ``mlflow``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import batch2online


def mlflow(model: Any, path: str | Path, *, trusted: Any = None, **settings: Any) -> None:
    """Write an estimator as a model in MLflow's form, which ``mlflow.pyfunc.load_model`` reads.

    Parameters
    ----------
    model : estimator
        Any of ours. It is stored as its own checkpoint, so ``batch2online.load`` can go on with it as well.
    path : path
        A folder that does not exist yet.
    trusted : None, True or list of str
        What :func:`batch2online.load` may build when the model is loaded.
    **settings
        Further arguments of ``mlflow.pyfunc.save_model``.
    """
    from mlflow import pyfunc

    with TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "model.b2o"
        model.save(checkpoint)
        pyfunc.save_model(
            str(path),
            python_model=str(Path(__file__).with_name("served.py")),
            artifacts={"checkpoint": str(checkpoint)},
            model_config={"trusted": trusted},
            **{"pip_requirements": [f"batch2online=={batch2online.__version__}"], **settings},
        )
