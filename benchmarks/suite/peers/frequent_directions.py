"""Frequent Directions, a sketch of 4k rows."""

from __future__ import annotations

from typing import Any

from batch2online import baselines


def lowrank(k: int) -> dict[str, Any]:
    return {"Frequent Directions, 4k rows": baselines.FrequentDirections(k)}
