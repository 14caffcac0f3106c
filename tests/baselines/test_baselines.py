"""The rivals: each does what its reference says, and all run through the evaluation."""

import inspect

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

from batch2online import baselines, datasets, evaluate
from batch2online.evaluate.peers.refits import reservoir_replacements
from batch2online.paper.rivals.low_rank import capped, clipped, systematic_sample

X, Y = datasets.load_regression("diabetes")
ROWS = datasets.load_rows("digits")[:500]
RNG = np.random.default_rng
CONSTANT = np.column_stack([np.ones(len(X)), X])


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def in_chunks(model, *arrays, chunk=17):
    for start in range(0, len(arrays[0]), chunk):
        model.partial_fit(*(array[start : start + chunk] for array in arrays))
    return model


# -- regression ---------------------------------------------------------------------------------------


def test_ridge_is_the_minimiser_of_the_regularised_loss():
    ridge = in_chunks(baselines.Ridge(regularisation=2.0), X, Y)
    expected = np.linalg.solve(2.0 * np.eye(11) + CONSTANT.T @ CONSTANT, CONSTANT.T @ Y)
    assert ridge.weights_ == pytest.approx(expected, rel=1e-9)


def test_forward_is_ridge_with_the_row_counted_and_its_target_zero():
    forward = in_chunks(baselines.Forward(), X[:100], Y[:100])
    for row in X[100:110]:
        ridge = in_chunks(baselines.Ridge(), X[:100], Y[:100]).partial_fit(row[None], [0.0])
        assert forward.predict(row[None]) == pytest.approx(ridge.predict(row[None]), rel=1e-9)


@pytest.mark.parametrize("order", ["random", "sorted", "adversarial"])
def test_forward_keeps_vovks_bound_in_any_order(order):
    """Loss <= min (loss + a |x|^2) + B^2 ln det(I + G / a), in every order (Vovk; Azoury & Warmuth)."""
    (run,) = evaluate.prequential({"m": baselines.Forward()}, X, Y, loss="squared", order=order, seeds=1)
    gram = CONSTANT.T @ CONSTANT
    best = np.linalg.solve(np.eye(11) + gram, CONSTANT.T @ Y)
    regularised = np.square(Y - CONSTANT @ best).sum() + best @ best
    assert run.loss <= regularised + np.square(Y).max() * np.linalg.slogdet(np.eye(11) + gram)[1]


def test_gradient_descent_as_by_hand():
    model = baselines.GradientDescent(curvature=0.5, radius=0.4)
    weights, clipped_steps = np.zeros(11), 0
    for t, (row, target) in enumerate(zip(CONSTANT, Y, strict=True), start=1):
        smoothness = 2 * np.square(CONSTANT[:t]).sum(axis=1).max()
        weights = weights - 2 * (row @ weights - target) / (0.5 * t + smoothness) * row
        if np.linalg.norm(weights) > 0.4:
            weights, clipped_steps = weights * 0.4 / np.linalg.norm(weights), clipped_steps + 1
        model.partial_fit(X[t - 1 : t], Y[t - 1 : t])
    assert model.weights_ == pytest.approx(weights, rel=1e-9)
    assert 0 < clipped_steps < len(X)


# -- low rank -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [12, 20])
def test_frequent_directions_keeps_its_bound(size):
    k, model = 5, in_chunks(baselines.FrequentDirections(5, size=size), ROWS)
    rest = np.square(np.linalg.svd(ROWS, compute_uv=False)[k:]).sum()
    difference = np.linalg.eigvalsh(ROWS.T @ ROWS - model.sketch_.T @ model.sketch_)
    assert difference[0] > -1e-9 * difference[-1]
    assert 0 < difference[-1] <= rest / (size - k)
    assert np.array_equal(model.sketch_, in_chunks(baselines.FrequentDirections(5, size=size), ROWS, chunk=1).sketch_)


def test_frequent_directions_before_it_has_enough_rows():
    components = baselines.FrequentDirections(3).partial_fit(ROWS[:1]).components_
    assert components @ components.T == pytest.approx(np.eye(3), abs=1e-12)
    assert ROWS[0] @ components.T @ components == pytest.approx(ROWS[0], abs=1e-12)


def test_capping_is_the_projection_in_relative_entropy():
    for seed in range(50):
        values = RNG(seed).exponential(size=12) ** 3
        result = capped(values, 5)
        assert result.sum() == pytest.approx(5, rel=1e-12)
        assert result.max() <= 1 + 1e-12
        free = result < 1 - 1e-9
        assert np.ptp((result / values)[free]) < 1e-9 * (result / values)[free].max()  # one factor for the rest
        assert np.all((result / values)[~free] <= (result / values)[free].max() + 1e-9)  # the optimality condition


def test_clipping_is_the_euclidean_projection():
    for seed in range(50):
        values = RNG(seed).normal(size=12)
        result = clipped(values, 4)
        assert result.sum() == pytest.approx(4, rel=1e-9)
        others = RNG(seed).dirichlet(np.ones(12), size=200) * 4
        others = others[others.max(axis=1) <= 1]
        assert np.all((others - result) @ (values - result) <= 1e-9)  # an obtuse angle to every feasible point


def test_systematic_sampling_has_the_probabilities_asked_for():
    probabilities = capped(RNG(3).exponential(size=10), 4)
    grid = (np.arange(20_000) + 0.5) / 20_000
    drawn = np.array([systematic_sample(probabilities, u) for u in grid])
    assert np.all(np.diff(drawn, axis=1) > 0)
    assert np.bincount(drawn.ravel(), minlength=10) / 20_000 == pytest.approx(probabilities, abs=2e-4)


COMPONENTS = [
    *(baselines.ExponentiatedGradient, baselines.SubspaceDescent, baselines.Oja),
    lambda k, random_state: baselines.ProjectionDescent(k),
]


@pytest.mark.parametrize("kind", COMPONENTS)
def test_online_components_find_a_clear_subspace(kind):
    rows = RNG(0).normal(size=(4_000, 10)) * np.where(np.arange(10) < 3, 3.0, 0.3)
    model = in_chunks(kind(3, random_state=0), rows, chunk=50)
    assert model.components_ @ model.components_.T == pytest.approx(np.eye(3), abs=1e-9)
    assert evaluate.subspace_angle(model.components_, np.eye(10)[:3]) < 0.1


# -- clustering ---------------------------------------------------------------------------------------


def blobs(n, k=4, seed=0):
    rng = RNG(seed)
    return 20.0 * rng.normal(size=(k, 3))[rng.integers(k, size=n)] + rng.normal(size=(n, 3))


def test_macqueens_centers_are_the_means_of_the_rows_they_won():
    rows, centers, won = ROWS, [], []
    for row in rows:
        distances = [np.square(c - row).sum() for c in centers]
        if len(centers) < 5:
            centers.append(row)
            won.append([row])
        else:
            nearest = int(np.argmin(distances))
            won[nearest].append(row)
            centers[nearest] = np.mean(won[nearest], axis=0)
    model = in_chunks(baselines.MacQueen(5), rows)
    assert model.cluster_centers_ == pytest.approx(np.array(centers), abs=1e-12)


def test_the_sketch_of_consistent_clustering_holds_every_row_once():
    rows = blobs(3_000)
    model = in_chunks(baselines.Consistent(4, random_state=0), rows, chunk=50)
    assert model.weights_.sum() == len(rows)
    assert 4 <= len(model.facilities_) <= model._limit()
    assert {tuple(f) for f in model.facilities_} <= {tuple(row) for row in rows}


@pytest.mark.parametrize("kind", [baselines.Consistent, baselines.WeightedSolutions, baselines.LowSensitivity])
@pytest.mark.slow
def test_clear_clusters_are_found(kind):
    (run,) = evaluate.prequential({"m": kind(4)}, blobs(4_000), loss="clustering", seeds=1, chunk=20, warmup=400)
    assert run.ratio < 1.5


def test_weights_settle_on_the_better_solution():
    rows = np.repeat(np.array([[0.0], [10.0]]), 2_000, axis=0)
    model = baselines.WeightedSolutions(2, random_state=0).partial_fit(RNG(0).permutation(rows))
    good, bad = np.array([[0.0], [10.0]]), np.array([[4.0], [6.0]])
    model.solutions_, model.losses_ = np.array([bad, good]), np.array([16.0 * 4_000, 0.0])
    for _ in range(20):
        model.partial_fit(rows[::400])
        assert np.array_equal(model.cluster_centers_, good)


# -- any estimator ------------------------------------------------------------------------------------


@pytest.mark.parametrize("growth", [1.0, 2.0])
def test_follow_the_leader_is_the_batch_fit_of_all_rows_at_the_last_refit(growth):
    model = in_chunks(baselines.FollowTheLeader(LinearRegression(), growth=growth), X, Y, chunk=10)
    seen = len(X) if growth == 1 else 320
    expected = LinearRegression().fit(X[:seen], Y[:seen])
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(model.predict(X), expected.predict(X))


def test_refits_wait_until_the_problem_is_posed():
    model = in_chunks(baselines.FollowTheLeader(KMeans(5, n_init=1, random_state=0)), ROWS[:5], chunk=1)
    assert not hasattr(model, "cluster_centers_")
    assert len(model.partial_fit(ROWS[5:6]).cluster_centers_) == 5
    with pytest.raises(AttributeError, match="'FollowTheLeader' object has no attribute 'nothing_'"):
        _ = baselines.FollowTheLeader(KMeans()).nothing_


def inclusion_statistic(draw, runs=4_000, n=40, size=10):
    """How often each of n rows is in a sample of fixed size: chi-squared with n - 1 degrees of freedom."""
    rows, counts = np.arange(float(n))[:, None], np.zeros(n)
    for seed in range(runs):
        counts[draw(rows, size, RNG(seed)).astype(int).ravel()] += 1
    share = size / n
    return np.square(counts - runs * share).sum() / (runs * share * (1 - share)) * (n - 1) / n


def test_the_reservoir_is_uniform():
    """False alarms: 1e-6. A reservoir that always takes the new row is caught."""

    def proper(rows, size, rng):
        sample = reservoir_replacements(rows[:0], rows[:13], 0, size, rng)
        return reservoir_replacements(sample, rows[13:], 13, size, rng)

    def greedy(rows, size, rng):
        sample = rows[:size].copy()
        for row in rows[size:]:
            sample[rng.integers(size)] = row
        return sample

    limit = chi2.isf(1e-6, 39)
    assert inclusion_statistic(proper) < limit
    assert inclusion_statistic(greedy, runs=200) > limit


def test_the_reservoir_keeps_inputs_and_targets_together():
    model = baselines.Reservoir(LinearRegression(), size=50, growth=1.0, random_state=0)
    in_chunks(model, X, X @ np.arange(10.0))
    assert model.coef_ == pytest.approx(np.arange(10.0), abs=1e-9)


# -- all of them --------------------------------------------------------------------------------------

PROBLEMS = {
    "regression": (X, Y, "squared"),
    "low_rank": (ROWS, None, "lowrank"),
    "clustering": (ROWS, None, "clustering"),
}


PROBLEM_OF = {
    "KMeansRefits": "clustering",
    "low_sensitivity": "clustering",
    "random_order": "low_rank",
    "ExpectsRepeats": "regression",
}


def discovered():
    for name in baselines.__all__:
        kind = getattr(baselines, name)
        if kind in (baselines.FollowTheLeader, baselines.Reservoir):
            yield "regression", kind(LinearRegression())
            yield "low_rank", kind(TruncatedSVD(3, algorithm="arpack"))
            yield "clustering", kind(KMeans(3, n_init=1))
        elif kind is baselines.Simulation:
            yield "regression", kind(baselines.ExpectsRepeats())
        else:
            module = kind.__module__.rpartition(".")[2]
            yield PROBLEM_OF.get(name, PROBLEM_OF.get(module, module)), kind()


@pytest.mark.parametrize(("problem", "model"), list(discovered()), ids=repr)
@pytest.mark.parametrize(("chunk", "n"), [(1, 45), (40, 120)])
@pytest.mark.covering
@pytest.mark.slow
def test_every_baseline_runs_from_the_first_row_on_and_repeats_itself(problem, model, chunk, n):
    rows, targets, loss = PROBLEMS[problem]
    first, again = (
        evaluate.prequential(
            {"m": model}, rows[:n], None if targets is None else targets[:n], loss=loss, seeds=1, chunk=chunk
        )
        for _ in range(2)
    )
    assert first.rows[0].loss == again.rows[0].loss
    assert np.isfinite(first.rows[0].loss)
    assert first.rows[0].changes > 0
    assert "partial_fit" in dir(model)
    assert inspect.getdoc(type(model))


@pytest.mark.parametrize("warm_start", [True, False])
def test_refits_keep_labels(warm_start):
    model = baselines.KMeansRefits(10, warm_start=warm_start, random_state=0).partial_fit(ROWS[:200])
    before = model.predict(ROWS)
    after = model.partial_fit(ROWS[200:]).predict(ROWS)
    renumbered = KMeans(10, n_init=8, random_state=0).fit(ROWS).predict(ROWS)
    assert (before != after).mean() < 0.5 < (before != renumbered).mean()
    np.testing.assert_array_equal(model.labels_, after)


def test_a_warm_start_is_kmeans_from_the_centers_before():
    model = baselines.KMeansRefits(5, warm_start=True, random_state=0).partial_fit(ROWS[:200])
    expected = KMeans(5, init=model.cluster_centers_, n_init=1).fit(ROWS).cluster_centers_
    np.testing.assert_array_equal(model.partial_fit(ROWS[200:]).cluster_centers_, expected)
