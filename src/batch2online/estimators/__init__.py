"""scikit-learn faces of the engine: validation and naming, nothing else."""
