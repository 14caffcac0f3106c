"""The peers: each serves the tasks it names, and names are one of a kind."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from batch2online.baselines.peers import COMPARE, LOSS, PEERS, SPEED, PeerSettings, learners, named
from batch2online.evaluate import prequential
from batch2online.evaluate.adapters import Adapter

LOSSES = {"regression": "squared", "lowrank": "lowrank", "clustering": "clustering"}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) * [3, 2, 1, 1]
Y = X @ [1.0, -1.0, 2.0, 0.5] + 1
PAIRS = [(peer, task) for peer in PEERS for task in peer.makers if task in LOSSES]
CLASSIFIERS = [peer for peer in PEERS if "classification" in peer.makers]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")  # gensim uses it
@pytest.mark.parametrize(("peer", "task"), PAIRS, ids=[f"{peer.name}-{task}" for peer, task in PAIRS])
def test_every_peer_learns_what_it_says(peer, task):
    if not peer.is_installed:
        pytest.skip(f"{peer.package} is not installed")
    model = peer.make(task, PeerSettings(k=2))
    with threadpool_limits(1):
        result = prequential(
            {"peer": model}, X, Y if task == "regression" else None, loss=LOSSES[task], seeds=1, chunk=50
        )
    (run,) = result.rows
    nothing = np.square(Y).sum() if task == "regression" else np.square(X).sum()
    assert run.loss < nothing


@pytest.mark.parametrize("peer", CLASSIFIERS, ids=[peer.name for peer in CLASSIFIERS])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_classifier_finds_the_classes(peer, classes):
    if not peer.is_installed:
        pytest.skip(f"{peer.package} is not installed")
    labels = np.digitize(Y, [1.0] if classes == 2 else [-4.0, 6.0]).astype(float)
    model = peer.make("classification", PeerSettings(k=classes))
    for start in range(0, len(X), 50):
        model.partial_fit(X[start : start + 50], labels[start : start + 50])
    found, shares = Adapter(model).probabilities(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (found[shares.argmax(axis=1)] == labels).mean() > 0.7


def test_names_are_unique_and_all_are_shown_somewhere():
    names = [peer.name for peer in PEERS]
    assert len(set(names)) == len(names)
    for peer in PEERS:
        assert named(peer.name) is peer
        assert set(peer.makers) <= {*LOSSES, "classification"}
        assert peer.shown
        assert peer.shown <= {COMPARE, SPEED, LOSS}


def test_what_is_missing_or_too_slow_is_left_out(monkeypatch):
    monkeypatch.setattr("batch2online.baselines.peers.find_spec", lambda name: None)
    assert not any("River" in name for name in learners("regression", PeerSettings(), COMPARE))
    monkeypatch.undo()
    narrow, wide = (learners("lowrank", PeerSettings(k=2), LOSS, columns) for columns in (10, 1_000))
    assert set(narrow) - set(wide) == {"exponentiated gradient", "online gradient descent"}
