"""Modules that commands import on first use."""

import subprocess
import sys

import pytest

from batch2online.app.cli.lazy_modules import LazyModule, import_scikit_learn


@pytest.fixture
def module(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    lazy = LazyModule("colorsys")
    monkeypatch.setitem(sys.modules, "colorsys", lazy)
    return lazy


def test_a_module_is_imported_when_an_attribute_is_read(module):
    import colorsys

    assert colorsys is module
    assert "ONE_THIRD" not in vars(module)
    assert colorsys.rgb_to_hsv(1.0, 0.0, 0.0) == (0.0, 1.0, 1.0)
    assert vars(module)["ONE_THIRD"] == pytest.approx(1 / 3)
    assert sys.modules["colorsys"] is not module


def test_an_attribute_that_a_module_lacks_is_an_error(module):
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


def test_modules_that_were_imported_stay_as_they_are():
    before = dict(sys.modules)
    import_scikit_learn()
    assert all(sys.modules[name] is module for name, module in before.items())


@pytest.mark.slow
def test_scikit_learn_works_with_modules_that_are_imported_later():
    code = """
import sys
from batch2online.app.cli.lazy_modules import import_scikit_learn
import_scikit_learn()
assert not {"pandas", "scipy.stats"} & set(sys.modules)
from sklearn.utils import fixes
assert fixes.scipy.stats.norm.cdf(0) == 0.5
assert fixes.pd is None or fixes.pd.DataFrame({"a": [1]}).shape == (1, 1)
from sklearn.linear_model import LogisticRegression
LogisticRegression().fit([[0.0], [1.0]], [0, 1])
"""
    subprocess.run([sys.executable, "-c", code], check=True)
