"""SIGKILL to a service under load: every acknowledged row exactly once, and the model that these rows give.

Several clients teach one model at once; another client asks with keys and brings targets later; rows of a third model
come from a Redis stream where there is a server for it. A client sends a call again until it is acknowledged. At the
end the files are compared, bit for bit, with models that were taught the same rows in the order of their ids.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count as numbers
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa

from batch2online.app.serve.models import ModelFolder
from torture.cases import digest, scratch
from torture.server import Server, free_port

SETTINGS = {"task": "regression", "target": "y", "coreset_size": 40}
KILLS_OF_A_LIFE, CLIENTS = 10, 3
Call = tuple[str, list[dict[str, Any]]]
"""What is asked for, and the rows."""


def row(rng: random.Random, key: str) -> dict[str, Any]:
    a, b = rng.gauss(0, 1), rng.gauss(2, 5)
    return {"id": key, "a": a, "b": b, "y": 2 * a - b + rng.gauss(0, 0.1)}


def teaching(client: int) -> Iterator[Call]:
    """Calls of a client that learns alone."""
    rng = random.Random(client)
    for number in numbers():
        yield "learn?key=id", [row(rng, f"{client}.{number}.{i}") for i in range(rng.randrange(1, 6))]


def late() -> Iterator[Call]:
    """Calls of a client whose targets come late."""
    rng, waiting = random.Random(99), []
    yield "learn?key=id", [row(rng, f"first {i}") for i in range(30)]
    for number in numbers():
        asked = [row(rng, f"asked {number}.{i}") for i in range(4)]
        waiting += asked
        yield "predict?key=id", [{name: each[name] for name in ("id", "a", "b")} for each in asked]
        due = [waiting.pop(rng.randrange(len(waiting))) for _ in range(3)]
        yield "label?key=id", [{"id": each["id"], "y": each["y"]} for each in due]
        yield "learn?key=id", [row(rng, f"learned {number}")]


class Client(Thread):
    """Sends calls one after another, each until it is acknowledged."""

    def __init__(self, server: Server, model: str, name: str, calls: Iterator[Call], is_over: Event) -> None:
        super().__init__(daemon=True)
        self.server, self.model, self.label, self.calls, self.is_over = server, model, name, calls, is_over
        self.acknowledged: list[tuple[Call, Any]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self._send(next(self.calls))
        except BaseException as error:
            self.error = error

    def _send(self, call: Call) -> None:
        key, was_sent = f"{self.label} {len(self.acknowledged)}", False
        while True:
            try:
                path, once = f"/models/{self.model}/{call[0]}", {"Idempotency-Key": key}
                status, found = self.server.ask("POST", path, call[1], **once)
            except OSError:
                was_sent = True
                time.sleep(0.01)
                continue
            is_known = status == 409 and was_sent and call[0].startswith("predict")
            assert status == 200 or is_known, (status, found)
            self.acknowledged.append((call, found))
            return


def served(count: int, seed: int = 0) -> dict[str, int]:
    """Kill a service so many times."""
    rng, outcomes = random.Random(seed), Counter()
    with redis_server() as address:
        while sum(outcomes[name] for name in OUTCOMES) < count:
            outcomes.update(_life(rng, min(KILLS_OF_A_LIFE, count - sum(outcomes[name] for name in OUTCOMES)), address))
    return dict(outcomes)


OUTCOMES = ("killed before a call was acknowledged", "killed at work")


def _life(rng: random.Random, kills: int, redis: tuple[Any, int] | None) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    with scratch() as folder:
        stream, is_over = f"rows-{rng.random()}", Event()
        sources = () if redis is None else (f"redis://127.0.0.1:{redis[1]}/{stream}?model=queue",)
        server = Server(Path(folder, "served"), sources=sources)
        server.start()
        server.wait()
        for name in ("many", "late", "queue"):
            assert server.ask("PUT", f"/models/{name}", SETTINGS)[0] == 201
        clients = [Client(server, "many", f"client {i}", teaching(i), is_over) for i in range(CLIENTS)]
        clients.append(Client(server, "late", "late", late(), is_over))
        queue = Producer(redis[0] if redis else None, stream, is_over)
        for thread in (*clients, queue):
            thread.start()
        for number in range(kills):
            before = sum(len(client.acknowledged) for client in clients)
            if number:
                server.start()
            if rng.random() < 0.8:
                server.wait()
            time.sleep(rng.uniform(0, 0.6))
            server.kill()
            outcomes[OUTCOMES[sum(len(client.acknowledged) for client in clients) > before]] += 1
        is_over.set()
        server.start()
        server.wait()
        for thread in (*clients, queue):
            thread.join(60)
            assert thread.error is None, thread.error
        _wait_for(server, "queue", len(queue.rows))
        server.terminate()
        outcomes.update(_check(Path(folder), clients, queue.rows))
    return outcomes


def _wait_for(server: Server, name: str, n_rows: int) -> None:
    end = time.monotonic() + 60
    while server.ask("GET", f"/models/{name}")[1]["n_seen"] < n_rows:
        assert time.monotonic() < end, "messages are missing"
        time.sleep(0.05)


def _check(folder: Path, clients: list[Client], queued: list[dict[str, Any]]) -> dict[str, int]:
    """Compare all models with undisturbed ones; return how many rows they have learned."""
    *several, late_client = clients
    served, other = ModelFolder(folder / "served"), ModelFolder(folder / "undisturbed")
    for name in ("many", "late", "queue"):
        other.create(name, SETTINGS)
    _learn(other, "many", _in_order(served.get("many").durable, several))
    for call, _ in late_client.acknowledged:
        _repeat(other.get("late"), call)
    _learn(other, "queue", queued)
    n_rows = {}
    for name in ("many", "late", "queue"):
        found, expected = served.get(name), other.get(name)
        assert found.n_seen == expected.n_seen, f"{name}: {found.n_seen} rows, {expected.n_seen} were sent"
        assert found.durable.n_waiting == expected.durable.n_waiting
        assert digest(found.durable.model) == digest(expected.durable.model), f"{name} is another model"
        n_rows[f"rows compared, {name}"] = found.n_seen
    served.close()
    other.close()
    return n_rows


def _in_order(durable: Any, clients: list[Client]) -> list[dict[str, Any]]:
    """Return all rows of clients in the order of the ids that the file has for their keys."""
    rows = {}
    for client in clients:
        for (_, sent), answer in client.acknowledged:
            places = durable._store.late.keys.find([each["id"] for each in sent])
            ids = [places[each["id"]] for each in sent]
            assert ids == list(range(ids[0], ids[0] + len(ids))), "rows of a call are apart"
            assert answer["first_id"] in (None, ids[0]), f"acknowledged as {answer}, found at {ids[0]}"
            rows |= dict(zip(ids, sent, strict=True))
    assert sorted(rows) == list(range(len(rows))), "rows are missing, or there are others"
    return [rows[number] for number in sorted(rows)]


def _learn(models: ModelFolder, name: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        models.get(name).learn(pa.Table.from_pylist(rows), "id" if "id" in rows[0] else None)


def _repeat(model: Any, call: Call) -> None:
    what, rows = call[0].partition("?")[0], pa.Table.from_pylist(call[1])
    if what == "learn":
        model.learn(rows, "id")
    elif what == "predict":
        model.predict(rows, "id")
    else:
        model.durable.label(rows["id"].to_pylist(), rows["y"].to_numpy())


# -- Redis --------------------------------------------------------------------------------------------------


class Producer(Thread):
    """Appends rows to a stream of Redis; of no use without one."""

    def __init__(self, client: Any, stream: str, is_over: Event) -> None:
        super().__init__(daemon=True)
        self.client, self.stream, self.is_over = client, stream, is_over
        self.rows: list[dict[str, Any]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        rng = random.Random(7)
        while self.client is not None and not self.is_over.wait(0.005):
            new = row(rng, "")
            del new["id"]
            self.client.xadd(self.stream, {"row": json.dumps(new)})
            self.rows.append(new)


@contextmanager
def redis_server() -> Iterator[tuple[Any, int] | None]:
    """Start a Redis server in a temporary folder, if there is one; yield a client and the port."""
    program = shutil.which("redis-server")
    if program is None or find_spec("redis") is None:
        yield None
        return
    import redis

    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning"]
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        process = subprocess.Popen([program, *options, "--dir", str(folder)], stdout=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        client = stack.enter_context(redis.Redis("127.0.0.1", port))
        end = time.monotonic() + 10
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert time.monotonic() < end, "redis-server does not answer"
                time.sleep(0.05)
        yield client, port
