"""``epsilon="auto"``: a constant that grows with the rows, and inclusion probabilities that never rise again."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, load
from batch2online.coresets import Anchored, Clustering, Leverage, PilotSampling, RidgeLeverage, Uniform
from batch2online.methods import scores
from batch2online.refresh import Adaptive, Geometric
from batch2online.theory import adaptive_clustering_size, adaptive_constant, adaptive_epsilon

RNG = np.random.default_rng
N, WIDTH = 30_000, 25  # in blocks of 10,000 rows


def wide(n=N, seed=0):
    X = RNG(seed).normal(size=(n, WIDTH))
    X[:, 0] *= RNG(seed + 1).standard_t(3, size=n)
    return X


def rare_column(n=N):
    """The first column is zero except in the first tenth: scores of these rows stop falling there."""
    X = wide(n)
    X[n // 10 :, 0] = 0.0
    return X


BUILDERS = {
    "leverage": lambda **s: Leverage(epsilon="auto", random_state=5, **s),
    "ridge": lambda **s: RidgeLeverage(2, epsilon="auto", random_state=5, **s),
    "clustering": lambda **s: Clustering(3, epsilon="auto", random_state=5, **s),
    "bounded": lambda **s: Clustering(3, epsilon="auto", history="coreset", random_state=5, **s),
}


def limits(sketch):
    """Inclusion probabilities of the rows of the coreset."""
    candidates, own = sketch._scored(None)
    q = np.minimum(candidates.limits, sketch.current_constant * own)
    ids, weights = candidates.rows.ids, sketch.coreset().ids
    return dict(zip(ids.tolist(), q.tolist(), strict=True)), weights


# -- the law -------------------------------------------------------------------------------------------


def test_the_constant_never_falls_and_grows_more_slowly_than_the_rows():
    rows = np.geomspace(1, 1e8, 300)
    for law in (lambda t: adaptive_constant(7, t), lambda t: adaptive_clustering_size(4, t)):
        values = np.array([law(t) for t in rows])
        assert (np.diff(values) >= 0).all()
        assert (np.diff(values / rows) <= 0).all()
        assert (values[-1] / values <= np.sqrt(rows[-1] / rows) + 1e-9).all(), "Lemma 11 needs a = 1/2"
    assert adaptive_epsilon(400) == 0.1
    assert adaptive_epsilon(40_000) == 0.01
    assert adaptive_epsilon(40_000, scale=10) == 0.05


def recomputed(X, dimension, block, until):
    """The probabilities by the definition: the least of c(t) s(t) over the checks since the row came and now."""
    q, last = np.ones(until), 0
    for t in [*range(block, until, block), until]:
        if t < until and t < 1.1 * last:
            continue
        s = scores.leverage(X[:t])
        q[:t] = np.minimum(q[:t], adaptive_constant(dimension, t) * s)
        last = t
    return q


@pytest.mark.parametrize("make", [wide, rare_column])
def test_probabilities_are_running_minima_over_checks_between_blocks(make):
    X = make()
    builder = BUILDERS["leverage"]().add(X[:27_123])
    block = builder.sketch.settings.block
    expected = recomputed(X, WIDTH, block, 27_123)
    found, ids = limits(builder.sketch)
    assert block == 10_000
    np.testing.assert_allclose([found[i] for i in ids], expected[ids], rtol=1e-6)
    lagging = expected < 0.99 * np.minimum(1, adaptive_constant(WIDTH, 27_123) * scores.leverage(X[:27_123]))
    assert lagging.any() == (make is rare_column)
    if make is rare_column:
        assert lagging[ids].any(), "rows of a direction that is not fed any more keep their probabilities"


@pytest.mark.parametrize("make", [wide, rare_column])
def test_sandwich(make):
    """c(a) s(t) <= q <= c(t) s(t), a the first check at or after the row: Lemma 11, for every row."""
    X, t = make(), 27_123
    q = recomputed(X, WIDTH, 10_000, t)
    first_check = np.minimum(t, -(-np.arange(1, t + 1) // 10_000) * 10_000)
    s = scores.leverage(X[:t])
    low = np.minimum(1, np.array([adaptive_constant(WIDTH, a) for a in first_check]) * s)
    high = np.minimum(1, adaptive_constant(WIDTH, t) * s)
    assert (low <= q * (1 + 1e-9)).all()
    assert (q <= high * (1 + 1e-9)).all()


def test_the_first_rows_are_those_of_a_fixed_epsilon():
    X = wide(300)
    fixed = Leverage(epsilon=0.1, random_state=5).add(X).coreset()
    assert BUILDERS["leverage"]().add(X).coreset() == fixed


@pytest.mark.parametrize("kind", BUILDERS)
def test_weights_are_unbiased(kind):
    """The mean total weight over 30 seeds is within seven standard errors of n: false alarms below 1e-7 by Student's t.

    With moving seeds inclusion is a martingale, so the mean is the same.
    """
    X = rare_column(24_000)
    totals = []
    for seed in range(30):
        builder = BUILDERS[kind]()
        builder.seed = seed
        totals.append(builder.add(X).coreset().weights.sum())
    mean, error = np.mean(totals), np.std(totals, ddof=1) / math.sqrt(len(totals))
    assert abs(mean - len(X)) < 7 * error
    assert error < 0.02 * len(X)
    assert 2 * stats.t.sf(7, 29) < 1.1e-7


def test_merged_shards_are_unbiased():
    """The mean total weight over 30 seeds, as above."""
    X, totals = rare_column(6_000), []
    for seed in range(30):
        shards = []
        for start in range(0, len(X), 2_000):
            builder = BUILDERS["leverage"](first_id=start)
            builder.seed = seed
            shards.append(builder.add(X[start : start + 2_000]))
        totals.append(shards[0].merge(shards[1]).merge(shards[2]).coreset().weights.sum())
    error = np.std(totals, ddof=1) / math.sqrt(len(totals))
    assert abs(np.mean(totals) - len(X)) < 7 * error
    assert error < 0.02 * len(X)


@pytest.mark.parametrize("kind", BUILDERS)
def test_the_grid_of_weights_stays_that_of_the_first_accuracy(kind):
    """Sensitivity bounds need the same grid throughout: powers of 1.1, though epsilon has fallen to 0.012."""
    weights = BUILDERS[kind]().add(wide()).coreset().weights
    exponents = np.log(weights) / np.log(1.1)
    np.testing.assert_allclose(exponents, np.round(exponents), atol=1e-6)
    assert len(np.unique(np.round(exponents))) > 3


# -- equality ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BUILDERS)
def test_chunks_and_readings_in_between_do_not_matter(kind):
    X = rare_column()
    whole, pieces = BUILDERS[kind]().add(X), BUILDERS[kind]()
    for start in range(0, len(X), 1_700):
        pieces.add(X[start : start + 1_700])
        if start % 3 == 0:
            pieces.coreset()
    assert whole.coreset() == pieces.coreset()
    if hasattr(whole.sketch, "parts"):
        for one, other in zip(whole.sketch.parts, pieces.sketch.parts, strict=True):
            assert one.limits.tobytes() == other.limits.tobytes()


MODELS = {
    "regression": lambda **s: OnlineRegression(solve="coreset", epsilon="auto", random_state=3, **s),
    "low rank": lambda **s: OnlineLowRank(2, solve="coreset", epsilon="auto", random_state=3, **s),
    "clustering": lambda **s: OnlineClustering(3, epsilon="auto", random_state=3, **s),
    "paper's clustering": lambda **s: OnlineClustering(3, solve="coreset", epsilon="auto", random_state=3, **s),
    "bounded clustering": lambda **s: OnlineClustering(3, history="coreset", epsilon="auto", random_state=3, **s),
}


def learned(model, X, start=0, stop=None):
    part = X[start:stop]
    return model.partial_fit(part, part.sum(axis=1)) if isinstance(model, OnlineRegression) else model.partial_fit(part)


def model_of(model):
    return next(getattr(model, name) for name in ("coef_", "components_", "cluster_centers_") if hasattr(model, name))


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_goes_on_bit_for_bit(name, tmp_path):
    X = rare_column(24_000)
    whole, half = learned(MODELS[name](), X), learned(MODELS[name](), X, stop=13_131)
    half.save(tmp_path / "model.b2o")
    resumed = learned(load(tmp_path / "model.b2o"), X, start=13_131)
    assert resumed.coreset_ == whole.coreset_
    assert np.array_equal(model_of(resumed), model_of(whole))
    assert resumed.epsilon_ == whole.epsilon_ == adaptive_epsilon(24_000, 10 if "clustering" in name else 2)
    if name in ("regression", "low rank"):
        known = [model.stream.view().sketch.candidates() for model in (resumed, whole)]
        one, other = ({i: limit for i, limit in zip(c.rows.ids, c.limits, strict=True) if limit < 1} for c in known)
        shared = one.keys() & other.keys()
        assert len(shared) > 300
        assert [one[i] for i in shared] == [other[i] for i in shared]


@pytest.mark.parametrize("policy", [Geometric(1.5), Adaptive(floor=1e-2, growth=1.4)])
def test_the_coreset_does_not_depend_on_the_policy(policy):
    """Checks of a policy may depend on draws, by the models; those of the sketch do not."""
    X = rare_column(24_000)
    other, own = learned(MODELS["regression"](refresh=policy), X), learned(MODELS["regression"](), X)
    assert other.coreset_ == own.coreset_


@pytest.mark.parametrize("kind", ["leverage", "ridge"])
def test_merging_in_random_trees(kind):
    """Every row that does not lag has the probability that it has in one stream; the others are counted."""
    X = wide(24_000)
    whole, _ = limits(BUILDERS[kind]().add(X).sketch)
    for seed in range(3):
        rng, cuts = RNG(seed), [0, 3_000, 7_000, 12_000, 18_000, 24_000]
        shards = [BUILDERS[kind](first_id=a).add(X[a:b]) for a, b in pairwise(cuts)]
        while len(shards) > 1:
            one, other = (shards.pop(rng.integers(len(shards))) for _ in range(2))
            shards.append(one.merge(other))
        merged, ids = limits(shards[0].sketch)
        assert np.isin(ids, list(whole)).all()
        ratios = np.array([merged[i] / whole[i] for i in ids])
        assert (ratios < 1 + 1e-9).all(), "the minimum is over fewer rows at each node"
        assert (ratios > 1 - 1e-9).mean() > 0.99


def test_merged_shards_stay_within_the_sandwich():
    X = rare_column(20_000)
    shards = [BUILDERS["leverage"](first_id=start).add(X[start : start + 5_000]) for start in range(0, 20_000, 5_000)]
    for other in shards[1:]:
        shards[0].merge(other)
    found, ids = limits(shards[0].sketch)
    q, s = np.array([found[i] for i in ids]), scores.leverage(X)[ids]
    assert (q <= np.minimum(1, adaptive_constant(WIDTH, 20_000) * s) * (1 + 1e-6)).all()
    assert (q >= np.minimum(1, adaptive_constant(WIDTH, 5_000) * s) * (1 - 1e-6)).all()


@pytest.mark.parametrize("kind", ["leverage", "clustering"])
def test_forgetting_learns_the_other_rows_anew(kind):
    X, unwanted = wide(24_000), np.arange(2_000, 14_000)
    keep = {} if kind == "clustering" else {"keep_history": True}
    once = BUILDERS[kind](**keep).add(X).forget(unwanted)
    twice = BUILDERS[kind](**keep).add(X).forget(unwanted[:5_000]).forget(unwanted[5_000:])
    assert once.coreset() == twice.coreset()
    assert not np.isin(once.coreset().ids, unwanted).any()
    expected = adaptive_clustering_size(3, 12_000) if kind == "clustering" else WIDTH * adaptive_constant(WIDTH, 12_000)
    assert len(once.coreset()) <= expected + 6 * math.sqrt(expected), "c is that of the remaining rows"


# -- decay, weights, refusals --------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"half_life": 1_000}, {"window": 3_000}])
@pytest.mark.parametrize("name", ["regression", "clustering"])
def test_with_decay_epsilon_stops_falling(name, settings):
    X = wide(14_000)
    model = MODELS[name](**settings, refresh=Geometric(3.0))
    early = learned(model, X, stop=8_000).epsilon_
    late = learned(model, X, start=8_000).epsilon_
    assert late == pytest.approx(early, rel=0.15)
    assert late > 1.9 * adaptive_epsilon(14_000)
    if "half_life" in settings and name == "regression":
        sketch = model.stream.view().sketch
        assert sketch.totals.effective_rows < 3_000
        assert sketch.current_constant < adaptive_constant(WIDTH + 2, 3_000)


def test_weights_count_by_the_effective_number_of_rows():
    X = wide(12_000)
    weights = np.where(np.arange(len(X)) % 4, 1e-6, 1.0)
    builder = BUILDERS["leverage"]().add(X, weights=weights)
    assert builder.sketch.totals.effective_rows == pytest.approx(3_000, rel=1e-3)
    assert builder.sketch.current_constant == pytest.approx(adaptive_constant(WIDTH, 3_000), rel=1e-3)
    same = BUILDERS["leverage"]().add(X, weights=np.full(len(X), 4.0)).coreset()
    assert np.array_equal(same.ids, BUILDERS["leverage"]().add(X).coreset().ids)


def test_merging_with_a_fixed_epsilon_is_refused():
    with pytest.raises(ValueError, match="coreset_size"):
        Leverage(epsilon=0.1, random_state=5).add(wide(50)).merge(BUILDERS["leverage"](first_id=50).add(wide(50)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: OnlineRegression(epsilon="auto"), 'needs solve="coreset"'),
        (lambda: OnlineRegression(epsilon="auto", solve="coreset", loss="huber"), "squared loss"),
        (lambda: OnlineRegression(epsilon="auto", solve="coreset", coreset_size=50), "leave out coreset_size, got 50"),
        (lambda: OnlineRegression(epsilon="automatic", solve="coreset"), "epsilon must be between 0 and 1"),
        (lambda: OnlineLowRank(1, epsilon="auto"), 'needs solve="coreset"'),
        (lambda: OnlineClustering(2, epsilon="auto", stages=2), "stages=1"),
        (lambda: OnlineClustering(2, epsilon="auto", coreset_size="theory"), "leave out coreset_size"),
        (lambda: OnlineClassifier(epsilon="auto"), "epsilon must be between 0 and 1"),
    ],
)
def test_what_contradicts_it_is_refused(make, words):
    X = wide(40)
    with pytest.raises(ValueError, match=words):
        make().partial_fit(X, (X[:, 0] > 0).astype(float))


@pytest.mark.parametrize("kind", [Uniform, PilotSampling, lambda **s: Anchored("huber", **s)])
def test_other_coresets_refuse_it(kind):
    with pytest.raises(ValueError, match='epsilon="auto" is for Leverage'):
        kind(epsilon="auto")
    with pytest.raises(ValueError, match="written epsilon"):
        kind(coreset_size="auto")


def test_a_wrapped_estimator_refuses_it():
    def mean(points, weights):
        return np.average(points, axis=0, weights=weights)

    def squared(theta, points):
        return np.square(points - theta).sum(axis=1)

    with pytest.raises(ValueError, match="epsilon must be between 0 and 1"):
        BatchToOnline(mean, loss=squared, coreset=Uniform, epsilon="auto").partial_fit(wide(40))
