"""Exact sums: equal to rational arithmetic, whatever the pieces and their order; moments from them lose no digits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch2online import OnlineLowRank, OnlineRegression
from batch2online.coresets import Leverage
from batch2online.methods.from_sums import ExactMatrix
from batch2online.sketches import exact_sums
from batch2online.sketches.exact_sums import ExactGram

ROWS = 300


def columns_of(kind):
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(ROWS, 2))
    kinds = {
        "normal": plain,
        "whole": np.round(plain * 100),
        "zero": np.zeros((ROWS, 2)),
        "heavy": rng.standard_cauchy(size=(ROWS, 2)) ** 5,
        "scales": plain * [1e150, 1e-150],
        "one far": np.vstack([plain[1:], [[2.0**500, 2.0**-400]]]),
        "far mean": plain + 1e12,
    }
    return kinds[kind]


KINDS = ("normal", "whole", "zero", "heavy", "scales", "one far", "far mean")


def sums_of(columns, weights=None):
    return ExactGram.empty(columns.shape[1] + 1).add((columns,), weights)


def rational(columns, weights):
    m = [[Fraction(1), *map(Fraction, row)] for row in columns.tolist()]
    weights = [Fraction(weight) for weight in weights.tolist()]
    width = columns.shape[1] + 1
    return [
        sum(w * row[i] * row[j] for w, row in zip(weights, m, strict=True))
        for i in range(width)
        for j in range(i, width)
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_rational_arithmetic(kind, weighted):
    columns = columns_of(kind)
    weights = np.random.default_rng(1).exponential(size=ROWS) if weighted else None
    integers, exponent = sums_of(columns, weights).integers()
    expected = rational(columns, np.ones(ROWS) if weights is None else weights)
    assert [value * Fraction(2) ** exponent for value in integers] == expected


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(KINDS), st.randoms(use_true_random=False), st.integers(1, 6), st.booleans())
@pytest.mark.slow
def test_any_pieces_in_any_order_give_the_same_bits(kind, random, n_pieces, weighted):
    columns = columns_of(kind)
    weights = np.random.default_rng(2).exponential(size=ROWS) if weighted else np.ones(ROWS)
    order = list(range(ROWS))
    random.shuffle(order)
    parts = [sums_of(columns[rows], weights[rows]) for rows in np.array_split(order, n_pieces)]
    random.shuffle(parts)
    total = ExactGram.empty(3)
    for part in parts:
        total = part.merged(total) if random.random() < 0.5 else total.merged(part)
    assert total == sums_of(columns, weights)


def test_a_digit_too_few_is_noticed(monkeypatch):
    usual = exact_sums.digits_of

    def with_two(*given, **settings):
        found, odd = usual(*given, **settings)
        return exact_sums.Digits(found.values[:2], found.exponents), odd

    monkeypatch.setattr(exact_sums, "digits_of", with_two)
    columns = columns_of("heavy")
    assert sums_of(columns) != sums_of(columns[:100]).merged(sums_of(columns[100:]))


def test_scaling_by_powers_of_four_is_exact():
    columns, weights = columns_of("heavy"), np.random.default_rng(3).exponential(size=ROWS)
    sums = sums_of(columns, weights)
    for power in (-200, -3, 1, 17):
        assert sums.scaled(4.0**power) == sums_of(columns, np.ldexp(weights, 2 * power))
    assert sums.scaled(4.0**-40).scaled(4.0**40) == sums


def test_many_rows_do_not_overflow_a_limb():
    columns = np.full((50_000, 1), 1.0 + 2.0**-40)
    integers, exponent = sums_of(columns).integers()
    assert integers[1] * Fraction(2) ** exponent == 50_000 * Fraction(1.0 + 2.0**-40)


def test_the_factor_of_exact_sums_loses_no_digits():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(500, 4)) + 1e9
    columns[:, 3] = columns[:, 0] + columns[:, 1]  # but for rounding
    columns[:, 2] = 7.0
    matrix = ExactMatrix.of(sums_of(columns))
    factor = matrix.factor()
    centred = columns[:, 0] - np.float64(sum(map(Fraction, columns[:, 0].tolist())) / 500)
    assert factor[1, 1] == pytest.approx(np.linalg.norm(centred), rel=1e-9)
    assert factor[3].tolist() == [0.0] * 5  # a constant column depends on the constant
    shifted = matrix.shifted(np.array([0.0, 1e9, 0.0, 7.0, 0.0]))
    assert shifted.rounded()[3].tolist() == [0.0] * 5


def far_and_dependent():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3_000, 3)) * [1.0, 1e-6, 1e6] + [1e7, 0.0, 0.0]
    X = np.column_stack([X, X[:, 0] + 1e-7 * X[:, 2], np.full(3_000, 5.0)])
    return X, X[:, 0] - 1e6 * X[:, 1] + rng.normal(size=3_000)


def test_models_of_ill_conditioned_rows_are_those_of_a_stream():
    X, y = far_and_dependent()
    shard = OnlineRegression(random_state=0).new_shard(0).partial_fit(X, y)
    stream = OnlineRegression(random_state=0).partial_fit(X, y)
    stream._stream = stream._stream.refit("fit")
    assert shard.regret_.optimum == pytest.approx(stream.regret_.optimum, rel=1e-7)
    np.testing.assert_array_equal(shard.coreset_.ids, stream.coreset_.ids)
    np.testing.assert_allclose(shard.predict(X[:50]), stream.predict(X[:50]), rtol=1e-7)


def test_low_rank_of_rows_of_low_rank_is_that_of_a_stream():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2_000, 2)) @ rng.normal(size=(2, 6))
    shard = OnlineLowRank(2, random_state=0).new_shard(0).partial_fit(X)
    stream = OnlineLowRank(2, random_state=0).partial_fit(X)
    np.testing.assert_array_equal(shard.coreset_.ids, stream.coreset_.ids)
    assert shard.regret_.optimum <= 1e-20 * np.square(X).sum()


def test_an_empty_sketch_has_no_moments_to_settle():
    sketch = Leverage(random_state=0).new_sketch(2, 1).summing().prepared(as_set=True)
    assert sketch.statistics.moments.rows == 0


@pytest.mark.parametrize("sizes", [(4, 1_000, 1), (700,) * 20])
@pytest.mark.slow
def test_columns_that_grow_and_shrink_are_summed_exactly(sizes):
    """Sums stay open from block to block, and are closed where columns are of another size or need other digits."""
    rng, pieces = np.random.default_rng(6), []
    for number, size in enumerate(sizes):
        piece = rng.normal(size=(size, 2)) * 2.0 ** rng.integers(-6, 40 if number % 5 == 4 else 3, size=2)
        pieces.append(np.round(piece) if number % 3 == 2 else piece * (number % 7 != 6))
    sums = ExactGram.empty(3)
    for piece in pieces:
        sums = sums.add((piece,))
    columns = np.concatenate(pieces)
    integers, exponent = sums.integers()
    assert [value * Fraction(2) ** exponent for value in integers] == rational(columns, np.ones(len(columns)))
    assert sums == sums_of(columns)


def test_sums_of_the_smallest_numbers_are_exact():
    columns = np.array([[5e-324, 1.0], [3e-320, 2.0], [1e-310, -3.0]])
    integers, exponent = sums_of(columns).integers()
    assert [value * Fraction(2) ** exponent for value in integers] == rational(columns, np.ones(3))
