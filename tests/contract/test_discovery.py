"""A class put into the package is found, and fails the contract when it breaks one rule."""

from __future__ import annotations

import importlib
import sys

import pytest

import batch2online.methods
import batch2online.sketches
from batch2online import estimator, schema
from batch2online.checks import BLOCK, Case, estimator_checks, sketch_checks, small_blocks
from contract import discovery

CONSTRUCTION = """
from batch2online.coresets import Uniform
from batch2online.extend import storable


@storable
class Planted(Uniform):
    {broken}
"""
ESTIMATOR = """
from batch2online import OnlineRegression


class PlantedRegression(OnlineRegression):
    {broken}
"""
CONSTRUCTIONS = {
    "nothing": ("pass", set()),
    "depends on chunks": (
        "def add(self, rows, targets=None, weights=None):\n        last = max(1, len(rows) - 1)\n"
        "        return super().add(rows[:last], targets[:last], None if weights is None else weights[:last])",
        {"chunks_do_not_matter"},
    ),
    "merges without the other's weights": (
        "def merge(self, other):\n        mine = self.sketch and self.sketch.statistics\n"
        "        super().merge(other)\n"
        "        self.sketch.statistics = mine or self.sketch.statistics\n        return self",
        {"shards_merged_in_any_order_are_one_stream"},
    ),
    "learns before it checks": (
        "def add(self, rows, targets=None, weights=None):\n        self.epsilon = self.epsilon + 1e-9\n"
        "        return super().add(rows, targets, weights)",
        {"bad_input_is_refused_by_row_and_column"},
    ),
    "forgets other rows": (
        "def forget(self, ids):\n        return super().forget([i + 1 for i in ids])",
        {"forgotten_rows_were_never_there"},
    ),
    "keeps a part of its state to itself": (
        "_calls = 0\n\n    def add(self, rows, targets=None, weights=None):\n        self._calls += 1\n"
        "        return super().add(rows * self._calls, targets, weights)",
        {"a_saved_subject_continues_where_it_was"},
    ),
    "shares with its copies": (
        "def __deepcopy__(self, memo):\n        return self",
        {"copies_continue_alike_and_leave_the_original_alone"},
    ),
    "gives a weight of zero an id": (
        "def add(self, rows, targets=None, weights=None):\n        from numpy import maximum\n"
        "        return super().add(rows, targets, None if weights is None else maximum(weights, 1e-9))",
        {"a_weight_of_zero_is_as_if_the_row_were_absent"},
    ),
}
ESTIMATORS = {
    "nothing": ("pass", set()),
    "takes no sparse rows": (
        "def partial_fit(self, X, y=None, sample_weight=None):\n        import numpy as np\n"
        "        return super().partial_fit(np.asarray(X), y, sample_weight)",
        {"sparse_rows_are_dense_rows"},
    ),
    "sees single rows another way": (
        "def learn_one(self, x, y=None):\n        return super().learn_one(x, y * (1 + 1e-12))",
        {"single_rows_are_chunks_of_one_row"},
    ),
    "answers from two versions": (
        "def predict(self, X):\n        import time\n        seen = self.n_seen_\n        time.sleep(0.002)\n"
        "        return super().predict(X) + (self.n_seen_ != seen)",
        {"readers_in_other_threads_see_one_version_at_a_time"},
    ),
    "is changed by looking": (
        "@property\n    def coreset_(self):\n        vars(self._stream.state)['loss'] += 1.0\n"
        "        return self._stream.coreset()",
        {"reading_changes_nothing"},
    ),
}


@pytest.fixture(autouse=True)
def blocks_of_few_rows():
    with small_blocks(BLOCK):
        yield


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """A function that puts a module into a package for the time of a test."""

    def put(package, source):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "planted.py").write_text(source)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        monkeypatch.delitem(sys.modules, f"{package.__name__}.planted", raising=False)
        importlib.invalidate_caches()

    yield put
    for package in (batch2online.sketches, batch2online.methods):
        sys.modules.pop(f"{package.__name__}.planted", None)
        vars(package).pop("planted", None)
    schema.classes.pop("Planted", None)
    estimator.estimators.pop("PlantedRegression", None)


def broken_promises(case, names):
    """Which of these promises the case breaks; a class with nothing broken must keep all that others break."""
    broken = set()
    for name in names:
        try:
            (sketch_checks | estimator_checks)[name](case)
        except Exception:
            broken.add(name)
    return broken


@pytest.mark.parametrize("rule", CONSTRUCTIONS)
def test_a_construction_that_breaks_a_rule_is_found_and_fails(rule, plant):
    source, expected = CONSTRUCTIONS[rule]
    plant(batch2online.sketches, CONSTRUCTION.format(broken=source))
    cls = discovery.constructions()["Planted"]
    names = expected or set().union(*(broken for _, broken in CONSTRUCTIONS.values()))
    assert broken_promises(Case(cls, targets="numbers"), names) == expected


@pytest.mark.parametrize("rule", ESTIMATORS)
def test_an_estimator_that_breaks_a_rule_is_found_and_fails(rule, plant):
    source, expected = ESTIMATORS[rule]
    plant(batch2online.methods, ESTIMATOR.format(broken=source))
    cls = discovery.estimators()["PlantedRegression"]
    names = expected or set().union(*(broken for _, broken in ESTIMATORS.values()))
    assert broken_promises(Case(cls, targets="numbers"), names) == expected


def test_a_class_that_nobody_knows_how_to_make_fails_with_its_name(plant):
    plant(batch2online.methods, ESTIMATOR.format(broken="pass"))
    cls = discovery.estimators()["PlantedRegression"]
    with pytest.raises(AssertionError, match=r"methods\.planted\.PlantedRegression is in the package, but"):
        discovery.assert_known("PlantedRegression", cls)


def test_what_is_planted_is_gone_afterwards():
    assert "Planted" not in discovery.constructions()
    assert "PlantedRegression" not in discovery.estimators()
