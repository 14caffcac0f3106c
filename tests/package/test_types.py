"""A user's own file is checked as it should be: by mypy in strict mode and by pyright. No public name is unknown."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import batch2online

NAMES = ("user.py", "mistakes.py", "names.py")
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


def mypy(folder):
    settings = ["--strict", "--config-file=", f"--cache-dir={folder / 'cache'}"]
    done = subprocess.run([sys.executable, "-m", "mypy", *settings, *NAMES], capture_output=True, text=True, cwd=folder)
    kinds = {"error": "error", "note": "information"}
    found = re.findall(r"^(\w+\.py):(\d+): (error|note): (.*)$", done.stdout, re.MULTILINE)
    return [(name, int(line), kinds[kind], text) for name, line, kind, text in found]


def pyright(folder):
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip("pyright needs Node.js, which is not there")
    return [
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["severity"], each["message"])
        for each in found
    ]


@pytest.mark.full
@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_a_checker_knows_every_public_name_and_finds_mistakes(tmp_path, checker):
    """One test, so that the checker runs once: a user's file is right, mistakes are errors, no type is unknown."""
    pytest.importorskip(checker.__name__)
    for name, text in zip(NAMES, (USER_FILE, MISTAKES, revealing_file()), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    said = sorted(set(checker(tmp_path)))
    assert [each for each in said if each[0] == "user.py" and each[2] == "error"] == []
    assert len([each for each in said if each[0] == "mistakes.py" and each[2] == "error"]) == 6
    messages = [text for name, _, kind, text in said if name == "names.py" and kind == "information"]
    found = [re.fullmatch(r'(?:Revealed type|Type of ".*?") is "(.*)"', text, re.DOTALL) for text in messages]
    revealed = [match[1] for match in found if match]
    assert len(revealed) > 200
    assert unknown_names(revealed) == set()
