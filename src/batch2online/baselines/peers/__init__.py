"""Learners to stand beside ours, under one set of names: for ``batch2online compare`` and for the benchmarks."""

from batch2online.baselines.peers.of_loss import of_loss
from batch2online.baselines.peers.peer import COMPARE, LOSS, SPEED, Peer, Told
from batch2online.baselines.peers.registry import OURS, PEERS, learners, named

__all__ = ["COMPARE", "LOSS", "OURS", "PEERS", "SPEED", "Peer", "Told", "learners", "named", "of_loss"]
