"""One name for one thing, and every module in its layer."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "batch2online"
UNLAYERED = {"__init__", "__main__"}


def classes():
    """Where each class of the package is defined, by its name."""
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    return places


def layers():
    """The modules that pyproject.toml names, without the package's own name."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [name.removeprefix("batch2online.") for layer in contract["layers"] for name in re.findall(r"[\w.]+", layer)]


def modules(folder):
    """Names of the modules and packages in a folder of the package."""
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return {name for name in found if name not in UNLAYERED}


def test_every_class_name_is_defined_once():
    assert {name: places for name, places in classes().items() if len(places) > 1} == {}


def test_every_module_is_in_one_layer():
    named = layers()
    assert len(named) == len(set(named))
    for name in modules(PACKAGE):
        inside = {layer.partition(".")[2] for layer in named if layer.startswith(f"{name}.")}
        assert (name in named) != bool(inside), name
        assert not inside or modules(PACKAGE / name) <= inside, name


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("numerics/distances.py", "", None),
        ("numerics/distances.py", "from batch2online.rows import Rows", "numerics.distances -> batch2online.rows"),
        (
            "methods/clustering/solver.py",
            "def late():\n    from batch2online.evaluate import progressive_validation",
            "methods.clustering.solver -> batch2online.evaluate",
        ),
    ],
)
def test_an_upward_import_fails_the_lint(tmp_path, module, line, broken):
    pytest.importorskip("importlinter")
    shutil.copytree(PACKAGE, tmp_path / "batch2online", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "batch2online" / module).open("a") as file:
        file.write(f"\n\n{line}\n")
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"]
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    lint = subprocess.run(command + settings, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert lint.returncode == (broken is not None), lint.stdout
    assert broken is None or broken in lint.stdout


def test_the_page_on_architecture_lists_every_folder_and_module():
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page[page.index("## Folders") : page.index("## Where to add")]
    listed = set(re.findall(r"`(\w+)(?:/|\.py)`", table.replace("`estimator.py`, `", "`estimator.py` `")))
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - listed <= {"__init__", "__main__", "_types", "extend", "dask", "spark"}
    assert listed <= there | {"problem", "sketch", "solver"}
