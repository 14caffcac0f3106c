"""docs/paper.md, docs/theory.md and docs/proofs.md name functions and tests; all of them must exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import batch2online
from batch2online import results, sampling
from batch2online.methods import scores
from batch2online.theory import bounds

ROOT = Path(__file__).parents[2]
PAPER, ERRATA, PROOFS = (
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("paper.md", "theory.md", "proofs.md")
)
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
MODULES = {"bounds": bounds, "sampling": sampling, "regret": results, "scores": scores}


def named(pattern):
    return sorted(set(re.findall(pattern, PAPER + ERRATA + PROOFS)))


@pytest.mark.parametrize("name", named(r"`(test_\w+?)(?:_?\.\.\.)?`"))
def test_every_test_named_exists(name):
    assert f"def {name}" in TESTS


@pytest.mark.parametrize("name", named(r"`(?:tests/)?([\w/]+/test_\w+\.py)`"))
def test_every_file_named_exists(name):
    assert (ROOT / "tests" / name).is_file()


@pytest.mark.parametrize(
    "name", named(r"`((?:theory|reference|coresets|refresh|evaluate|baselines|scores|sampling|regret)\.\w+)")
)
def test_every_function_named_exists(name):
    module, attribute = name.split(".")
    home = MODULES.get(module) or getattr(batch2online, module)
    assert hasattr(home, attribute)


def test_every_algorithm_and_theorem_of_the_paper_is_on_the_page():
    for item in [*(f"Algorithm {k}" for k in range(1, 8)), "Theorem 4.1", "Theorem 6.1", "Theorem 7.2", "Theorem 8.1"]:
        assert item in PAPER
    assert all(f"\n{slip}. **" in ERRATA for slip in range(1, 11))


def test_every_statement_of_ours_has_a_number_of_its_own():
    ours = PROOFS[PROOFS.index("## Our statements and their proofs") :]
    numbered = re.findall(r"(?:^### |\*\*)((?:Lemma|Theorem) \d+)(?= \(|\.\*\*)", ours, flags=re.MULTILINE)
    assert len(numbered) >= 13
    assert len(set(numbered)) == len(numbered)
