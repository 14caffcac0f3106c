"""SIGINT to the command line on a busy machine: it ends with its exit code, never by a signal or with a traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import batch2online
from torture.cases import scratch

ROWS = "a,b\n1,2\n3,5\n"
COMMAND = (sys.executable, "-m", "batch2online", "run")
OPTIONS = ("--task", "lowrank", "--k", "1", "--emit", "predictions", "--flush", "0.02")
WAYS = {
    "a pipe that waits": (("-",), 0, 130),
    "a pipe with rows coming": (("-",), 1000, 130),
    "a file that is followed": (("--follow", "rows.csv"), 0, 0),
}
"""What is read, how many rows come (their predictions fit into a pipe), and the exit code."""
AT_ONCE, PATIENCE = 4, 600


def interrupts(count: int, seed: int = 3, loops: int = os.cpu_count() or 2) -> dict[str, int]:
    """So many interrupts, four commands at a time, while loops keep every core busy: exit codes by what was read."""
    ways = [list(WAYS)[number % len(WAYS)] for number in range(count)]
    rng = random.Random(seed)
    delays = [rng.uniform(0, 0.03) for _ in ways]
    with scratch() as folder, busy(loops), ThreadPoolExecutor(AT_ONCE) as pool:
        Path(folder, "rows.csv").write_text(ROWS)
        return dict(Counter(pool.map(lambda way, delay: interrupted(way, delay, folder), ways, delays)))


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep so many cores busy with something else."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def interrupted(way: str, delay: float, folder: str) -> str:
    """Start a command, interrupt it so many seconds after its first prediction, and say how it ended."""
    source, more, code = WAYS[way]
    with subprocess.Popen(
        [*COMMAND, *source, *OPTIONS],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(batch2online.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in the background
    ) as process:
        try:
            process.stdin.write(ROWS.encode())
            process.stdin.flush()
            assert process.stdout.readline().startswith(b'{"row":1,'), process.communicate()
            process.stdin.write(b"2,3\n" * more)
            process.stdin.flush()
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)  # standard input stays open: its end would be another reason to stop
            _, error = process.communicate()
        finally:
            process.kill()
    assert process.returncode == code, f"{way}: exit code {process.returncode}, {error.decode()}"
    assert b"Traceback" not in error, f"{way}: {error.decode()}"
    return f"{way}: exit code {code}"
