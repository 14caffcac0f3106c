"""The paper's rivals in random order: clustering of low average sensitivity, and descent on projections.

Laws are judged at a false-alarm rate of 1e-6 a test, and planted defects are convicted.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from batch2online import baselines
from batch2online.paper.rivals.random_order import leading
from batch2online.paper.transport import CategoricalLaw, Transport, UniformLaw, transported

FALSE_ALARM = 1e-6
RNG = np.random.default_rng
ROWS = np.array([[0.0], [1.0], [1.5], [6.0], [9.0]])


# -- transport ---------------------------------------------------------------------------------------------------


BEFORE, AFTER = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.3, 0.25, 0.35])


def moves(move, runs=20_000):
    """Pairs of values, the first by the law before, the second by moving it."""
    rng = RNG(0)
    firsts = rng.choice(4, size=runs, p=BEFORE)
    return firsts, np.array([move(first, rng) for first in firsts])


def by_transport(first, rng):
    return transported([first], CategoricalLaw(BEFORE), CategoricalLaw(AFTER), rng)[0]


def has_law(values, law):
    return stats.chisquare(np.bincount(values, minlength=len(law)), law * len(values)).pvalue > FALSE_ALARM


def test_transport_gives_the_new_law_and_moves_no_more_than_it_must():
    firsts, seconds = moves(by_transport)
    assert has_law(seconds, AFTER)
    distance = np.abs(BEFORE - AFTER).sum() / 2
    assert stats.binomtest(int((firsts != seconds).sum()), len(firsts), distance).pvalue > FALSE_ALARM


@pytest.mark.parametrize("after", [(1.0, 2.0), (0.5, 1.5), (1.1, 1.4), (0.8, 3.0), (2.5, 3.0), (1.2, 2.4)])
def test_intervals_are_transported_likewise(after):
    rng, m = RNG(1), 20_000
    laws = [UniformLaw(*(np.full(m, end) for end in ends)) for ends in ((1.0, 2.0), after)]
    firsts = rng.uniform(1.0, 2.0, size=m)
    seconds = transported(firsts, *laws, rng)
    low, high = after
    assert stats.kstest((seconds - low) / (high - low), "uniform").pvalue > FALSE_ALARM
    overlap = max(0.0, min(2.0, high) - max(1.0, low))
    distance = 1 - overlap * min(1.0, 1 / (high - low))
    assert stats.binomtest(int((firsts != seconds).sum()), m, distance).pvalue > FALSE_ALARM


def test_runs_of_other_calls_are_new_and_equal_runs_are_kept():
    rng = Transport(RNG(0))
    p = np.full(1_000, 1e-3)
    first = rng.choice(1_000, size=50, p=p), rng.uniform(np.ones(50), 2 * np.ones(50))
    rng.again()
    second = rng.choice(1_000, size=50, p=p), rng.uniform(np.ones(50), 2 * np.ones(50))
    assert all(map(np.array_equal, first, second))
    rng.again()
    assert len(rng.uniform(1, 2, size=50)) == 50  # a choice in the run before
    assert isinstance(rng.choice(5), int)
    assert isinstance(rng.uniform(0.0, 1.0), float)


# -- clustering of low sensitivity -------------------------------------------------------------------------------


def seed_law(rows, k, z):
    """Probabilities of all ordered tuples of seeds by D^z-sampling."""
    law = {}
    for seeds in itertools.product(range(len(rows)), repeat=k):
        chance, distance = 1 / len(rows), np.abs(rows - rows[seeds[0]])[:, 0] ** z
        for seed in seeds[1:]:
            chance *= distance[seed] / distance.sum()
            distance = np.minimum(distance, np.abs(rows - rows[seed])[:, 0] ** z)
        law[seeds] = chance
    return law


@pytest.fixture
def no_solves(monkeypatch):
    """Draws alone, which do not look at the solution."""
    monkeypatch.setattr(baselines.LowSensitivity, "_solve", lambda self: None)


def seeds_after(chunks, runs, z=2.0):
    found = []
    for seed in range(runs):
        model = baselines.LowSensitivity(2, size=2, z=z, random_state=seed)
        for chunk in chunks:
            model.partial_fit(ROWS[chunk])
        found.append(tuple(model.seeds_.tolist()))
    return found


def follow(found, law):
    possible = [seeds for seeds in law if law[seeds] > 0]
    counts = np.array([found.count(seeds) for seeds in possible])
    expected = np.array([law[seeds] for seeds in possible]) * len(found)
    return counts.sum() == len(found) and stats.chisquare(counts, expected).pvalue > FALSE_ALARM


@pytest.mark.usefixtures("no_solves")
@pytest.mark.parametrize("z", [1.0, 2.0])
@pytest.mark.few(1)
@pytest.mark.slow
def test_seeds_have_the_law_of_sampling_however_rows_came(z):
    one_by_one, at_once = [[i] for i in range(5)], [slice(None)]
    for chunks in (one_by_one, at_once):
        assert follow(seeds_after(chunks, 1_200, z), seed_law(ROWS, 2, z))


@pytest.mark.usefixtures("no_solves")
@pytest.mark.slow
def test_draws_of_the_coreset_have_the_law_of_their_scores_and_weights_that_of_the_perturbation():
    """Given seeds a draw is row j with probability p(j); the sum of differences over runs is normal, at 6 sigma."""
    difference, variance, positions = np.zeros(5), np.zeros(5), []
    for seed in range(600):
        model = baselines.LowSensitivity(2, size=3, epsilon=0.4, random_state=seed)
        for i in range(5):
            model.partial_fit(ROWS[[i]])
        p = model.chances_
        assert p.sum() == pytest.approx(1.0)
        difference += np.bincount(model.chosen_, minlength=5) - 3 * p
        variance += 3 * p * (1 - p)
        positions.extend((model.weights_ * 3 * p[model.chosen_] - 1) / 0.4)
    assert (np.abs(difference) < 6 * np.sqrt(variance)).all()
    assert stats.kstest(positions, "uniform").pvalue > FALSE_ALARM


def test_scores_are_shares_of_cost_and_of_the_cluster():
    model = baselines.LowSensitivity(2, random_state=0).partial_fit(ROWS)
    distances = np.abs(ROWS - ROWS[model.seeds_, 0])
    cost, nearest = np.square(distances.min(axis=1)), distances.argmin(axis=1)
    scores = cost / cost.sum() + 1 / np.bincount(nearest)[nearest]
    assert model.chances_ == pytest.approx(scores / scores.sum())


def changes_of_seeds(n=300, runs=10):
    count = 0
    for seed in range(runs):
        rows, model = RNG(seed).normal(size=(n, 2)), baselines.LowSensitivity(3, size=1, random_state=seed)
        before = model.partial_fit(rows[:3]).seeds_
        for i in range(3, n):
            after = model.partial_fit(rows[[i]]).seeds_
            count += not np.array_equal(before, after)
            before = after
    return count


@pytest.mark.usefixtures("no_solves")
@pytest.mark.slow
def test_seeds_change_as_rarely_as_in_proportion_to_the_logarithm():
    """In random order the row that comes is one of the k seeds of all t with probability k / t at most."""
    allowed = 10 * sum(3 / t for t in range(4, 301))
    count = changes_of_seeds()
    assert count > 20
    assert stats.poisson.sf(count - 1, allowed) > FALSE_ALARM


# -- descent on projections --------------------------------------------------------------------------------------


def test_a_step_is_the_leading_eigenspace_of_the_gradient_step():
    rows = RNG(1).normal(size=(60, 5)) * [3.0, 2.0, 1.0, 0.5, 0.1]
    model = baselines.ProjectionDescent(2, step=0.7, warm_rows=10)
    model.partial_fit(rows[:10])
    vectors = np.linalg.eigh(rows[:10].T @ rows[:10])[1]
    P = vectors[:, -2:] @ vectors[:, -2:].T
    for t in range(10, 60):
        scale = np.square(rows[: t + 1]).sum(axis=1).max()
        step = 0.7 * np.sqrt(2 / (t + 1)) / scale
        vectors = np.linalg.eigh(P + step * np.outer(rows[t], rows[t]))[1]
        P = vectors[:, -2:] @ vectors[:, -2:].T
        model.partial_fit(rows[t : t + 1])
        assert model.components_.T @ model.components_ == pytest.approx(P, abs=1e-9)


def test_before_it_is_warm_the_model_is_that_of_all_rows():
    rows = RNG(2).normal(size=(8, 4))
    model = baselines.ProjectionDescent(2)
    for i in range(8):
        model.partial_fit(rows[[i]])
        assert model.components_ @ model.components_.T == pytest.approx(np.eye(2), abs=1e-12)
        expected = leading(rows[: i + 1], 2)
        assert np.abs(np.linalg.det(model.components_ @ expected.T)) == pytest.approx(1.0)
