"""A service under moderate load for a long time: open files, memory and threads stay as they are.

A round learns rows, predicts, brings late targets, reads everything that can be read, and opens the event stream of the
live page and leaves it, sometimes without closing the connection. Rounds take a
quarter of the time, so that other work goes on.
"""

from __future__ import annotations

import http.client
import random
import sys
import time
from itertools import count as numbers
from pathlib import Path
from typing import Any, NamedTuple

from torture.cases import scratch
from torture.server import Server

SAMPLES = 60
SHARE = 0.25
"""Part of the time that rounds take."""

MODELS: dict[str, dict[str, Any]] = {
    "demand": {"task": "regression", "target": "y"},
    "churn": {"task": "classification", "target": "leaves"},
    "segments": {"task": "clustering", "k": 3},
    "late": {"task": "regression", "target": "y", "half_life": 5_000},
}
READS = (
    *("/", "/models", "/metrics", "/openapi.json", "/v2/models/demand", "/models/none", "/v2/health/ready"),
    *(f"/models/{name}{path}" for name in MODELS for path in ("", "/changes", "/regret", "/coreset")),
    *(f"/models/{name}/report" for name in MODELS),
)


class Use(NamedTuple):
    """What a process holds."""

    memory: int
    files: int
    threads: int

    def __str__(self) -> str:
        return f"{self.memory / 2**20:.1f} MB, {self.files} files, {self.threads} threads"


def steady(seconds: int = 0, seed: int = 0, *, rounds: int | None = None) -> dict[str, int]:
    """Load a service for so many seconds; return how many requests it answered, and what it held at times.

    Instead of a time, a number of rounds may be given. Then files and threads are compared, and memory, which says
    something after an hour alone, is not.
    """
    with scratch() as folder:
        server = Server(Path(folder))
        server.start()
        server.wait()
        try:
            for name, settings in MODELS.items():
                assert server.ask("PUT", f"/models/{name}", settings)[0] == 201
            n_requests, uses = _load(server, seconds, random.Random(seed), rounds)
        finally:
            server.terminate()
    check_flat(uses, with_memory=rounds is None)
    times = {"first": uses[0], "middle": uses[len(uses) // 2], "last": uses[-1]}
    return {"requests answered": n_requests} | {f"sample, {name}: {use}": 1 for name, use in times.items()}


def _load(server: Server, seconds: float, rng: random.Random, rounds: int | None) -> tuple[int, list[Use]]:
    started, uses, n_requests = time.monotonic(), [], 0
    for number in numbers():
        begun = time.monotonic()
        if rounds is not None or begun - started >= len(uses) * seconds / SAMPLES:
            uses.append(Use(server.memory(), server.open_files(), server.threads()))
            print(f"{begun - started:6.0f} s, {n_requests:,} requests, {uses[-1]!s}", file=sys.stderr, flush=True)
        if begun - started >= seconds if rounds is None else number == rounds:
            break
        n_requests += _round(server, rng, number)
        if rounds is None:
            time.sleep((time.monotonic() - begun) * (1 / SHARE - 1))
    return n_requests, uses


def _round(server: Server, rng: random.Random, number: int) -> int:
    """Send the requests of one round; return their number."""
    rows = [_row(rng) for _ in range(100)]
    asked = [{"key": f"{number}.{i}"} | row for i, row in enumerate(rows[:5])]
    targets = [{"key": row["key"], "y": 2 * row["a"]} for row in asked]
    calls: list[tuple[str, Any]] = [
        ("demand/learn", [row | {"y": row["a"] - row["b"] + rng.gauss(0, 1)} for row in rows]),
        ("demand/predict", rows[:1]),
        ("churn/learn", [row | {"leaves": "yes" if row["a"] + rng.gauss(0, 1) > 1 else "no"} for row in rows]),
        ("churn/predict?method=predict_proba", rows[:20]),
        ("segments/learn", rows),
        ("segments/predict", rows[:20]),
        ("late/learn", [row | {"y": 2 * row["a"]} for row in rows[:5]]),
        ("late/predict?key=key", asked),
        ("late/label?key=key", targets),
    ]
    for path, body in calls:
        status, found = server.ask("POST", f"/models/{path}", body, **{"Idempotency-Key": f"{number} {path}"})
        assert status == 200, (path, found)
    assert server.ask("POST", "/models/demand/learn", [{"a": "wrong"}])[0] == 422
    for path in rng.sample(READS, 3):
        assert server.ask("GET", path)[0] in (200, 404), path
    _follow(server, rng)
    return len(calls) + 5


def _row(rng: random.Random) -> dict[str, float]:
    return {"a": rng.gauss(0, 1), "b": rng.gauss(2, 5), "c": rng.random()}


def _follow(server: Server, rng: random.Random) -> None:
    """Open the event stream, read a few lines or nothing, and leave."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/events")
    if rng.random() < 0.8:
        response = connection.getresponse()
        for _ in range(rng.randrange(1, 9)):
            response.fp.readline()
        response.close()
    connection.close()


def check_flat(uses: list[Any], *, with_memory: bool = True) -> None:
    """Compare the second half with the first: memory within 16 MB, files and threads within a few."""
    half = len(uses) // 2
    before, after = ([max(each) for each in zip(*part, strict=True)] for part in (uses[:half], uses[half:]))
    growth = [b - a for a, b in zip(before, after, strict=True)]
    assert not with_memory or growth[0] < 16 * 2**20, f"memory has grown by {growth[0]:,} bytes"
    assert growth[1] < 10, f"{growth[1]} more files are open"
    assert growth[2] < 10, f"{growth[2]} more threads"
