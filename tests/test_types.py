"""A user's own file is checked as it should be: by mypy in strict mode and by pyright."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

USER_FILE = """
from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression, coresets, refresh

regression: OnlineRegression = OnlineRegression(epsilon=0.1, refresh=refresh.Geometric(2.0))
same: OnlineRegression = regression.partial_fit([[1.0]], [1.0])
seen: int = same.n_seen_
clustering: OnlineClustering = OnlineClustering(3)
low_rank: OnlineLowRank = OnlineLowRank(2, center=True)
weights: int = len(coresets.Uniform().add([[1.0]]).coreset())
wrapped: BatchToOnline = BatchToOnline(object())
"""
MISTAKES = """
from batch2online import OnlineClustering, OnlineRegression, refresh

OnlineRegression(bogus=1)
OnlineClustering("three")
refresh.Geometric(grwth=2)
number: str = OnlineRegression().n_seen_
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "user.py"
        path.write_text(text)
        return path

    return write


def mypy(path):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={path.parent / 'cache'}",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent)
    return [line for line in done.stdout.splitlines() if ": error:" in line and "user.py" in line], done.stdout


def pyright(path):
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent, timeout=120)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip("pyright needs Node.js, which is not there")
    return [entry["message"] for entry in found if entry["severity"] == "error"], done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_a_users_file_is_right_and_mistakes_are_errors(file, checker):
    pytest.importorskip(checker.__name__)
    errors, output = checker(file(USER_FILE))
    assert errors == [], output
    errors, output = checker(file(MISTAKES))
    assert len(errors) == 4, output
