"""Every estimator and every construction that discovery finds keeps every promise."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from batch2online import coresets
from batch2online.checks import BLOCK, estimator_checks, sketch_checks, small_blocks
from contract import discovery
from contract.cases import CASES, PARTS

ESTIMATORS = discovery.estimators()
FOUND = ESTIMATORS | discovery.constructions()


def cases_of(classes):
    return [pytest.param(case, id=f"{name} {label}") for name in classes for label, case in CASES.get(name, {}).items()]


@pytest.fixture
def blocks_of_few_rows():
    with small_blocks(BLOCK):
        yield


@pytest.mark.parametrize("name", FOUND)
def test_the_registry_says_how_to_make_what_is_found(name):
    discovery.assert_known(name, FOUND[name])


def test_what_is_excused_or_registered_is_there_and_what_is_public_is_not_excused():
    assert set(PARTS) | set(CASES) <= set(FOUND)
    assert not set(PARTS) & set(coresets.__all__)
    assert not set(PARTS) & set(ESTIMATORS)
    for name, cases in CASES.items():
        assert all(type(case.new()) is FOUND[name] for case in cases.values())


@pytest.mark.usefixtures("blocks_of_few_rows")
@pytest.mark.parametrize("case", cases_of(FOUND))
@pytest.mark.parametrize("name", sketch_checks)
@pytest.mark.covering(times=3)
def test_promises_of_all(name, case):
    sketch_checks[name](case)


@pytest.mark.usefixtures("blocks_of_few_rows")
@pytest.mark.parametrize("case", cases_of(ESTIMATORS))
@pytest.mark.parametrize("name", estimator_checks)
@pytest.mark.covering(times=3)
def test_promises_of_estimators(name, case):
    estimator_checks[name](case)


def expected_failures(estimator):
    case = next(c for c in CASES[type(estimator).__name__].values() if repr(c.make()) == repr(estimator))
    return dict(case.expected_failures)


@pytest.mark.covering(axes=lambda estimator, check: (repr(estimator), check.func.__name__))
@parametrize_with_checks(
    [case.make() for name in ESTIMATORS for case in CASES.get(name, {}).values() if case.scikit_learn],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
