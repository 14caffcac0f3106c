"""The catalogue of mutants is sound, and tests notice the sample of it that CI runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mutants.catalogue import SOURCE, TESTS, mutants
from mutants.sample import SIZE, sample

LEAST = 200


def test_there_are_enough_mutants():
    assert len(mutants()) >= LEAST


def test_each_mutant_changes_one_place_of_the_code_as_it_is(full):
    faults = {each.name: each.fault(parsed=full) for each in mutants()}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_every_mutant_names_tests_that_are_there_or_is_explained():
    texts = {path.relative_to(TESTS).as_posix(): path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    for mutant in mutants():
        assert mutant.why
        assert bool(mutant.tests) != bool(mutant.equivalent), mutant.name
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert file in texts, test
            assert f"def {name.partition('[')[0].rpartition('::')[2]}" in texts[file], test


def test_no_two_mutants_are_the_same():
    changes = [(mutant.file, mutant.old, mutant.new) for mutant in mutants()]
    assert len(set(changes)) == len(changes)


@pytest.mark.full
def test_tests_notice_the_sample():
    assert len({mutant.name for mutant in sample()}) == SIZE
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "mutants", "--sample"], cwd=TESTS, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
