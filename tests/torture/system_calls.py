"""Faults below Python: strace lets the n-th system call of a writing process fail, or kills the process there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np

from batch2online.persistence.store import Store, StoreError
from torture.faults import Unsynced
from torture.stores import content, scratch

CALLS = ("writev", "fsync", "rename")
FAULTS = ("error=EIO", "error=ENOSPC", "signal=SIGKILL")
IS_AVAILABLE = shutil.which("strace") is not None


def rows(n: int) -> np.ndarray:
    return np.arange(3.0 * n).reshape(n, 3)


def write(folder: str) -> None:
    """Append rows and tell how many are acknowledged; what the traced process does."""
    try:
        with Store.create(folder, 3, sync="always", segment_bytes=500) as opened:
            for _ in range(8):
                opened.append(rows(len(opened) + 5)[-5:])
                print(len(opened), flush=True)
    except StoreError:
        print("typed error", flush=True)


def every_fault(calls=CALLS, faults=FAULTS, every: int = 1) -> dict[str, int]:
    """Each call of each kind in each way: typed error or death, no acknowledged row lost, the store opens again."""
    outcomes: Counter[str] = Counter()
    for call in calls:
        for fault in faults:
            for index in count(1, every):
                with scratch() as folder:
                    outcome = one_fault(folder, call, fault, index)
                if outcome is None:
                    break
                outcomes[f"{call} {fault}: {outcome}"] += 1
    return dict(outcomes)


def one_fault(folder: Path, call: str, fault: str, index: int) -> str | None:
    trace = folder / "trace"
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={index}", "-o", str(trace)]
    program = [sys.executable, "-m", "torture.system_calls", str(folder / "store")]
    place = Path(__file__).parent.parent
    done = subprocess.run(["strace", "-f", *inject, *program], cwd=place, capture_output=True, text=True, check=False)
    lines = done.stdout.split("\n")[:-1]
    if not is_injected(trace, fault):
        assert lines[-1] == "40", done.stderr
        return None
    check(folder / "store", [int(line) for line in lines if line.isdigit()])
    return "typed error" if lines[-1:] == ["typed error"] else "killed" if "SIGKILL" in fault else "no harm"


def is_injected(trace: Path, fault: str) -> bool:
    return ("SIGKILL" if "SIGKILL" in fault else "INJECTED") in trace.read_text()


def check(folder: Path, acknowledged: list[int]) -> None:
    if not acknowledged and not list(folder.glob("*.rows")):
        return
    with Store.open(folder, files=Unsynced()) as opened:
        n = len(opened)
        assert n >= max(acknowledged, default=0)
        assert np.array_equal(content(opened), rows(n))


if __name__ == "__main__":
    write(sys.argv[1])
