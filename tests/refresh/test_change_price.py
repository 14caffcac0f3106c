"""Adaptive while rows are few: checks at doublings replace the model, and the price of changes limits the tolerance."""

from __future__ import annotations

import math

import pytest

from batch2online.refresh import Adaptive


def largest(policy, noise):
    policy = policy.priced(1000, 1000 * noise)
    return max(policy.cost_tolerance(0, n, noise) for n in range(1000, 1200)) - 1


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 4e-3, 1e-5])
def test_a_price_of_changes_limits_the_tolerance_while_noise_is_large(noise):
    policy = Adaptive(kappa=2.5, change_price=0.005)
    assert largest(policy, noise) == pytest.approx(min(2.5, max(1, math.sqrt(0.01 / noise))) * noise, rel=0.02)
    assert largest(Adaptive(kappa=2.5), noise) == pytest.approx(2.5 * noise, rel=0.02)


def test_a_floor_counts_beside_a_price():
    assert largest(Adaptive(floor=0.2, change_price=1e-6), 0.1) == pytest.approx(0.2, rel=0.02)
    assert largest(Adaptive(floor=0.2, change_price=1e-6), 0.0) == pytest.approx(0.2, rel=0.02)


def test_while_rows_are_few_checks_double_and_replace():
    policy = Adaptive(growth=1.2, start=10).with_few_rows(100)
    times = [10]
    while times[-1] < 300:
        times.append(policy.next_check(times[-1]))
    assert times == [10, 20, 40, 80, 160, 192, 231, 278, 334]
    assert [policy.first_check_after(n) for n in (9, 10, 79, 80, 200)] == [10, 20, 80, 160, 231]
    assert policy.cost_tolerance(0, 99, 0.1) == 0
    assert policy.cost_tolerance(0, 100, 0.1) > 1
    assert not policy.can_skip(99, gain=0.0, noise=0.1, rise=0.0, growth=1.2)


def test_a_number_of_few_rows_that_is_given_is_kept():
    assert Adaptive(few_rows=0).with_few_rows(100).few_rows == 0
    assert Adaptive(growth=3.0, few_rows=50).next_check(10) == 30


@pytest.mark.parametrize(
    ("settings", "found"),
    [({"change_price": 0.0}, "change_price"), ({"few_rows": -1}, "few_rows"), ({"few_rows": 1.5}, "few_rows")],
)
def test_settings_are_checked(settings, found):
    with pytest.raises(ValueError, match=found):
        Adaptive(**settings)
