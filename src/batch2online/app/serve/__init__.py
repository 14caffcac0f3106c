"""A service over HTTP: models in a folder that learn, predict and report (``batch2online serve``)."""
