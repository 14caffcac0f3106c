"""Every block of commands in README.md and docs/ runs as it stands, one after the other in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ELSEWHERE = ("make ", "pip install", "git clone", "cd ", "python -m venv", "python -m benchmarks", "python benchmarks/")
"""Commands that set up a machine, which CI does before, or that are about the repository and take minutes."""


CUT = "head -n 3001 {0}.csv > cut && mv cut {0}.csv"
"""What follows a data set that is written: fewer rows do for finding out that commands run."""


def commands(page):
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    wanted = [line.removeprefix("$ ") for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [line for line in wanted if not line.startswith(ELSEWHERE)]


def programs(page):
    """Return the programs of a page by the names of their files, which their first lines give."""
    blocks = re.findall(
        r"^```python\n# (\w+\.py)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return dict(blocks)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_can_be_pasted(page, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}  # other tests run beside them
    lines = [
        re.sub(r"(datasets --write (\w+))", lambda found: f"{found[1]} && {CUT.format(found[2])}", line)
        for line in commands(page)
    ]
    for name, program in programs(page).items():
        (tmp_path / name).write_text(program, encoding="utf-8")
        assert any(f"python {name}" in line for line in lines), f"no command runs {name}"
    script = "set -euo pipefail\n" + "\n".join(lines)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_the_readme_has_commands_that_are_run():
    assert any(line.startswith("batch2online run") for line in commands(ROOT / "README.md"))


def test_no_command_hides_in_an_indented_block():
    for page in PAGES:
        assert not re.search(r"^    (\$ )?batch2online ", page.read_text(encoding="utf-8"), re.MULTILINE), page
