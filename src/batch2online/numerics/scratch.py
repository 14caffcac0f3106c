"""Room for intermediate results that is used again: memory that is asked for anew costs more than the arithmetic."""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import numpy as np

_LEAST, _MOST = 2**17, 2**22
_VIEWS = 256

Shape = tuple[int, ...]


class Scratch(threading.local):
    """Arrays by name, for each thread. What is in one is good until the name is asked for again."""

    def __init__(self) -> None:
        self.rooms: dict[tuple[str, Any], Any] = {}
        self.views: dict[tuple[str, Shape, Any], Any] = {}

    def room(self, name: str, shape: Shape, dtype: Any = np.float64) -> Any:
        """Return an array of this shape, with whatever was there before."""
        view = self.views.get((name, shape, dtype))
        return self._new_view(name, shape, dtype) if view is None else view

    def _new_view(self, name: str, shape: Shape, dtype: Any) -> Any:
        size, room = prod(shape), self.rooms.get((name, dtype))
        if size > _MOST:  # not to be held for ever
            return np.empty(shape, dtype=dtype)
        if room is None or room.size < size or len(self.views) >= _VIEWS:
            self.views.clear()
        if room is None or room.size < size:
            room = self.rooms[name, dtype] = np.empty(max(size, _LEAST), dtype=dtype)
        view = self.views[name, shape, dtype] = room[:size].reshape(shape)
        return view


scratch = Scratch()
