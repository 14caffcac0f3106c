"""What is called by :mod:`torture.interrupts`: estimators, constructions and models in files, and their states."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from batch2online import Durable, estimator
from batch2online.engine.builder import CoresetBuilder
from batch2online.storage.tree import encoded


def fast_place() -> str | None:
    """Return a place where syncing takes no time, if there is one: no power is lost here."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Subject:
    """Something that is called, and what can be said of its state."""

    share_going_on = 9
    """Of nine, so many learn something afterwards."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def state(self) -> bytes:
        return state_of(self.thing)

    def is_locked(self) -> bool:
        engine = vars(self.thing).get("_stream")
        return estimator._FIRST_CALLS._is_owned() or (engine is not None and engine.lock._is_owned())  # type: ignore[attr-defined]

    def look_again(self, how: int) -> None:
        """See whether others see the same."""

    def end(self) -> None:
        """Give back what it holds."""


def state_of(thing: Any) -> bytes:
    """All that an estimator or a construction is, in bytes."""
    if isinstance(thing, CoresetBuilder):
        return _bytes(thing)
    own = vars(thing)
    rest = {
        name: np.asarray(own[name]).tolist() for name in sorted(estimator.LEARNED - {"_stream", "_reader"} & own.keys())
    }
    return repr(rest).encode() + (_bytes(thing._state()) if "_stream" in own else b"nothing")


def _bytes(state: Any) -> bytes:
    text, arrays = encoded(state)
    return b"".join([text.encode(), *(str(a.shape).encode() + a.tobytes() for a in arrays)])


class DurableSubject(Subject):
    """A model in a file."""

    share_going_on = 3

    def __init__(self, make: Callable[[], Any], files: dict[str, bytes] | None = None) -> None:
        self.make, self.place = make, Path(tempfile.mkdtemp(prefix="durable-", dir=fast_place()))
        for name, content in (files or {}).items():
            (self.place / name).write_bytes(content)
        super().__init__(self.opened())

    def left_behind(self) -> dict[str, bytes]:
        """Die, and return the files."""
        self.thing._session.abandon()
        files = {path.name: path.read_bytes() for path in self.place.iterdir()}
        shutil.rmtree(self.place)
        return files

    def opened(self) -> Any:
        return Durable(self.place / "model", self.make(), durability="os", checkpoint_rows=9, trusted=True)

    def state(self) -> bytes:
        if not self.thing._session.database.is_open:  # a history on disk is in the file
            self.thing.close()
            self.thing = self.opened()
        return state_of(self.thing.model)

    def is_locked(self) -> bool:
        return self.thing._lock._is_owned() or Subject(self.thing.model).is_locked()

    def look_again(self, how: int) -> None:
        """Open the file anew: closed as usual, or left as a dying process leaves it."""
        if how % 3 == 0:
            return
        if how % 3 == 1 or self.thing._session.poison:
            self.thing.close()
        else:
            self.thing._session.abandon()
        self.thing = self.opened()

    def end(self) -> None:
        state = self.state()
        self.thing.close()
        with self.opened() as again:
            assert state_of(again.model) == state, "another state in the file at the end"
        assert [path.name for path in self.place.iterdir()] == ["model"]
        shutil.rmtree(self.place)
