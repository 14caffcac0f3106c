"""The recipes of ``docs/cluster.md`` for engines that are not Dask, run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import batch2online

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


RECIPES = {"joblib": "", "concurrent.futures": PROCESSES, "Ray": RAY}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.full) for name in RECIPES])
def test_a_recipe_gives_the_model_of_one_machine(tmp_path, name):
    if name == "Ray":
        pytest.importorskip("ray", reason="Ray is not installed.")
    script = tmp_path / "recipe.py"
    script.write_text("\n".join([BEFORE, RECIPES[name], recipe(name), AFTER]), encoding="utf-8")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "the same" in done.stdout
