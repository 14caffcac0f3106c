"""How much noisier a fresh model is than its degrees of freedom tell, and what `Adaptive` makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from batch2online import OnlineLowRank, OnlineRegression
from batch2online.refresh import Adaptive


def uneven_rows(n=20_000, spread=1.0, seed=0):
    """Return rows whose residuals are large where their leverage is, by this power of their length."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, size=(n, 4))
    length = np.sqrt(np.square(X).sum(axis=1))
    return X, X @ np.ones(4) + rng.normal(size=n) * length**spread


def noise_by_all_rows(X, y):
    """Return the sum of leverage times squared residual over what it is for rows alike."""
    design = np.column_stack([np.ones(len(X)), X])
    basis = np.linalg.qr(design)[0]
    residuals, leverages = y - basis @ (basis.T @ y), np.square(basis).sum(axis=1)
    return float(leverages @ residuals**2 / (design.shape[1] * np.mean(residuals**2)))


@pytest.mark.parametrize("spread", [0.0, 1.0, 2.0])
def test_unevenness_is_that_of_all_rows(spread):
    X, y = uneven_rows(spread=spread)
    found = []
    for seed in range(8):
        engine = OnlineRegression(random_state=seed, coreset_size=2_000).partial_fit(X, y)._stream.view()
        fresh = engine.problem.fit(engine.snapshot(), None).model
        found.append(engine.problem.noise_factor(fresh, engine.snapshot()))
    expected = noise_by_all_rows(X, y)
    assert np.mean(found) == pytest.approx(max(1.0, expected), rel=0.1)
    assert (expected > 2) == (spread > 0)


def test_noise_is_what_unevenness_tells():
    """The excess of models of half of the rows on the other half, in mean losses, is near p times the factor."""
    excess = []
    for seed in range(300):
        X, y = uneven_rows(400, seed=seed)
        design = np.column_stack([np.ones(400), X])
        here, there, best = (
            np.linalg.lstsq(design[part], y[part])[0] for part in (slice(200), slice(200, 400), slice(400))
        )
        costs = [np.square(y[200:] - design[200:] @ model).mean() for model in (here, there)]
        excess.append((costs[0] - costs[1]) / np.square(y - design @ best).mean() * 200 / 2)
    told = np.mean([noise_by_all_rows(*uneven_rows(400, seed=seed)) for seed in range(300)])
    error = np.std(excess) / np.sqrt(300)
    assert abs(np.mean(excess) / 5 - told) < 5 * error / 5 + 0.25 * told
    assert np.mean(excess) / 5 > 1.5  # degrees of freedom alone tell too little


def test_uneven_rows_are_allowed_more_and_even_ones_as_much():
    X, y = np.random.default_rng(1).normal(size=(2, 20_000, 4))
    even = OnlineRegression(
        refresh=Adaptive(1.5, max_noise_factor=4.0), coreset_size=2_000, random_state=0
    ).partial_fit(X, y[:, 0])
    assert max(event.tolerance * event.at / (1.5 * 5) for event in even.changes_ if event.at > 1_000) < 1.2
    X, y = uneven_rows()
    plain, aware = (
        OnlineRegression(refresh=Adaptive(1.5, max_noise_factor=most), random_state=0) for most in (1.0, 4.0)
    )
    for model in (plain, aware):
        model.partial_fit(X, y)
    factors = np.array([event.tolerance * event.at / (1.5 * 5) for event in aware.changes_])
    assert (factors <= 4).all()
    assert factors.max() > 1.5
    assert aware.n_changes_ < plain.n_changes_
    assert all(event.cost_before > (1 + event.tolerance) * event.cost_after for event in aware.changes_)


def test_low_rank_measures_unevenness_too():
    rng = np.random.default_rng(0)
    even = rng.normal(size=(20_000, 6)) * [5, 4, 1, 1, 1, 1]
    uneven = even * np.exp(rng.normal(size=(20_000, 1)) / 2)
    for rows, least, most in ((even, 1.0, 1.2), (uneven, 2.0, 8.0)):
        for center in (False, True):
            engine = OnlineLowRank(2, center=center, coreset_size=2_000, random_state=0).partial_fit(rows)._stream
            factor = engine.problem.noise_factor(engine.current.model, engine.snapshot())
            assert least <= factor <= most, (center, factor)


def test_certificates_allow_for_unevenness():
    promises = [
        Adaptive(2.0, start=100, max_noise_factor=u).guarantee(lambda n: 0.0, 10**6, 0.1, degrees_of_freedom=10)
        for u in (1.0, 4.0)
    ]
    more = Adaptive(8.0, start=100).guarantee(lambda n: 0.0, 10**6, 0.1, degrees_of_freedom=10)
    assert promises[0].additive < promises[1].additive == pytest.approx(more.additive)
    with pytest.raises(ValueError, match="max_noise_factor must be"):
        Adaptive(max_noise_factor=0.5)
