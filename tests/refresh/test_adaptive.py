"""The policy that allows a present model what chance alone may explain."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import batch2online
from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression, theory
from batch2online.methods.any_estimator.models import degrees_of
from batch2online.methods.clustering.problem import ClusteringProblem
from batch2online.refresh import Adaptive, Geometric
from streams import stream

FALSE_ALARM = 1e-6
LOOKS = range(100, 4_100)
N = 6_000


def shares(policy, noise=0.01, seed=3):
    return np.array([policy.cost_tolerance(seed, at, noise) - 1 for at in LOOKS])


def is_log_uniform(values, most):
    """Whether values may be drawn log-uniformly between half of ``most`` and ``most``."""
    return stats.kstest(-np.log2(values / most), "uniform").pvalue > FALSE_ALARM


# -- the threshold ------------------------------------------------------------------------------------------


def test_the_threshold_is_log_uniform_between_half_and_all_that_is_allowed():
    assert is_log_uniform(shares(Adaptive(kappa=3.0)), 0.03)


def test_a_threshold_of_another_law_is_convicted():
    uniform = 0.03 * (1 + np.random.default_rng(0).random(len(LOOKS))) / 2
    assert not is_log_uniform(uniform, 0.03)


def test_a_floor_is_what_is_allowed_at_least():
    low, high = shares(Adaptive(floor=0.05)), shares(Adaptive(floor=0.001))
    assert low / shares(Adaptive()) == pytest.approx(0.05 / 0.02)
    assert (high == shares(Adaptive())).all()


def test_thresholds_belong_to_the_seed_and_the_row_count():
    one, same, other = (shares(Adaptive(), seed=seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.1


def test_changes_say_what_was_allowed():
    X, y = stream("heavy_tailed", N)
    for model, degrees in ((OnlineRegression, X.shape[1] + 1), (OnlineLowRank, 2), (OnlineClustering, 8)):
        learned = model(refresh=Adaptive(kappa=1.5), random_state=0).partial_fit(X, y)
        assert learned.n_changes_ > 3
        for event in learned.changes_:
            assert 0.5 <= event.tolerance * event.at / (1.5 * degrees) <= 1
            assert event.cost_before > (1 + event.tolerance) * event.cost_after


# -- looks that are left out --------------------------------------------------------------------------------------


def solves_of(model, X):
    """Row counts at which the model was solved, of looks at 100, 200, 400, ..."""
    at = []

    def fit(problem, data, current):
        at.append(data.totals.n_rows)
        return original(problem, data, current)

    original = ClusteringProblem.fit
    with patch.object(ClusteringProblem, "fit", fit):
        model.partial_fit(X)
    return at


def doubling(floor, kappa=0.5):
    policy = Adaptive(kappa=kappa, growth=2.0, floor=floor, start=100)
    return OnlineClustering(2, refresh=policy, coreset_size=50_000, random_state=0)


def two_clusters(n):
    """Two clusters of rows that cost 1, in turns, so that any multiple of four has its means at the middles."""
    return np.tile([[0.0, 1.0], [0.0, -1.0], [20.0, 1.0], [20.0, -1.0]], (n // 4, 1))


def test_looks_are_left_out_where_little_is_to_be_gained():
    """Two clusters: a model of n rows gains 2 (1 / s - 1 / n) by chance next to one of s."""
    X, looks = two_clusters(13_000), [100 * 2**j for j in range(8)]
    assert solves_of(doubling(0.0), X) == looks
    assert solves_of(doubling(2.01 / 1600), X) == [100, 200, 400, 800, 3200]
    assert solves_of(doubling(1.99 / 1600), X) == [100, 200, 400, 800, 1600, 12_800]


def test_a_look_is_due_when_rows_have_multiplied_by_eight():
    assert solves_of(doubling(0.9), two_clusters(13_000)) == [100, 800, 6400]


def test_every_second_look_is_left_out_where_less_than_what_is_allowed_is_to_be_gained():
    """After s rows another s gain 2 / (2 s) by chance, and kappa 2 / (2 s) is allowed; three times s gain too much."""
    assert solves_of(doubling(1e-9, kappa=1.01), two_clusters(7_000)) == [100, 400, 1600, 6400]
    assert solves_of(doubling(1e-9, kappa=0.99), two_clusters(1_700)) == [100, 200, 400, 800, 1600]


def test_looks_that_stay_are_the_same_wherever_others_were_left_out():
    """Rows that cost more bring a look at 200; those at 400 and 1600 stay, and every second one is left out again."""
    X = two_clusters(1_700)
    X[100:200, 1] *= 1.1
    assert solves_of(doubling(1e-9, kappa=1.2), X) == [100, 200, 400, 1600]


@pytest.mark.parametrize(("factor", "solves"), [(1.048, [100, 800]), (1.052, [100, 200, 1600])])
def test_no_look_is_left_out_when_rows_begin_to_cost_more(factor, solves):
    """A model of 100 rows costs others like them some 4 % more than these; a hundredth more is reason for a look."""
    X = two_clusters(1_600)
    X[100:200, 1] *= np.sqrt(factor)
    assert solves_of(doubling(0.9), X) == solves


def test_no_look_is_left_out_where_few_rows_hold_most_of_the_loss():
    """One row in 100 costs as much as all others; what the first rows say of that is not asked."""
    X = two_clusters(3_300)
    X[::100, 1] *= 10.0
    assert solves_of(doubling(1e-9, kappa=1.01), X) == [100, 400, 800, 1600, 3200]


@pytest.mark.parametrize("settings", [{"half_life": 500}, {"window": 500}], ids=str)
def test_no_look_is_left_out_where_rows_fade(settings):
    X = np.random.default_rng(0).normal(size=(3_000, 2))
    plain, floored = (
        OnlineClustering(2, refresh=Adaptive(floor=floor, start=100), random_state=0, **settings).partial_fit(X)
        for floor in (0.0, 1e-9)
    )
    assert [event.at for event in plain.changes_] == [event.at for event in floored.changes_]
    assert floored._stream.current.refresh.last_fit is None


# -- a pure function of the sequence and the seed ---------------------------------------------------------------

MODELS = {
    "regression": lambda **settings: OnlineRegression(random_state=1, **settings),
    "low rank": lambda **settings: OnlineLowRank(2, solve="exact", random_state=1, **settings),
    "clustering": lambda **settings: OnlineClustering(3, coreset_size=100, random_state=1, **settings),
    "any": lambda **settings: BatchToOnline(Ridge(), coreset_size=100, random_state=1, **settings),
}
POLICY = Adaptive(kappa=1.0, growth=1.1, floor=0.002)


def learned(model, X, y, step):
    for start in range(0, len(X), step):
        model.partial_fit(X[start : start + step], y[start : start + step])
    return model


def times_of(model):
    engine = model._stream
    return (
        [event.at for event in engine.current.changes],
        engine.current.refresh.next_check,
        engine.current.refresh.n_kept,
        engine.current.refresh.last_fit,
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.few(2)
@pytest.mark.slow
def test_any_chunking_gives_the_same_looks_and_models(name, tmp_path):
    X, y = stream("heavy_tailed", N)
    whole = MODELS[name](refresh=POLICY).partial_fit(X, y)
    for step in (7, 1_000):
        model = learned(MODELS[name](refresh=POLICY), X, y, step)
        assert times_of(model) == times_of(whole)
        assert model.changes_ == whole.changes_
    model = learned(MODELS[name](refresh=POLICY), X[:3_001], y[:3_001], 500)
    model.save(tmp_path / "model.b2o")
    model = batch2online.load(tmp_path / "model.b2o").partial_fit(X[3_001:], y[3_001:])
    assert times_of(model) == times_of(whole)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.few(2)
def test_a_merge_begins_with_short_steps_again(name):
    X, y = stream("heavy_tailed", N)
    left, right = (
        learned(MODELS[name](refresh=POLICY, first_id=first), *rows, 500)
        for first, *rows in ((0, X[:3_000], y[:3_000]), (3_000, X[3_000:], y[3_000:]))
    )
    engine = left.merge(right)._stream
    assert engine.current.refresh.n_kept == 0
    assert engine.current.refresh.next_check <= np.ceil(1.1 * N) + 1


def test_weights_count_by_what_they_say_not_by_their_size():
    X, y = stream("heavy_tailed", N)
    plain, heavy = (
        OnlineRegression(refresh=Adaptive(), solve="exact", random_state=1).partial_fit(X, y, np.full(N, weight))
        for weight in (1.0, 1024.0)
    )
    assert plain.n_changes_ > 0
    assert [event.at for event in plain.changes_] == [event.at for event in heavy.changes_]
    rng = np.random.default_rng(0)
    weights = rng.choice([0.5, 4.0], N)
    model = OnlineRegression(random_state=1).partial_fit(X, y, weights)
    expected = weights.sum() ** 2 / np.square(weights).sum()
    assert model._stream.view().sketch.totals.effective_rows == pytest.approx(expected)


@pytest.mark.parametrize(
    ("estimator", "degrees"),
    [
        (Ridge(), 6),
        (make_pipeline(StandardScaler(), Ridge()), 6),
        (KMeans(3, n_init=1, random_state=0), 3),
        (PCA(2), 2),
        (GaussianMixture(2, random_state=0), 2),
        (DecisionTreeRegressor(max_leaf_nodes=7), 7),
        (RandomForestRegressor(3, max_leaf_nodes=5, random_state=0), 5),
        (KNeighborsRegressor(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fitted_models_tell_their_degrees_of_freedom(estimator, degrees):
    X, y = stream("gaussian", 200)
    assert degrees_of(estimator.fit(X, y)) == degrees


def test_the_noise_of_a_coreset_counts():
    X, y = stream("gaussian", 2_000)
    model = BatchToOnline(Ridge(), coreset_size=100, random_state=0, refresh=Adaptive()).partial_fit(X, y)
    engine = model._stream.view()
    rows = len(engine.coreset())
    assert 60 < rows < 140
    assert engine.problem.degrees_of_freedom(engine.current.model, engine.snapshot()) == pytest.approx(6 * 2_000 / rows)
    assert engine.problem.degrees_of_freedom(None, engine.snapshot()) == pytest.approx(6 * 2_000 / rows)


# -- solves that change nothing -----------------------------------------------------------------------------------


def test_a_solve_that_changes_nothing_doubles_the_step():
    policy = Adaptive(growth=1.1)
    assert [policy.next_check(1_000, idle) - 1_000 for idle in range(5)] == [100, 200, 400, 800, 1_000]
    assert Adaptive(growth=3.0).next_check(1_000, 7) == 3_000
    assert Adaptive(growth=1.01).next_check(3, 100) == 6


def solves(policy, monkeypatch):
    """Row counts at which a clustering of calm rows is solved."""
    from batch2online.methods.clustering.problem import ClusteringProblem

    at, fit = [], ClusteringProblem.fit

    def counted(self, data, current):
        at.append(data.totals.n_rows)
        return fit(self, data, current)

    monkeypatch.setattr(ClusteringProblem, "fit", counted)
    X = np.random.default_rng(0).normal(size=(4_000, 2)) + 20 * np.eye(2)[np.arange(4_000) % 2]
    OnlineClustering(2, refresh=policy, coreset_size=300, random_state=0).partial_fit(X)
    monkeypatch.undo()
    return at


def test_calm_streams_are_solved_about_once_a_doubling(monkeypatch):
    often = solves(Geometric(1.1, start=100), monkeypatch)
    rarely = solves(Adaptive(floor=0.5, start=100), monkeypatch)
    assert len(often) > 30
    assert len(rarely) <= 9


# -- what it promises -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "heavy_tailed"])
def test_regret_is_what_changes_have_gained(name):
    """With exact solves: loss = optimum + what each change gained + what a last one would gain, whatever the order."""
    X, y = stream(name, N)
    start = 3 * (X.shape[1] + 1)
    model = OnlineRegression(solve="exact", refresh=Adaptive(), random_state=1).partial_fit(X[:start], y[:start])
    before, first_optimum = model.regret_.loss, model.regret_.optimum
    model.partial_fit(X[start:], y[start:])
    engine = model._stream.view()
    gained = sum(event.cost_before - event.cost_after for event in model.changes_)
    left = engine.problem.cost(engine.current.model, engine.snapshot()) - model.regret_.optimum
    assert model.n_changes_ > 3
    assert model.regret_.loss - before == pytest.approx(model.regret_.optimum - first_optimum + gained + left, rel=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "heavy_tailed", "one_hot"])
@pytest.mark.parametrize("n", [12, 60, 300])
def test_lemma_6_a_row_left_out_costs_little_on_average(name, n):
    X, y = stream(name, n)
    design = np.column_stack([np.ones(n), X])
    orthonormal, sizes, _ = np.linalg.svd(design, full_matrices=False)
    basis = orthonormal[:, sizes > 1e-9 * sizes[0]]
    leverage, residual = np.square(basis).sum(axis=1), y - basis @ (basis.T @ y)
    bound = np.square(residual).max()
    left_out = [y[i] - design[i] @ np.linalg.lstsq(np.delete(design, i, 0), np.delete(y, i))[0] for i in range(n)]
    usual = leverage < 1 - 1e-9
    assert np.array(left_out)[usual] == pytest.approx((residual / (1 - leverage))[usual], rel=1e-6)
    rise = np.minimum(bound, np.square(left_out)) - np.minimum(bound, np.square(residual))
    assert rise.sum() <= 6 * bound * basis.shape[1]


def excess_over_geometric(policy, seed, n=20_000, d=4):
    """What keeping models has cost, in mean losses: against a new model at each of the same looks."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X.sum(axis=1) + rng.uniform(-1, 1, n)
    losses = [
        OnlineRegression(solve="exact", refresh=refresh, random_state=seed).partial_fit(X, y).regret_.loss
        for refresh in (policy, Geometric(policy.growth))
    ]
    return (losses[0] - losses[1]) / (1 / 3)


def allowed(policy, n=20_000, d=4):
    """What Theorem 5 allows for keeping models if eta is 1, rho = 2 and Gamma = 1."""
    return theory.allowed_regret(n, 3 * (d + 1), policy.growth, policy.kappa * (d + 1), slack=1.0)


@pytest.mark.slow
def test_keeping_models_costs_no_more_than_the_theorem_allows():
    policy = Adaptive(kappa=2.0)
    excess = np.array([excess_over_geometric(policy, seed) for seed in range(8)])
    assert 0 < excess.mean() + 6 * excess.std(ddof=1) / np.sqrt(8) < allowed(policy)


def test_a_share_of_the_whole_loss_exceeds_it():
    share = Adaptive(kappa=2.0, floor=1.0)
    assert np.mean([excess_over_geometric(share, seed) for seed in range(3)]) > allowed(share)


def test_the_allowance_grows_like_the_logarithm():
    sums = [theory.allowed_regret(n, 100, 1.1, 20, slack=1.0) for n in (10**4, 10**5, 10**6)]
    assert sums[2] - sums[1] == pytest.approx(sums[1] - sums[0], rel=0.02)
    promise = Adaptive(kappa=2.0, start=100).guarantee(lambda n: 0.0, 10**6, 0.1, degrees_of_freedom=10)
    assert promise.factor == pytest.approx(1.1**2)
    assert promise.additive == pytest.approx(1.1 * (100 + theory.allowed_regret(10**6, 100, 1.1, 20, slack=0.1)))
