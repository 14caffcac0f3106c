"""What must hold of everything that comes out of a file, class by class. Importing this registers it."""

from batch2online.engine.invariants import (
    anchors,
    constructions,
    engine,
    models,
    monitor,
    piloted,
    record,
    rows,
    statistics,
)

__all__ = ["anchors", "constructions", "engine", "models", "monitor", "piloted", "record", "rows", "statistics"]
