"""Load on the service over loopback: rows a second that are acknowledged, and how long predictions take meanwhile.

``python -m benchmarks.serving`` starts ``batch2online serve`` in a process of its own and sends rows of 20 columns, in
requests of 1, 100 and 1,000 rows one after the other, in other formats, and over eight connections. It asks for
predictions of one row, alone, while rows are learned, and while another model is refitted on 100,000 rows. Beside it,
in the same run, ten lines of Starlette around an SGDRegressor and around River, which keep nothing on disk. Processor
time is that of the server. Takes about three minutes; needs the extras ``serve`` and ``river``, and ``httpx2``.
"""

from __future__ import annotations

import asyncio
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import numpy as np
import pyarrow as pa
import pyarrow.csv

PLAIN = """
import msgspec, numpy as np, sys, uvicorn
from river import linear_model, preprocessing
from sklearn.linear_model import SGDRegressor
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def learn(request):
    learn_rows(msgspec.json.decode(await request.body()))
    return Response(b"{}")
async def predict(request):
    return Response(msgspec.json.encode(predict_rows(msgspec.json.decode(await request.body()))))
routes = [Route("/models/m/learn", learn, methods=["POST"]), Route("/models/m/predict", predict, methods=["POST"])]
"""
SGD = """
model = SGDRegressor()
def array(rows): return np.array([[row[name] for name in row if name != "y"] for row in rows])
def learn_rows(rows): model.partial_fit(array(rows), [row["y"] for row in rows])
def predict_rows(rows): return model.predict(array(rows)).tolist()
"""
RIVER = """
model = preprocessing.StandardScaler() | linear_model.LinearRegression()
def learn_rows(rows):
    for row in rows: model.learn_one(row, row.pop("y"))
def predict_rows(rows): return [model.predict_one(row) for row in rows]
"""
RUN = "uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level='error', access_log=False)"
BOOSTING = {
    "task": "regression",
    "target": "y",
    "estimator": "sklearn.ensemble.HistGradientBoostingRegressor",
    "coreset_size": 200_000,
}
"""A model that is refitted on all rows at each of its checks."""

JSON, LINES, CSV, ARROW = (
    "application/json",
    "application/x-ndjson",
    "text/csv",
    "application/vnd.apache.arrow.stream",
)


def table(n: int) -> pa.Table:
    """Return rows of 20 columns and a target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20)).round(6)
    columns = {f"x{j}": X[:, j] for j in range(20)}
    return pa.table(columns | {"y": X @ rng.normal(size=20) + rng.normal(size=n)})


def body(rows: pa.Table, kind: str) -> bytes:
    """Return rows as the body of a request."""
    if kind == JSON:
        return json.dumps(rows.to_pylist()).encode()
    if kind == LINES:
        return b"\n".join(json.dumps(row).encode() for row in rows.to_pylist())
    out = io.BytesIO()
    if kind == CSV:
        pyarrow.csv.write_csv(rows, out)
    else:
        with pa.ipc.new_stream(out, rows.schema) as writer:
            writer.write_table(rows)
    return out.getvalue()


def bodies(n: int, size: int, kind: str = JSON) -> list[bytes]:
    rows = table(n * size)
    return [body(rows.slice(start, size), kind) for start in range(0, n * size, size)]


def connect(port: int) -> httpx2.Client:
    return httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)


class Server:
    """A process, and a connection to it."""

    def __init__(self, command: list[str], port: int) -> None:
        self.process, self.port = subprocess.Popen(command, stderr=subprocess.DEVNULL), port
        for _ in range(600):
            try:
                httpx2.get(f"http://127.0.0.1:{port}/")
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        self.client = connect(port)

    def processor_seconds(self) -> float:
        """Return the processor time that the server has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def learn(self, content: bytes, kind: str = JSON, model: str = "m") -> None:
        found = self.client.post(f"/models/{model}/learn", content=content, headers={"content-type": kind})
        found.raise_for_status()


@contextmanager
def started(command: list[str], port: int) -> Iterator[Server]:
    server = Server(command, port)
    try:
        yield server
    finally:
        server.client.close()
        server.process.terminate()
        server.process.wait()


def rate(server: Server, n: int, size: int, kind: str = JSON) -> str:
    """Return rows a second that are acknowledged, and the processor time of the server for 1,000 of them."""
    sent = bodies(n, size, kind)
    start, used = time.perf_counter(), server.processor_seconds()
    for content in sent:
        server.learn(content, kind)
    return _rate(n * size, time.perf_counter() - start, server.processor_seconds() - used)


def concurrent_rate(server: Server, n: int, size: int, connections: int = 8) -> str:
    """Return the same with several connections."""
    sent = bodies(n, size)

    async def run() -> float:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:

            async def worker(own: list[bytes]) -> None:
                for content in own:
                    found = await client.post("/models/m/learn", content=content, headers={"content-type": JSON})
                    found.raise_for_status()

            start = time.perf_counter()
            await asyncio.gather(*(worker(sent[i::connections]) for i in range(connections)))
            return time.perf_counter() - start

    used = server.processor_seconds()
    return _rate(n * size, asyncio.run(run()), server.processor_seconds() - used)


def _rate(n: int, seconds: float, used: float) -> str:
    return f"{n / seconds:10,.0f} rows/s, {1e6 * used / n:8,.2f} ms of processor for 1,000 rows"


def latencies(server: Server, meanwhile: Callable[..., None], *arguments: object, seconds: float = 10.0) -> str:
    """Return how long predictions of one row take while another process does something."""
    other = multiprocessing.Process(target=meanwhile, args=(server.port, *arguments))
    other.start()
    row = body(table(1).drop_columns(["y"]), JSON)
    found, until = list[float](), time.perf_counter() + seconds
    while time.perf_counter() < until and other.is_alive():
        start = time.perf_counter()
        server.client.post("/models/m/predict", content=row, headers={"content-type": JSON}).raise_for_status()
        found.append(1e3 * (time.perf_counter() - start))
        time.sleep(0.005)
    other.terminate()
    other.join()
    p50, p99, longest = np.percentile(found, [50, 99, 100])
    return f"p50 {p50:.1f}, p99 {p99:.1f}, longest {longest:.1f} ms of {len(found):,}"


def learn_forever(port: int, sent: list[bytes]) -> None:
    with connect(port) as client:
        while True:
            for content in sent:
                client.post("/models/m/learn", content=content, headers={"content-type": JSON})


def learn_once(port: int, model: str, content: bytes) -> None:
    with connect(port) as client:
        client.post(f"/models/{model}/learn", content=content, headers={"content-type": ARROW}).raise_for_status()


def nothing(port: int) -> None:
    time.sleep(60)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "batch2online serve": [sys.executable, "-m", "batch2online", "serve", folder, "--port", "8741"],
            "Starlette + SGDRegressor": [sys.executable, "-c", PLAIN + SGD + RUN, "8742"],
            "Starlette + River": [sys.executable, "-c", PLAIN + RIVER + RUN, "8743"],
        }
        print(f"load of the machine: {os.getloadavg()}")
        for port, (name, command) in enumerate(commands.items(), 8741):
            is_ours = port == 8741
            with started(command, port) as server:
                server.client.put("/models/m", json={"task": "regression", "target": "y"})
                for content in bodies(20, 1_000):
                    server.learn(content)
                for n, size in ((500, 1), (200, 100), (100, 1_000)):
                    print(f"{name}, requests of {size:5,} rows: {rate(server, n, size)}", flush=True)
                for kind in (LINES, CSV, ARROW) if is_ours else ():
                    print(f"{name}, requests of 1,000 rows, {kind}: {rate(server, 100, 1_000, kind)}", flush=True)
                print(f"{name}, requests of 1,000 rows, 8 connections: {concurrent_rate(server, 100, 1_000)}")
                print(f"{name}, predictions: {latencies(server, nothing)}", flush=True)
                shown = latencies(server, learn_forever, bodies(50, 1_000))
                print(f"{name}, predictions while learning: {shown}", flush=True)
                if is_ours:
                    server.client.put("/models/big", json=BOOSTING).raise_for_status()
                    shown = latencies(server, learn_once, "big", body(table(100_000), ARROW), seconds=60.0)
                    print(f"{name}, predictions while another model refits 100,000 x 20: {shown}", flush=True)


if __name__ == "__main__":
    main()
