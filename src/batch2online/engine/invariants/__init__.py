"""What must hold of an engine that comes out of a file. Importing this registers it."""

from batch2online.engine.invariants import engine

__all__ = ["engine"]
