"""A model that outlives its process."""

from __future__ import annotations

from batch2online.durable.durable import Durable

__all__ = ["Durable"]
