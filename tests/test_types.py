"""A user's own file is checked as it should be: by mypy in strict mode and by pyright. No public name is unknown."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys

import pytest

import batch2online

USER_FILE = """
from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online import load, refresh

classifier: OnlineClassifier = OnlineClassifier(alpha=0.1)
loaded = load("model.b2o", trusted=["sklearn.linear_model._ridge.Ridge"])
rows: int = loaded.n_seen_
if isinstance(loaded, OnlineRegression):
    fitted: OnlineRegression = loaded.partial_fit([[1.0]], [1.0])
regression: OnlineRegression = OnlineRegression(epsilon=0.1, refresh=refresh.Geometric(2.0))
same: OnlineRegression = regression.partial_fit([[1.0]], [1.0])
seen: int = same.n_seen_
clustering: OnlineClustering = OnlineClustering(3)
low_rank: OnlineLowRank = OnlineLowRank(2, center=True)
weights: int = len(coresets.Uniform().add([[1.0]]).coreset())
wrapped: BatchToOnline = BatchToOnline(object())
"""
MISTAKES = """
from batch2online import OnlineClassifier, OnlineClustering, OnlineRegression, load, refresh

OnlineRegression(bogus=1)
OnlineClassifier(bogus=1)
load(3)
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
    assert len(errors) == 6, output


OF_OTHERS = {"dask.predict", "export.onnx"}
"""Functions that return objects of packages without types, or trees of plain values."""


def public_names():
    """Return each name that a module lists in ``__all__``, with the module; of extras those that are installed."""
    modules = ["batch2online", *(found.name for found in pkgutil.walk_packages(batch2online.__path__, "batch2online."))]
    for module in modules:
        if module.endswith("__main__"):
            continue
        try:
            names = getattr(importlib.import_module(module), "__all__", ())
        except ImportError:  # a package of an extra is missing
            continue
        yield from ((module, name) for name in names)


def unknown_names(revealed):
    """Return which of the names have a type that says nothing, given what a checker says of each."""
    types = dict(zip(public_names(), revealed, strict=True))
    ends = ("Any", "Unknown")
    found = {f"{module}.{name}".removeprefix("batch2online."): text for (module, name), text in types.items()}
    return {name for name, text in found.items() if text.endswith(ends)} - OF_OTHERS


def revealing_file():
    names = list(public_names())
    imports = [f"import {module}" for module in sorted({module for module, _ in names})]
    return "\n".join([*imports, *(f"reveal_type({module}.{name})" for module, name in names)])


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_no_public_name_is_unknown_to_type_checkers(file, checker):
    pytest.importorskip(checker.__name__)
    _, output = checker(file(revealing_file()))
    if checker is mypy:
        revealed = re.findall(r'user\.py:\d+: note: Revealed type is "(.*)"', output)
    else:
        said = [entry for entry in json.loads(output)["generalDiagnostics"] if entry["severity"] == "information"]
        said.sort(key=lambda entry: entry["range"]["start"]["line"])
        revealed = [re.fullmatch(r'Type of ".*?" is "(.*)"', entry["message"], re.DOTALL)[1] for entry in said]
    assert len(revealed) > 200
    assert unknown_names(revealed) == set()
