"""Kill a run with SIGKILL at random moments, resume it, and compare everything it writes with an undisturbed run."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

import batch2online.cli.commands.run
import batch2online.cli.run.outputs  # noqa: F401  (imported before the forks)
from batch2online.cli.app import run_safely

NAMES = ("model.b2o", "coreset.parquet", "coreset.csv", "changes.jsonl", "report.html", "result.json")


def write_stream(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 6))
    y = X @ np.arange(1.0, 7.0) + rng.standard_normal(rows)
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt="%.5f", header="a,b,c,d,e,f,y", comments="")


def start(path: Path, task: list[str], *words: object) -> BaseProcess:
    """A run in a process of its own, forked from this one so that imports are done once."""
    command = ["run", str(path), *task, "--quiet", "--chunk", "1000", *map(str, words)]
    process = get_context("fork").Process(target=run_quietly, args=(command,))
    process.start()
    return process


def run_quietly(command: list[str]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(run_safely(command))


def exit_code(process: BaseProcess) -> int | None:
    process.join()
    return process.exitcode


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in NAMES}


def resumed_after_kill(path: Path, task: list[str], folder: Path, moment: float) -> tuple[bool, dict[str, bytes]]:
    """Whether the kill came in time, and what the resumed run wrote."""
    shutil.rmtree(folder, ignore_errors=True)
    words = ("--state", folder / "state", "--state-every", 0.02, "--out", folder / "out")
    process = start(path, task, *words)
    time.sleep(moment)
    process.kill()
    killed = exit_code(process) == -signal.SIGKILL
    assert exit_code(start(path, task, *words)) == 0
    return killed, contents(folder / "out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--task", nargs="+", default=["--task", "regression", "--target", "y"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "stream.csv"
        write_stream(path, arguments.rows)
        started = time.perf_counter()
        words = ("--state", folder / "first", "--state-every", 0.02, "--out", folder / "undisturbed")
        assert exit_code(start(path, arguments.task, *words)) == 0
        duration = time.perf_counter() - started
        expected = contents(folder / "undisturbed")
        generator, runs, kills, wrong = random.Random(0), 0, 0, 0
        while kills < arguments.kills:  # a run that was faster than its killer is another one, but no kill
            killed, found = resumed_after_kill(path, arguments.task, folder / "run", generator.uniform(0, duration))
            runs, kills, wrong = runs + 1, kills + killed, wrong + (found != expected)
            print(f"{kills} killed in {runs} runs of {duration:.1f} s, {wrong} ended differently", end="\r", flush=True)
        print()


if __name__ == "__main__":
    main()
