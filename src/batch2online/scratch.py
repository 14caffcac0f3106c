"""Room for intermediate results that is used again: memory that is asked for anew costs more than the arithmetic."""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import numpy as np

_LEAST, _MOST = 2**17, 2**22


class Scratch(threading.local):
    """Arrays by name, for each thread. What is in one is good until the name is asked for again."""

    def __init__(self) -> None:
        self.rooms: dict[tuple[str, str], Any] = {}

    def room(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
        """An array of this shape, with whatever was there before."""
        size, key = prod(shape), (name, np.dtype(dtype).char)
        room = self.rooms.get(key)
        if room is None or room.size < size:
            if size > _MOST:  # not to be held for ever
                return np.empty(shape, dtype=dtype)
            room = self.rooms[key] = np.empty(max(size, _LEAST), dtype=dtype)
        return room[:size].reshape(shape)


scratch = Scratch()
