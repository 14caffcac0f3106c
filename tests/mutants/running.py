"""Tests on a copy of the source that holds a mutant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutants.catalogue import Mutant

_OUTCOMES = {0: "SURVIVED", 1: "detected"}


def outcome(mutant: Mutant, root: Path, seconds: float) -> str:
    """Return what the test of a mutant makes of it: "detected" if it fails, "hangs" if it does not end."""
    path, text = mutant.changed(root)
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        shutil.copytree(root / "src", Path(name) / "src")
        (Path(name) / path).write_text(text, "utf-8")
        try:
            code = run([mutant.test], root, Path(name) / "src", timeout=seconds, stdout=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "hangs"
    return _OUTCOMES.get(code, f"BROKEN: pytest ends with {code}")


def run(tests: list[str], root: Path, source: Path, **options: object) -> int:
    """Return the exit code of pytest on this source."""
    environment = os.environ | {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-qx", "--tb=short", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=root / "tests", env=environment, stderr=subprocess.STDOUT, **options).returncode
