"""Stored results: one JSON file for each, with the command, the commit, the date and the kind of machine."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.suite import machine

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "results"


def provenance(command: str) -> dict[str, Any]:
    """What a result says of its origin; a commit with uncommitted changes ends in ``-dirty``."""
    found = machine.description()
    where = {name: found[name] for name in ("processor", "cores", "python")}
    return {
        "command": command,
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": where | {"busy": machine.load()[0] > found["cores"]},
    }


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """All results of a folder by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def write(folder: Path, name: str, result: dict[str, Any]) -> None:
    text = json.dumps(result, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _commit() -> str:
    """The commit of the code that measures; the results beside it may differ."""
    head = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    return "unknown" if head is None else head + ("-dirty" if changes else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
