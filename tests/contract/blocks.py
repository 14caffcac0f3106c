"""Small blocks, so that few rows fill many of them: the one place that knows where their size is set."""

from __future__ import annotations

from unittest.mock import patch


def blocks_of(*rows):
    """A context, or a decorator, in which blocks have this many rows; further numbers are for wider rows."""
    return patch("batch2online.rows._BLOCK_ROWS", rows)
