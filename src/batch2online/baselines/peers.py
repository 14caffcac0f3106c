"""Learners to compare with ours, under common names: for ``batch2online compare`` and for the benchmarks.

A further one is a file in this folder with a tuple ``PEERS``, which is found by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from batch2online.baselines.other_losses import of_loss
from batch2online.baselines.peer import COMPARE, LOSS, OURS, SPEED, Peer, PeerSettings

__all__ = ["COMPARE", "LOSS", "OURS", "PEERS", "SPEED", "Peer", "PeerSettings", "learners", "named", "of_loss"]

_FIRST = ("ours", "gram", "refits")
_LAST = ("scikit_learn", "river")
"""Files whose peers are listed first and last; the others are in alphabetical order."""


def _found() -> tuple[Peer, ...]:
    """Return the peers of all files of this folder; one of several files serves the tasks of all of them."""
    files = {path.stem for path in Path(__file__).parent.glob("*.py")} - {"__init__", "peer", "peers"}
    listed = [*_FIRST, *sorted(files - {*_FIRST, *_LAST}), *_LAST]
    peers: dict[str, Peer] = {}
    for file in listed:
        for peer in getattr(import_module(f"batch2online.baselines.{file}"), "PEERS", ()):
            before = peers.get(peer.name)
            peers[peer.name] = peer if before is None else replace(before, makers={**before.makers, **peer.makers})
    return tuple(peers.values())


PEERS = _found()


def learners(
    task: str, settings: PeerSettings, shown: str, columns: int = 0, peers: Iterable[Peer] = PEERS
) -> dict[str, Any]:
    """Names and unfitted learners of a comparison, ours first.

    Learners that are not installed, or too slow for this number of columns, are omitted. ``batch2online compare`` makes
    our learner itself, from its settings.

    >>> list(learners("clustering", PeerSettings(k=3), COMPARE))[:2]
    ['refit on all rows at doublings', 'uniform sample of equal size']
    """
    return {
        peer.name: peer.make(task, settings)
        for peer in peers
        if task in peer.makers and shown in peer.shown and peer.is_installed
        if peer.most_columns is None or columns <= peer.most_columns
    }


def named(name: str) -> Peer:
    """Return the peer of a name.

    >>> named("scikit-learn SGDRegressor").make("regression")
    SGDRegressor()
    """
    return next(peer for peer in PEERS if peer.name == name)
