"""The code that MLflow runs to serve a checkpoint; it is copied into the model's folder, so nothing is pickled."""

from typing import Any

from mlflow import models, pyfunc

import batch2online


class Served(pyfunc.PythonModel):  # type: ignore[misc, name-defined]  # MLflow has no types
    """A checkpoint of ours behind MLflow's ``predict``."""

    def load_context(self, context):  # type: ignore[no-untyped-def]  # MLflow reads hints as a schema
        """Load the checkpoint."""
        self.model: Any = batch2online.load(
            context.artifacts["checkpoint"], trusted=context.model_config.get("trusted")
        )

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        """Return predictions, or coordinates where the estimator transforms rows."""
        act = self.model.predict if hasattr(self.model, "predict") else self.model.transform
        return act(model_input)


models.set_model(Served())
