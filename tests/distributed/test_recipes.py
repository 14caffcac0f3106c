"""The recipes of ``docs/cluster.md`` for engines that are not Dask, run as they stand."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import batch2online
from batch2online import OnlineRegression

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(batch2online.__file__).parents[1]

BEFORE = """
import copy, functools, os, pickle, sys, warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
import numpy as np
from batch2online import OnlineRegression

warnings.simplefilter("ignore")
N = 6_000
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
y = X @ [1.0, 2.0, 3.0] + rng.normal(size=N)
ranges = list(pairwise([0, 1_000, 2_500, 2_501, 4_000, 6_000]))
model = OnlineRegression(random_state=0)
"""
AFTER = """
expected = OnlineRegression(random_state=0).fit(X, y)
np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-12)
assert fitted.coreset_ == expected.coreset_
print("the same")
"""
PROCESSES = """
import multiprocessing
multiprocessing.set_start_method("fork")
"""
RAY = """
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
"""


def recipe(name):
    """Return the code of the page that begins with this word."""
    page = ROOT.joinpath("docs", "cluster.md").read_text(encoding="utf-8")
    found = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if code.startswith(f"# {name}")]
    assert len(found) == 1
    return found[0]


def run(folder, name, *before, after=AFTER):
    script = folder / "recipe.py"
    script.write_text("\n".join([BEFORE, *before, recipe(name), after]), encoding="utf-8")
    data = folder / "rows"
    data.mkdir()
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SOURCES)}
    command = [sys.executable, str(script), str(data)]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def check(done):
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "the same" in done.stdout


needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed.")


@pytest.mark.slow
@pytest.mark.full
def test_joblib(tmp_path):
    check(run(tmp_path, "joblib"))


@pytest.mark.slow
def test_concurrent_futures(tmp_path):
    check(run(tmp_path, "concurrent.futures", PROCESSES))


@pytest.mark.slow
@needs_ray
@pytest.mark.full
def test_ray(tmp_path):
    check(run(tmp_path, "Ray", RAY))


def test_ids_of_a_shard_must_be_consecutive():
    rows = np.random.default_rng(0).normal(size=(10, 2))
    model = OnlineRegression(random_state=0)
    shard = model.new_shard(100)
    shard.check_ids(np.arange(100, 104)).partial_fit(rows[:4], rows[:4, 0])
    shard.check_ids([]).check_ids(range(104, 110))
    for ids in ([105], [104, 106], [104, 104], [103], [105, 104]):
        with pytest.raises(ValueError, match=r"has the id .* expected 10\d: rows were dropped, repeated or moved"):
            shard.check_ids(ids)
    assert shard.check_ids([104]).partial_fit(rows[4:], rows[4:, 0]).n_seen_ == 10
    with pytest.raises(ValueError, match="Row 0 has the id 1, expected 0"):
        model.new_shard(0).check_ids(np.array([1, 2]))


def test_the_recipes_need_no_later_python():
    for name in ("joblib", "concurrent.futures", "Ray"):
        assert "batched(" not in recipe(name)
        compile(recipe(name), name, "exec")
