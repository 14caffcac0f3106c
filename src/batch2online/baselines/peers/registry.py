"""All peers. A further one is an entry here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, SGDRegressor

from batch2online.baselines.clustering import Consistent, MacQueen, WeightedSolutions
from batch2online.baselines.general import FollowTheLeader, Reservoir
from batch2online.baselines.low_rank import ExponentiatedGradient, FrequentDirections, Oja, SubspaceDescent
from batch2online.baselines.low_sensitivity import LowSensitivity
from batch2online.baselines.peers.birch import BirchThenKMeans
from batch2online.baselines.peers.classifiers import (
    LogisticOrConstant,
    PassiveAggressive,
    RiverLogistic,
    StochasticGradient,
)
from batch2online.baselines.peers.gram import TINY, GramRegression, GramSubspace
from batch2online.baselines.peers.of_loss import passive_aggressive_regressor
from batch2online.baselines.peers.peer import COMPARE, LOSS, SPEED, Peer, Told
from batch2online.baselines.peers.recursive_least_squares import RecursiveLeastSquares
from batch2online.baselines.peers.subspaces import Lsi, Uncentred
from batch2online.baselines.random_order import ProjectionDescent
from batch2online.baselines.regression import Forward, GradientDescent, Ridge
from batch2online.methods.clustering.estimator import OnlineClustering
from batch2online.methods.least_squares.estimator import OnlineRegression
from batch2online.methods.linear_losses.estimator import OnlineClassifier
from batch2online.methods.low_rank.estimator import OnlineLowRank

OURS = "batch2online"
MEASURED, EVERYWHERE = frozenset({SPEED, LOSS}), frozenset({COMPARE, SPEED, LOSS})
STARTS = 8
"""Starts of k-means: as many as our solver has."""
FEW, WIDE = 20_000, 500
"""Rows that learners which take one at a time are given where speed is measured, and columns they can cope with."""


def learners(task: str, told: Told, shown: str, columns: int = 0) -> dict[str, Any]:
    """Names and unfitted learners of a comparison, ours first.

    Those are left out that are not installed, or too slow for so many columns. ``batch2online compare`` makes
    our learner itself, from its settings.

    >>> list(learners("clustering", Told(k=3), COMPARE))[:2]
    ['refit on all rows at doublings', 'uniform sample of equal size']
    """
    return {
        peer.name: peer.make(task, told)
        for peer in PEERS
        if task in peer.makers and shown in peer.shown and peer.is_installed
        if peer.most_columns is None or columns <= peer.most_columns
    }


def named(name: str) -> Peer:
    """Return the peer of a name.

    >>> named("scikit-learn SGDRegressor").make("regression")
    SGDRegressor()
    """
    return next(peer for peer in PEERS if peer.name == name)


def _least_squares(_: Told) -> Any:
    return LinearRegression()


def _logistic(_: Told) -> Any:
    return LogisticOrConstant()


def _svd(told: Told) -> Any:
    return TruncatedSVD(told.k, algorithm="arpack")


def _k_means(told: Told) -> Any:
    return KMeans(told.k, n_init=STARTS)


def _river_k_means(told: Told, halflife: float) -> Any:
    k_means = import_module("river.cluster").KMeans
    return k_means(n_clusters=told.k, halflife=halflife, mu=told.mean, sigma=told.spread)


BATCH = {"regression": _least_squares, "classification": _logistic, "lowrank": _svd, "clustering": _k_means}
"""The batch algorithm of each task."""

PEERS = (
    Peer(
        OURS,
        {
            "regression": lambda told: OnlineRegression(),
            "classification": lambda told: OnlineClassifier(),
            "lowrank": lambda told: OnlineLowRank(told.k),
            "clustering": lambda told: OnlineClustering(told.k),
        },
        MEASURED,
    ),
    Peer(
        f'{OURS}, solve="coreset"',
        {
            "regression": lambda told: OnlineRegression(solve="coreset"),
            "lowrank": lambda told: OnlineLowRank(told.k, solve="coreset"),
        },
        MEASURED,
    ),
    Peer(
        f'{OURS}, history="coreset"',
        {"clustering": lambda told: OnlineClustering(told.k, history="coreset")},
        MEASURED,
    ),
    Peer(
        "exact refit at every chunk",
        {"regression": lambda told: Ridge(TINY), "lowrank": lambda told: GramSubspace(told.k, growth=1.0)},
        frozenset({COMPARE, LOSS}),
    ),
    Peer(
        "refit on all rows at 10 % more",
        {"clustering": lambda told: FollowTheLeader(_k_means(told), growth=1.1)},
        frozenset({LOSS}),
    ),
    Peer(
        "refit on all rows at doublings",
        {
            task: lambda told, batch=batch: FollowTheLeader(batch(told), growth=2.0)  # type: ignore[misc]
            for task, batch in BATCH.items()
        },
        EVERYWHERE,
    ),
    Peer(
        "Gram matrix, solved at doublings",
        {"regression": lambda told: GramRegression(), "lowrank": lambda told: GramSubspace(told.k)},
        MEASURED,
    ),
    Peer(
        "uniform sample of equal size",
        {
            task: lambda told, batch=batch: Reservoir(batch(told), size=told.size)  # type: ignore[misc]
            for task, batch in BATCH.items()
        },
        frozenset({COMPARE, LOSS}),
    ),
    Peer(
        "uniform reservoir of 1,000",
        {task: lambda told, batch=batch: Reservoir(batch(told)) for task, batch in BATCH.items()},  # type: ignore[misc]
        MEASURED,
    ),
    Peer("online ridge", {"regression": lambda told: Ridge(1.0)}, frozenset({LOSS})),
    Peer("forward algorithm, which sees a_t", {"regression": lambda told: Forward(1.0)}, frozenset({LOSS})),
    Peer(
        "recursive least squares, row by row",
        {"regression": lambda told: RecursiveLeastSquares()},
        frozenset({SPEED}),
        most_rows=FEW,
    ),
    Peer("Frequent Directions, 4k rows", {"lowrank": lambda told: FrequentDirections(told.k)}, EVERYWHERE),
    Peer("Oja, step 3", {"lowrank": lambda told: Oja(told.k, step=3)}, frozenset({LOSS})),
    Peer("Oja, step 30", {"lowrank": lambda told: Oja(told.k, step=30)}, frozenset({COMPARE, LOSS})),
    Peer(
        "exponentiated gradient",
        {"lowrank": lambda told: ExponentiatedGradient(told.k)},
        frozenset({LOSS}),
        most_columns=WIDE,
    ),
    Peer(
        "online gradient descent",
        {"regression": lambda told: GradientDescent(), "lowrank": lambda told: SubspaceDescent(told.k)},
        frozenset({LOSS}),
        most_columns=WIDE,
    ),
    Peer("descent on projections", {"lowrank": lambda told: ProjectionDescent(told.k)}, frozenset({LOSS})),
    Peer("MacQueen", {"clustering": lambda told: MacQueen(told.k)}, frozenset({COMPARE, LOSS})),
    Peer("consistent k-clustering", {"clustering": lambda told: Consistent(told.k)}, frozenset({LOSS})),
    Peer("clustering of low sensitivity", {"clustering": lambda told: LowSensitivity(told.k)}, frozenset({LOSS})),
    Peer("weighted solutions", {"clustering": lambda told: WeightedSolutions(told.k)}, frozenset({LOSS})),
    Peer("scikit-learn SGDRegressor", {"regression": lambda told: SGDRegressor()}, EVERYWHERE),
    Peer(
        "scikit-learn SGDClassifier", {"classification": lambda told: StochasticGradient(told.k)}, frozenset({COMPARE})
    ),
    Peer(
        "scikit-learn Passive-Aggressive, by margins",
        {"classification": lambda told: PassiveAggressive(told.k)},
        frozenset({COMPARE}),
    ),
    Peer(
        "scikit-learn Passive-Aggressive",
        {"regression": lambda told: passive_aggressive_regressor()},
        frozenset({COMPARE}),
    ),
    Peer(
        "scikit-learn SGDRegressor, eta0 0.05", {"regression": lambda told: SGDRegressor(eta0=0.05)}, frozenset({LOSS})
    ),
    # It centres its rows: a fair rival on centred ones, such as ``compare`` hands out.
    Peer("scikit-learn IncrementalPCA", {"lowrank": lambda told: IncrementalPCA(told.k)}, frozenset({COMPARE})),
    Peer("scikit-learn IncrementalPCA, rows and negatives", {"lowrank": lambda told: Uncentred(told.k)}, MEASURED),
    Peer(
        "scikit-learn MiniBatchKMeans", {"clustering": lambda told: MiniBatchKMeans(told.k, n_init=STARTS)}, EVERYWHERE
    ),
    Peer(
        "scikit-learn Birch, then k-means",
        {"clustering": lambda told: BirchThenKMeans(told.k)},
        frozenset({SPEED}),
        most_rows=FEW,  # it slows down as its tree grows
    ),
    Peer("gensim LsiModel", {"lowrank": lambda told: Lsi(told.k)}, frozenset({SPEED}), package="gensim"),
    Peer(
        "River LinearRegression",
        {"regression": lambda told: import_module("river.linear_model").LinearRegression()},
        EVERYWHERE,
        package="river",
        most_rows=FEW,
        most_columns=WIDE,
    ),
    Peer(
        "River LogisticRegression",
        {"classification": lambda told: RiverLogistic(told.k)},
        frozenset({COMPARE}),
        package="river",
    ),
    *(
        Peer(
            f"River KMeans, halflife {halflife}",
            {"clustering": lambda told, halflife=halflife: _river_k_means(told, halflife)},  # type: ignore[misc]
            shown,
            package="river",
            most_rows=FEW,
            most_columns=WIDE,
        )
        for halflife, shown in ((0.1, frozenset({LOSS})), (0.02, EVERYWHERE))
    ),
)
