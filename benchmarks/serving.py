"""Load on the service over loopback: rows a second that are acknowledged, and how long predictions take meanwhile.

``python -m benchmarks.serving`` starts ``batch2online serve`` in a process of its own, sends rows of 20 columns in
requests of 1, 100 and 1,000 rows one after the other, and asks for predictions from a second connection while
requests of 1,000 rows are learned. Beside it, in the same run, ten lines of Starlette around an SGDRegressor, which
keep nothing on disk. Takes about two minutes; needs the extra ``serve`` and ``httpx2``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time

import httpx2
import numpy as np

PLAIN = """
import msgspec, numpy as np, sys, uvicorn
from sklearn.linear_model import SGDRegressor
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
model = SGDRegressor()
async def learn(request):
    rows = msgspec.json.decode(await request.body())
    X = np.array([[row[name] for name in row if name != "y"] for row in rows])
    model.partial_fit(X, [row["y"] for row in rows])
    return Response(b"{}")
async def predict(request):
    rows = msgspec.json.decode(await request.body())
    X = np.array([[row[name] for name in row if name != "y"] for row in rows])
    return Response(msgspec.json.encode(model.predict(X).tolist()))
routes = [Route("/models/m/learn", learn, methods=["POST"]), Route("/models/m/predict", predict, methods=["POST"])]
uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level="error", access_log=False)
"""
HEADERS = {"content-type": "application/json"}


def bodies(n: int, size: int) -> list[bytes]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n * size, 20))
    y = X @ rng.normal(size=20) + rng.normal(size=len(X))
    rows = [
        {f"x{j}": value for j, value in enumerate(x)} | {"y": t}
        for x, t in zip(X.round(6).tolist(), y.tolist(), strict=True)
    ]
    return [json.dumps(rows[start : start + size]).encode() for start in range(0, len(rows), size)]


def ready(port: int) -> None:
    for _ in range(600):
        try:
            httpx2.get(f"http://127.0.0.1:{port}/")
            return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise RuntimeError("the service did not start")


def rate(client: httpx2.Client, n: int, size: int) -> float:
    """Return rows a second that are acknowledged."""
    sent = bodies(n, size)
    start = time.perf_counter()
    for body in sent:
        client.post("/models/m/learn", content=body, headers=HEADERS).raise_for_status()
    return n * size / (time.perf_counter() - start)


def concurrent_rate(port: int, n: int, size: int, connections: int = 8) -> float:
    """Return rows a second with several connections."""
    sent = bodies(n, size)

    async def run() -> float:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

            async def worker(own: list[bytes]) -> None:
                for body in own:
                    (await client.post("/models/m/learn", content=body, headers=HEADERS)).raise_for_status()

            start = time.perf_counter()
            await asyncio.gather(*(worker(sent[i::connections]) for i in range(connections)))
            return n * size / (time.perf_counter() - start)

    return asyncio.run(run())


def latencies(port: int, client: httpx2.Client, seconds: float = 10.0) -> list[float]:
    """Return how long predictions of one row took, in milliseconds, while rows were learned."""
    stop, learned = threading.Event(), bodies(50, 1_000)

    def learn() -> None:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as other:
            while not stop.is_set():
                for body in learned:
                    other.post("/models/m/learn", content=body, headers=HEADERS)
                    if stop.is_set():
                        break

    thread = threading.Thread(target=learn)
    thread.start()
    (body,), found, until = bodies(1, 1), [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        client.post("/models/m/predict", content=body, headers=HEADERS).raise_for_status()
        found.append(1e3 * (time.perf_counter() - start))
        time.sleep(0.005)
    stop.set()
    thread.join()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = [sys.executable, "-m", "batch2online", "serve", folder, "--port", "8741"]
        plain = [sys.executable, "-c", PLAIN, "8742"]
        for name, command, port in (("batch2online serve", ours, 8741), ("Starlette + SGDRegressor", plain, 8742)):
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                ready(port)
                with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                    client.put("/models/m", json={"task": "regression", "target": "y"})
                    rate(client, 20, 1_000)
                    for n, size in ((500, 1), (200, 100), (100, 1_000)):
                        print(f"{name}: {rate(client, n, size):,.0f} rows/s in requests of {size:,}", flush=True)
                    print(f"{name}: {concurrent_rate(port, 100, 1_000):,.0f} rows/s, 8 connections, 1,000 a request")
                    p50, p99, longest = np.percentile(latencies(port, client), [50, 99, 100])
                    print(f"{name}: predictions p50 {p50:.1f}, p99 {p99:.1f}, longest {longest:.1f} ms while learning")
            finally:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
