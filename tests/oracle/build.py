"""Build the package of an earlier commit under another name: ``python tests/oracle/build.py``, which ``make`` runs.

The wheel in ``.oracle/`` holds ``batch2online_oracle``, whose results later versions are compared with bit for bit.
It is built from the history; a checkout without that commit has none, and the tests that need it are skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

COMMIT = "ac049e58ccb9e578cacff7133f6ee0d383dbd3aa"
ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / ".oracle"
NAME = re.compile(r"(?<![\w/@])batch2online(?=\.(?!readthedocs))|(?<=import )batch2online\b|(?<=from )batch2online\b")
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "batch2online-oracle"
version = "0"
[tool.hatch.build.targets.wheel]
packages = ["batch2online_oracle"]
"""


def build() -> None:
    """Build the wheel and install it beside the package."""
    archive = subprocess.run(["git", "archive", COMMIT, "src/batch2online"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        sys.exit(print(f"No oracle: the history lacks {COMMIT[:8]}. Tests that compare with it are skipped."))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        package = (Path(folder) / "src/batch2online").rename(Path(folder) / "batch2online_oracle")
        for path in package.rglob("*.py"):
            path.write_text(NAME.sub("batch2online_oracle", path.read_text(encoding="utf-8")), encoding="utf-8")
        (Path(folder) / "pyproject.toml").write_text(PROJECT)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", WHEELS, folder], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--force-reinstall", *WHEELS.glob("*.whl")], check=True)


if __name__ == "__main__":
    build()
