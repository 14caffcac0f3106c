"""Fixtures for all tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def blocks_of(monkeypatch):
    """A function that sets the number of rows in a block, so that few rows fill many of them."""
    return lambda rows: monkeypatch.setattr("batch2online.core.blocks._BLOCK_ROWS", (rows,))
