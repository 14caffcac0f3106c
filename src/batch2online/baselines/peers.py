"""Learners to compare with ours, under common names: for ``batch2online compare`` and for the benchmarks.

A further one is a line in the table ``PEERS``; another package adds its own by the entry point ``batch2online.peers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, SGDClassifier, SGDRegressor

from batch2online.evaluate.peers.libraries import (
    LogisticOrConstant,
    RiverLogistic,
    Uncentred,
    WithClasses,
    passive_aggressive_classifier,
    passive_aggressive_regressor,
)
from batch2online.evaluate.peers.other_losses import of_loss
from batch2online.evaluate.peers.refits import STARTS, TINY, FollowTheLeader, Gram, KMeansRefits, Reservoir
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.linear_losses.estimator import OnlineClassifier
from batch2online.methods.low_rank.estimator import OnlineLowRank
from batch2online.paper.rivals.clustering import Consistent, MacQueen, WeightedSolutions
from batch2online.paper.rivals.low_rank import ExponentiatedGradient, FrequentDirections, Oja, SubspaceDescent
from batch2online.paper.rivals.low_sensitivity import LowSensitivity
from batch2online.paper.rivals.random_order import ProjectionDescent
from batch2online.paper.rivals.regression import Forward, GradientDescent, Ridge, StableDescent

__all__ = ["COMPARE", "LOSS", "OURS", "PEERS", "SPEED", "Peer", "PeerSettings", "learners", "named", "of_loss"]

OURS = "batch2online"
COMPARE, SPEED, LOSS = "compare", "speed", "loss"
"""Where peers are shown: by ``batch2online compare``, in tables of speed, in tables of loss."""

_LOSS, _COMPARE = frozenset({LOSS}), frozenset({COMPARE})
_MEASURED, _SCORED = frozenset({SPEED, LOSS}), frozenset({COMPARE, LOSS})
_EVERYWHERE = frozenset({COMPARE, SPEED, LOSS})

FEW, WIDE = 20_000, 500
"""Rows that learners which take one at a time are given where speed is measured, and columns they can cope with."""


@dataclass(frozen=True)
class PeerSettings:
    """Facts about the rows that a peer may use before it sees them.

    Attributes
    ----------
    k : clusters, the rank, or the number of classes; regression has none
    mean, spread : of all numbers; River draws its first centers from a normal distribution with these
    size : rows that a uniform sample may hold: as many as our coreset does, for a fair comparison
    """

    k: int = 0
    mean: float = 0.0
    spread: float = 1.0
    size: int = 1000


Maker = Callable[[PeerSettings], Any]
"""Makes an unfitted learner."""


@dataclass(frozen=True)
class Peer:
    """A learner to be compared with.

    Attributes
    ----------
    name : the one name that all tables use
    makers : for each task that it serves, a function that makes an unfitted learner
    shown : the comparisons that it takes part in
    package : what must be installed, if it is no requirement of ours
    most_rows : rows that a slow learner is given where speed is measured
    most_columns : columns beyond which it is too slow to be shown at all
    """

    name: str
    makers: Mapping[str, Maker]
    shown: frozenset[str]
    package: str | None = None
    most_rows: int | None = None
    most_columns: int | None = None

    @property
    def is_installed(self) -> bool:
        return self.package is None or find_spec(self.package) is not None

    def make(self, task: str, settings: PeerSettings | None = None) -> Any:
        """Return an unfitted learner for a task."""
        return self.makers[task](settings or PeerSettings())


def _k_means(given: PeerSettings) -> Any:
    return KMeans(given.k, n_init=STARTS)


def _k_means_refits(growth: float, warm_start: bool) -> dict[str, Maker]:
    return {"clustering": lambda given: KMeansRefits(given.k, growth, warm_start)}


def _river_k_means(halflife: float) -> dict[str, Maker]:
    def make(given: PeerSettings) -> Any:
        k_means = import_module("river.cluster").KMeans
        return k_means(n_clusters=given.k, halflife=halflife, mu=given.mean, sigma=given.spread)

    return {"clustering": make}


BATCH: dict[str, Maker] = {
    "regression": lambda given: LinearRegression(),
    "classification": lambda given: LogisticOrConstant(),
    "lowrank": lambda given: TruncatedSVD(given.k, algorithm="arpack"),
    "clustering": _k_means,
}
"""The batch algorithm of each task."""


def _of_batch(online: Callable[[Any, PeerSettings], Any]) -> dict[str, Maker]:
    """Return for each task a learner made of its batch algorithm."""

    def maker(batch: Maker) -> Maker:
        return lambda given: online(batch(given), given)

    return {task: maker(batch) for task, batch in BATCH.items()}


PEERS = (
    Peer(
        OURS,
        {
            "regression": lambda given: OnlineRegression(),
            "classification": lambda given: OnlineClassifier(),
            "lowrank": lambda given: OnlineLowRank(given.k),
            "clustering": lambda given: OnlineClustering(given.k),
        },
        _MEASURED,
    ),
    Peer(
        f'{OURS}, solve="coreset"',
        {
            "regression": lambda given: OnlineRegression(solve="coreset"),
            "lowrank": lambda given: OnlineLowRank(given.k, solve="coreset"),
        },
        _MEASURED,
    ),
    Peer(
        f'{OURS}, history="coreset"',
        {"clustering": lambda given: OnlineClustering(given.k, history="coreset")},
        _MEASURED,
    ),
    # refits on all rows, or on a uniform sample
    Peer(
        "exact refit at every chunk",
        {"regression": lambda given: Ridge(TINY), "lowrank": lambda given: Gram(given.k, growth=1.0)},
        _SCORED,
    ),
    Peer(
        "Gram matrix, solved at doublings",
        {"regression": lambda given: Gram(), "lowrank": lambda given: Gram(given.k)},
        _MEASURED,
    ),
    Peer(
        "refit on all rows at 10 % more",
        {"clustering": lambda given: FollowTheLeader(_k_means(given), growth=1.1)},
        _LOSS,
    ),
    Peer(
        "refit on all rows at doublings",
        _of_batch(lambda batch, given: FollowTheLeader(batch, growth=2.0)),
        _EVERYWHERE,
    ),
    Peer(
        "uniform sample of equal size",
        _of_batch(lambda batch, given: Reservoir(batch, size=given.size)),
        _SCORED,
    ),
    Peer("uniform reservoir of 1,000", _of_batch(lambda batch, given: Reservoir(batch)), _MEASURED),
    Peer("refit at doublings, labels matched", _k_means_refits(2.0, warm_start=False), _SCORED),
    Peer("refit every chunk, labels matched", _k_means_refits(1.0, warm_start=False), _SCORED),
    Peer("warm start at doublings", _k_means_refits(2.0, warm_start=True), _SCORED),
    Peer("warm start every chunk", _k_means_refits(1.0, warm_start=True), _SCORED),
    # related work of the paper
    Peer("MacQueen", {"clustering": lambda given: MacQueen(given.k)}, _SCORED),
    Peer("consistent k-clustering", {"clustering": lambda given: Consistent(given.k)}, _LOSS),
    Peer("weighted solutions", {"clustering": lambda given: WeightedSolutions(given.k)}, _LOSS),
    Peer("Frequent Directions, 4k rows", {"lowrank": lambda given: FrequentDirections(given.k)}, _EVERYWHERE),
    Peer("Oja, step 3", {"lowrank": lambda given: Oja(given.k, step=3)}, _LOSS),
    Peer("Oja, step 30", {"lowrank": lambda given: Oja(given.k, step=30)}, _SCORED),
    Peer("exponentiated gradient", {"lowrank": lambda given: ExponentiatedGradient(given.k)}, _LOSS, most_columns=WIDE),
    Peer(
        "online gradient descent",
        {"lowrank": lambda given: SubspaceDescent(given.k), "regression": lambda given: GradientDescent()},
        _LOSS,
        most_columns=WIDE,
    ),
    Peer("clustering of low sensitivity", {"clustering": lambda given: LowSensitivity(given.k)}, _LOSS),
    Peer("descent on projections", {"lowrank": lambda given: ProjectionDescent(given.k)}, _LOSS),
    Peer("online ridge", {"regression": lambda given: Ridge(1.0)}, _LOSS),
    Peer("forward algorithm, which sees a_t", {"regression": lambda given: Forward(1.0)}, _LOSS),
    Peer("stable gradient descent", {"regression": lambda given: StableDescent()}, _LOSS, most_columns=WIDE),
    # other libraries
    Peer("scikit-learn SGDRegressor", {"regression": lambda given: SGDRegressor()}, _EVERYWHERE),
    Peer(
        "scikit-learn SGDClassifier",
        {"classification": lambda given: WithClasses(SGDClassifier(loss="log_loss"), given.k)},
        _COMPARE,
    ),
    Peer(
        "scikit-learn Passive-Aggressive, by margins",
        {"classification": lambda given: WithClasses(passive_aggressive_classifier(), given.k)},
        _COMPARE,
    ),
    Peer("scikit-learn Passive-Aggressive", {"regression": lambda given: passive_aggressive_regressor()}, _COMPARE),
    Peer("scikit-learn SGDRegressor, eta0 0.05", {"regression": lambda given: SGDRegressor(eta0=0.05)}, _LOSS),
    # It centres its rows: a fair peer on centred ones, such as ``compare`` hands out.
    Peer("scikit-learn IncrementalPCA", {"lowrank": lambda given: IncrementalPCA(given.k)}, _COMPARE),
    Peer("scikit-learn IncrementalPCA, rows and negatives", {"lowrank": lambda given: Uncentred(given.k)}, _MEASURED),
    Peer(
        "scikit-learn MiniBatchKMeans",
        {"clustering": lambda given: MiniBatchKMeans(given.k, n_init=STARTS)},
        _EVERYWHERE,
    ),
    Peer(
        "River LinearRegression",
        {"regression": lambda given: import_module("river.linear_model").LinearRegression()},
        _EVERYWHERE,
        package="river",
        most_rows=FEW,
        most_columns=WIDE,
    ),
    Peer(
        "River LogisticRegression",
        {"classification": lambda given: RiverLogistic(given.k)},
        _COMPARE,
        package="river",
    ),
    Peer("River KMeans, halflife 0.1", _river_k_means(0.1), _LOSS, "river", FEW, WIDE),
    Peer("River KMeans, halflife 0.02", _river_k_means(0.02), _EVERYWHERE, "river", FEW, WIDE),
)


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
