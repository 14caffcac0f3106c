"""Tests run against a mutant: in a forked process, on a copy of the source.

NumPy, SciPy, scikit-learn and pytest are imported once, before the fork; the package itself is not.
"""

from __future__ import annotations

import compileall
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import hypothesis  # noqa: F401
import joblib  # noqa: F401
import numpy  # noqa: F401
import pytest
import scipy.linalg  # noqa: F401
import sklearn.cluster
import sklearn.ensemble
import sklearn.linear_model
import sklearn.utils.estimator_checks  # noqa: F401
import threadpoolctl  # noqa: F401

from mutants.catalogue import SOURCE, TESTS, Mutant

_FORK = get_context("fork")
_BROKEN = 3
_OUTCOMES = {0: "survived", 1: "killed", 2: "broken", 3: "broken", 4: "unknown tests", 5: "unknown tests"}


@contextmanager
def source_copy() -> Iterator[Path]:
    """Give a copy of ``src``, compiled, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(copy, quiet=2)
        yield copy


def outcome(mutant: Mutant, copy: Path, seconds: float) -> str:
    """Say what the mutant's tests make of it: "killed" if one of them fails, or if they hang."""
    if mutant.fault():
        return "stale"
    original = copy.parent / "original.py"
    changed = copy / "batch2online" / mutant.file
    shutil.copy2(changed, original)
    try:
        mutant.apply(copy / "batch2online")
        return run(mutant.tests, copy, seconds)
    finally:
        shutil.copy2(original, changed)


def run(tests: Sequence[str], copy: Path, seconds: float) -> str:
    """Run tests on a copy of the source; "survived" if they all pass."""
    process = _FORK.Process(target=_test, args=(list(tests), copy))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return "killed"
    return _OUTCOMES.get(process.exitcode or 0, "killed")


def _test(tests: list[str], copy: Path) -> None:
    """Run pytest in this process, which ends with its exit code."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(copy))
    os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
    os.chdir(TESTS)
    folder = copy.parent / f"pytest-{time.monotonic_ns()}"
    quiet = ["-q", "-x", "--tb=line", "--no-header", "-p", "no:cacheprovider", f"--basetemp={folder}"]
    code = _BROKEN
    try:
        if not os.environ.get("MUTANTS_VERBOSE"):
            _be_silent()
        code = int(pytest.main([*quiet, "-W", "ignore::pytest.PytestAssertRewriteWarning", *tests]))
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(code)


def _be_silent() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
