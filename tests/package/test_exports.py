"""What the package offers, and what importing it costs."""

import importlib.metadata
import subprocess
import sys

import pytest

import batch2online


@pytest.mark.parametrize("name", batch2online.__all__)
def test_every_public_name_can_be_imported(name):
    namespace = {}
    exec(f"from batch2online import {name}", namespace)
    assert namespace[name] is getattr(batch2online, name)
    assert name in dir(batch2online)


def test_unknown_names_are_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="no attribute 'OnlineNothing'"):
        _ = batch2online.OnlineNothing


def test_the_version_is_that_of_the_distribution():
    assert batch2online.__version__ == importlib.metadata.version("batch2online")


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import batch2online", {"numpy", "scipy", "sklearn", "pandas"}),
        ("from batch2online import coresets, reference, refresh, theory", {"sklearn"}),
    ],
)
@pytest.mark.slow
def test_imports_bring_in_no_more_than_they_need(statement, absent):
    command = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.split()
    assert absent.isdisjoint(loaded)
