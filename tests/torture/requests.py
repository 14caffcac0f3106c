"""Malformed requests to a service: a 4xx and a sentence, others served, and nothing left behind."""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from pathlib import Path

from torture.cases import scratch
from torture.server import Server
from torture.steady import check_flat

ROWS = [{"a": 0.1 * i, "b": float(i % 7), "y": 0.3 * i} for i in range(200)]
GOOD = json.dumps(ROWS[:3]).encode()
INFER = b'{"inputs": [{"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}]}'
PATHS = (
    *("learn", "predict", "label", "forget", "learn?key=a", "predict?key=k", "label?key=", "predict?method=x"),
    *("predict?method=transform", "predict?method=predict_proba", "learn?key=y", "nothing", "changes?since=1e9"),
    *("changes?since=%00", "changes?since=-1", "regret", "coreset"),
)
NAMES = (*["price"] * 30, "none", "..", "%2e%2e", "a%00b", "x" * 5_000, "new", "é".encode().hex())
TYPES = (
    *[b"application/json"] * 20,
    *(b"application/x-ndjson", b"text/csv", b"application/vnd.apache.arrow.stream", b"", b"text/html", b"\xff\xfe"),
    b"application/json; charset=utf-16",
)
CELLS = (
    *(
        "1e999",
        "-0",
        "1" * 400,
        "null",
        "true",
        '"x"',
        '"\\ud800"',
        '"\\u0000"',
        "[1]",
        "{}",
        "NaN",
        "Infinity",
        "1e308",
    ),
    *('"' + "x" * 3_000 + '"', '"2024-01-01"', "9223372036854775808", '""'),
    *["0.1", "2", "3e2"] * 8,
)
HEADERS = (
    b"Idempotency-Key: " + b"k" * 300,
    *(
        b"Idempotency-Key: ",
        b"Idempotency-Key: \xff",
        b"Content-Length: 5",
        b"Content-Length: -1",
        b"Host: evil.example",
    ),
    *(b"Transfer-Encoding: chunked", b"Origin: null", b"Authorization: Bearer \xff", b"Expect: 100-continue"),
    *(b"Content-Encoding: gzip", b"X: " + b"x" * 70_000, b"no colon", b"Inference-Header-Content-Length: 9999999"),
    *(b"Inference-Header-Content-Length: -1", b"Inference-Header-Content-Length: 7", b"Accept: nothing", b"Host: [::1"),
)
UNANSWERED = ("connection closed", "waits for the rest of the body")


def malformed(count: int, seed: int = 0) -> dict[str, int]:
    """Send so many requests; return how many got each status."""
    rng, outcomes = random.Random(seed), Counter()
    with scratch() as folder:
        server = Server(Path(folder))
        server.start()
        server.wait()
        try:
            assert server.ask("PUT", "/models/price", {"task": "regression", "target": "y"})[0] == 201
            assert server.ask("POST", "/models/price/learn", ROWS)[0] == 200
            sizes = []
            for number in range(count):
                outcomes[_outcome(server, request(rng))] += 1
                if number % max(1, count // 8) == 0:
                    status, found = server.ask("POST", "/models/price/predict", [{"a": 1, "b": 2}])
                    assert (status, len(found["predictions"])) == (200, 1), "others are not served"
                    sizes.append((server.memory(), server.open_files(), server.threads()))
            check_flat(sizes)
        finally:
            server.terminate()
    return dict(outcomes)


def _outcome(server: Server, content: bytes) -> str:
    """Send bytes; return the status of the response."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=2) as connection:
        try:
            connection.sendall(content)
            received = b"".join(iter(lambda: connection.recv(65_536), b""))
        except ConnectionError:
            return UNANSWERED[0]
        except TimeoutError:
            return UNANSWERED[1]
    if received.startswith(b"HTTP/1.1 100 "):
        received = received.partition(b"\r\n\r\n")[2]
    if not received:
        return UNANSWERED[0]
    head, _, body = received.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert status < 500 or status == 503, (content[:2_000], received[:2_000])
    if body and b"application/problem+json" in head:
        assert json.loads(body)["detail"], content[:2_000]
    return str(status)


# -- requests -----------------------------------------------------------------------------------------------


def request(rng: random.Random) -> bytes:
    """Return a request with something wrong, or nearly so."""
    name, what = rng.choice(NAMES), rng.choice(PATHS)
    method = b"GET" if what.startswith(("changes", "regret", "coreset")) else b"POST"
    if rng.random() < 0.1:
        method = rng.choice([b"GET", b"POST", b"DELETE", b"PATCH", b"HEAD", b"OPTIONS", b"\x00"])
    path, body = f"/models/{name}/{what}", _body(rng)
    if rng.random() < 0.15:
        method = b"PUT"
        path, body = f"/models/{name}", _settings(rng)
    elif rng.random() < 0.2:
        path, body = f"/v2/models/{name}/infer", _damaged(rng, INFER)
    head = [method + b" " + path.encode() + b" HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close"]
    head += [b"Content-Type: " + rng.choice(TYPES)]
    extra = rng.sample(HEADERS, rng.choice([0] * 8 + [1, 2]))
    if not any(each.startswith((b"Content-Length", b"Transfer")) for each in extra):
        head.append(b"Content-Length: %d" % (len(body) + (rng.random() < 0.003)))
    return b"\r\n".join([*head, *extra, b"", body])


def _body(rng: random.Random) -> bytes:
    kind = rng.randrange(6)
    if kind == 0:
        return _damaged(rng, GOOD)
    if kind == 1:
        return rng.choice(
            [b"", b"[]", b"[{}]", b"{}", b"null", b"[" * 20_000, b'{"a":' * 20_000, b"\xff\xfe", b"[[1]]"]
        )
    if kind == 2:
        return json.dumps({rng.choice(["ids", "keys", "x"]): rng.choice([[], [-1], [2**70], ["x"], None, 1])}).encode()
    if kind == 3:
        return b"a,b,y\n" + b"\n".join(rng.choice(CELLS).encode() + b",1,2" for _ in range(3))
    names = rng.sample(["a", "b", "y", "", "k", "\\u0000", "x" * 200], rng.randrange(1, 5))
    cells = [", ".join(f'"{name}": {rng.choice(CELLS)}' for name in names) for _ in range(rng.randrange(1, 4))]
    return ("[" + ", ".join(f"{{{cell}}}" for cell in cells) + "]").encode()


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """Return bytes of which some were replaced, removed or repeated."""
    found = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(found))
        found[at : at + rng.choice([0, 1, 5])] = rng.choice(
            [b"", b"\x00", b"-", b"9" * 30, b'"', b"[", b"null", b"1e400"]
        )
        if len(found) < 2:
            break
    return bytes(found)


def _settings(rng: random.Random) -> bytes:
    options = [
        "task",
        "target",
        "k",
        "alpha",
        "columns",
        "seed",
        "half_life",
        "estimator",
        "refresh",
        "memory",
        "epsilon",
    ]
    values = [
        "regression",
        "y",
        -1,
        1e308,
        2**70,
        None,
        True,
        [],
        ["a"],
        {},
        "",
        "sklearn.svm.SVC",
        "\ud800",
        "os.system",
    ]
    chosen = {name: rng.choice(values) for name in rng.sample(options, rng.randrange(0, 5))}
    if rng.random() < 0.6:
        chosen["task"] = rng.choice(["regression", "clustering", "low-rank", "classification", "quantile"])
        chosen.setdefault("target", "y")
    return _damaged(rng, json.dumps(chosen).encode()) if rng.random() < 0.2 else json.dumps(chosen).encode()
