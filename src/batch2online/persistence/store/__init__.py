"""Rows on disk: what was acknowledged survives, what is damaged is noticed, what is half done is undone."""

from batch2online.persistence.store.errors import StoreCorrupted, StoreError, StoreLocked
from batch2online.persistence.store.recovery import Recovery
from batch2online.persistence.store.store import Store

__all__ = ["Recovery", "Store", "StoreCorrupted", "StoreError", "StoreLocked"]
