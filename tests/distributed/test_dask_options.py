"""Every option on a cluster: the coreset of one machine, streams that merge, or a refusal.

The table names each parameter with values of it. A parameter that is not in it fails a test.
"""

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import HuberRegressor, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

import batch2online.dask as cluster
from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.refresh import Adaptive, Geometric
from dask_cases import same

N = 1_500
_RNG = np.random.default_rng(3)
X = _RNG.normal(size=(N, 3)) + 4 * np.eye(3)[_RNG.integers(0, 3, size=N)]
Y = np.exp(0.2 * X[:, 0] - 0.1 * X[:, 1] + 0.3 * _RNG.normal(size=N))  # positive, as some losses want it
LABELS = np.where(np.median(Y) < Y, "high", "low")
WEIGHTS = np.where(np.arange(N) % 11 == 0, 0.0, _RNG.exponential(size=N))
DOUBLING = Geometric(2.0)
POLICIES = (DOUBLING, Adaptive())
SHARED = {"first_id": [7], "keep_history": [True], "half_life": [400], "random_state": [5]}


def size(points, weights, targets=None):
    return weights * np.abs(points).sum(axis=1)


def one_in_n(n):
    return 1 / n


def share(points, weights, targets=None, summary=None):
    return size(points, weights) / summary


def total(points, weights, targets=None):
    return size(points, weights).sum()


SUMMED = coresets.Sensitivity(share, summary=total, total_score=1, coreset_size=200)

SETS = {
    OnlineRegression: ({}, {
        "loss": ["squared"], "alpha": [0.0], "epsilon": [0.2], "coreset_size": [100, "theory", "audit"],
        "refresh": POLICIES, "solve": ["exact", "coreset"], "fit_intercept": [False], "score_targets": [False],
        "columns": ["auto"], **SHARED,
    }),
    OnlineLowRank: ({"n_components": 2}, {
        "n_components": [1, 3], "center": [True], "epsilon": [0.2], "coreset_size": [100, "audit"],
        "refresh": POLICIES, "solve": ["exact", "coreset"], "basis": ["variance"], "columns": ["auto"], **SHARED,
    }),
    BatchToOnline: ({"estimator": Ridge(), "refresh": DOUBLING, "coreset": coresets.Leverage, "coreset_size": 200}, {
        "estimator": [DecisionTreeRegressor(max_depth=2), HuberRegressor()],
        "coreset": [coresets.Uniform, coresets.Leverage(intercept=True), coresets.RidgeLeverage(2), coresets.Everything,
                    coresets.Sensitivity(size, coreset_size=200)],
        "refresh": POLICIES[:2], "loss": ["absolute"], "resample": [True], "epsilon": [0.3],
        "coreset_size": [100], "memory": [10**6], "sensitivity": [one_in_n],
        "columns": ["auto"], **SHARED,
    }),
}  # fmt: skip
"""What is left as it is, and values of options with which the coreset is that of ``fit`` on one machine."""

STREAMS = {
    OnlineRegression: ({"coreset_size": 200, "alpha": 0.1}, {
        "loss": ["absolute", "huber", "quantile", "poisson", "gamma", "tweedie"], "alpha": [1.0], "l1_ratio": [0.5],
        "refresh": POLICIES[:2], "fit_intercept": [False], "epsilon": [0.2], **SHARED,
    }),
    OnlineClassifier: ({"coreset_size": 200}, {
        "alpha": [1.0], "l1_ratio": [0.5], "class_weight": [{"high": 2.0}, "balanced"], "epsilon": [0.3],
        "coreset_size": [None], "refresh": POLICIES[:2], "fit_intercept": [False], "columns": ["auto"], **SHARED,
    }),
    OnlineClustering: ({"n_clusters": 3, "coreset_size": 200}, {
        "n_clusters": [1, 5], "z": [1.0, 1.5, 3.0], "stages": [2], "history": ["memory", "coreset"], "epsilon": [0.2],
        "coreset_size": [None, "theory"], "refresh": POLICIES[:3], "solve": ["coreset"], "warm_start": [False],
        "churn_price": [0.0], "solver": [KMeans(3, n_init=1)], "columns": ["auto"],
        **{name: values for name, values in SHARED.items() if name != "keep_history"},
    }),
    BatchToOnline: ({
        "estimator": Ridge(), "refresh": DOUBLING, "coreset": coresets.PilotSampling, "coreset_size": 200
    }, {
        "coreset": [coresets.PilotSampling, SUMMED], "estimator": [LogisticRegression(), HuberRegressor()], **SHARED,
    }),
}  # fmt: skip
"""The same where each partition is a stream, and streams merge."""

BY_OTHER_OPTIONS = {
    (OnlineRegression, "quantile"): {"loss": "quantile", "quantile": 0.2},
    (OnlineRegression, "power"): {"loss": "tweedie", "power": 1.2},
    (OnlineRegression, "delta"): {"loss": "huber", "delta": 2.0},
    (BatchToOnline, "churn_price"): {"estimator": KMeans(3, n_init=1), "churn_price": 0.1},
    (BatchToOnline, "memory"): {"estimator": Ridge(), "memory": 10**5},
    (BatchToOnline, "estimator"): {"estimator": PCA(2)},
}
"""Options that count with others alone."""

REFUSED = {"window": (100, "not for a window"), "half_life": ("auto", 'not for half_life="auto"')}
NEEDED = {OnlineLowRank: {"n_components": 2}, BatchToOnline: {"estimator": Ridge()}}


def cells(table):
    return [
        pytest.param(
            kind, base | {option: value}, id=f"{kind.__name__}-{option}-{getattr(value, '__name__', str(value)[:30])}"
        )
        for kind, (base, options) in table.items()
        for option, values in options.items()
        for value in values
    ]


def other_cells():
    return [pytest.param(kind, own, id=f"{kind.__name__}-{option}") for (kind, option), own in BY_OTHER_OPTIONS.items()]


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def made(kind, settings):
    return kind(**{"random_state": 1} | settings)


def targets_of(model):
    if not model._needs_targets:
        return None
    is_classifier = isinstance(getattr(model, "estimator", model), OnlineClassifier | LogisticRegression)
    return LABELS if is_classifier else Y


def on_a_cluster(model, n_partitions, weights=None, seed=0):
    cuts = np.sort(np.random.default_rng(seed).integers(0, N + 1, size=n_partitions - 1))
    chunks = tuple(np.diff([0, *cuts, N]).tolist())
    y = targets_of(model)
    y = None if y is None else [dask.delayed(part) for part in np.split(y, cuts)]
    own = None if weights is None else [dask.delayed(part) for part in np.split(weights, cuts)]
    rows = da.from_array(X, chunks=(chunks, (3,)))
    return cluster.fit(model, [*rows.to_delayed().reshape(-1)], y, own)


def weights_for(settings):
    """Return weights, where weights are not what an option is about."""
    return None if "class_weight" in settings or "coreset" in settings else WEIGHTS


@pytest.mark.parametrize(("kind", "settings"), cells(SETS))
@pytest.mark.few(12)
def test_an_option_on_a_cluster_is_that_of_one_machine(kind, settings):
    weights, model = weights_for(settings), made(kind, settings)
    y = targets_of(model)
    expected = made(kind, settings).fit(X, *([] if y is None else [y]), sample_weight=weights)
    assert same(on_a_cluster(model, 7, weights), expected)


@pytest.mark.parametrize(("kind", "settings"), [*cells(STREAMS), *other_cells()])
@pytest.mark.few(12)
def test_an_option_is_taken_by_streams_that_merge(kind, settings):
    weights = weights_for(settings)
    found, again = (on_a_cluster(made(kind, settings), 7, weights) for _ in range(2))
    assert same(found, again)
    assert found.n_seen_ == (N if weights is None else np.count_nonzero(WEIGHTS))


@pytest.mark.parametrize("option", REFUSED)
@pytest.mark.parametrize("kind", [OnlineRegression, OnlineClassifier, OnlineLowRank, OnlineClustering, BatchToOnline])
def test_what_needs_an_order_is_refused(kind, option):
    value, message = REFUSED[option]
    with pytest.raises(ValueError, match=message):
        on_a_cluster(made(kind, NEEDED.get(kind, {}) | {option: value}), 2)


def test_every_option_is_in_the_table():
    for kind in (OnlineRegression, OnlineClassifier, OnlineLowRank, OnlineClustering, BatchToOnline):
        known = set(REFUSED) | {option for own, option in BY_OTHER_OPTIONS if own is kind}
        for table in (SETS, STREAMS):
            known |= set(table.get(kind, ({}, {}))[1])
        if kind is OnlineClustering:  # refused: shards keep no rows
            known.add("keep_history")
        assert set(made(kind, NEEDED.get(kind, {})).get_params(deep=False)) == known, kind


def test_a_single_partition_is_fitted_to_all_of_its_rows():
    model = made(OnlineClassifier, {"refresh": Geometric(2.0)})
    expected = made(OnlineClassifier, {"refresh": Geometric(2.0)}).fit(X, LABELS)
    assert same(cluster.fit(model, [dask.delayed(X)], [dask.delayed(LABELS)]), expected)
