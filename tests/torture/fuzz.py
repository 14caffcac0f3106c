"""Fuzzed files into every loader: only typed errors, and no more memory than the file's size explains."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, load
from batch2online.storage.tree import CheckpointError
from forging import forged, opened
from torture.cases import digest

WATCHED = 20
"""Of so many files one is read with an eye on the memory, which takes longer."""
ROWS = np.random.default_rng(0).normal(size=(30, 4))
ODD = (None, True, -1, 0, 2**70, 10**30, "", "x", "nan", [], {}, [[]], 1e308, {"float": "inf"}, {"array": 0},
       {"array": -1}, {"array": 10**9}, {"object": "Rows", "fields": {}}, {"object": "Online", "fields": {}},
       {"list": 5}, {"dict": []}, {"tuple": None}, {"float": 1})  # fmt: skip
ODD_HEADERS = (
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '<U1000000', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999999999999), }",
    b"{'descr': '|V0', 'fortran_order': False, 'shape': (10,), }",
    b"__import__('os').abort()",
)


@cache
def models() -> tuple:
    shared = {"random_state": 0, "coreset_size": 15, "keep_history": True}
    kinds = OnlineRegression(**shared), OnlineLowRank(2, **shared), OnlineClustering(2, **shared)
    following = OnlineRegression(half_life=9, **shared), OnlineLowRank(2, window=20, random_state=0, coreset_size=15)
    numbers = (*kinds, *following, BatchToOnline(Ridge(), **shared))
    classifier = OnlineClassifier(**shared).partial_fit(ROWS, ROWS[:, 0] > 0)
    return (*(model.partial_fit(ROWS, ROWS[:, 0]) for model in numbers), classifier)


def loaders(count: int, seed: int = 0) -> dict[str, int]:
    rng, outcomes = np.random.default_rng(seed), Counter()
    with tempfile.TemporaryDirectory() as name:
        path, saved = Path(name, "file"), []
        for model in models():
            model.save(path)
            saved.append((path.read_bytes(), digest(load(path))))
        for index in range(count):
            is_watched = index % WATCHED == 0
            if rng.random() < 0.5:
                outcomes[_into_file(rng, path, *saved[rng.integers(4)], is_watched)] += 1
            else:
                outcomes[_into_parts(rng, path, saved[rng.integers(4)][0], is_watched)] += 1
    return dict(outcomes)


def _guarded(act, size: int, is_watched: bool) -> str:
    """Whether it was refused; anything but a typed error, or too much memory, is a failure."""
    if is_watched:
        tracemalloc.start()
    try:
        act()
        return "read"
    except CheckpointError as error:
        assert not isinstance(error.__cause__, MemoryError), error  # noqa: PT017  # it must not even be tried
        return "refused"
    finally:
        if is_watched:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 3_000_000 + 30 * size, f"{peak} bytes for a file of {size}"


# -- files of SQLite ----------------------------------------------------------------------------------------


def _into_file(rng, path: Path, whole: bytes, expected: str, is_watched: bool) -> str:
    path.write_bytes(_scrambled(rng, whole))

    def read():
        assert digest(load(path)) == expected, "another model"

    return f"file {_guarded(read, len(whole), is_watched)}"


def _scrambled(rng, whole: bytes) -> bytes:
    """Bits flipped, bytes cut out, repeated, overwritten or cut off, a few times."""
    content = bytearray(whole)
    for _ in range(rng.integers(1, 6)):
        at, n = int(rng.integers(len(content) + 1)), int(rng.integers(1, 50))
        if rng.random() < 0.7 and any(content):  # most of a file may be empty
            at = int(rng.choice(np.flatnonzero(np.frombuffer(bytes(content), dtype=np.uint8))))
        kind = rng.integers(5)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << rng.integers(8)
        elif kind == 1:
            del content[at : at + n]
        elif kind == 2:
            content[at:at] = content[at : at + n]
        elif kind == 3:
            content[at : at + n] = rng.bytes(n)
        elif rng.random() < 0.2:
            del content[at:]
    return bytes(content)


# -- parts of a state under right checksums -----------------------------------------------------------------


def _into_parts(rng, path: Path, whole: bytes, is_watched: bool) -> str:
    manifest, members = opened(whole)
    tree, odd = json.dumps(manifest["state"]).encode(), rng.choice(["bytes of the tree", "tree", "array"])
    if odd == "array":
        arrays = [name for name in members if name.endswith(".npy")]
        name = arrays[rng.integers(len(arrays))]
        members[name] = _odd_array(rng, members[name])
    else:
        tree = _odd_tree(rng, tree) if odd == "tree" else _scrambled(rng, tree)
    content = forged(tree, members)
    path.write_bytes(content)
    return f"parts {_guarded(lambda: load(path), len(content), is_watched)}"


def _odd_tree(rng, data: bytes) -> bytes:
    manifest = json.loads(data)
    places: list[tuple] = []

    def visit(node):
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            places.append((node, key))
            if isinstance(value, dict | list):
                visit(value)

    visit(manifest)
    for _ in range(rng.integers(1, 4)):
        node, key = places[rng.integers(len(places))]
        with suppress(KeyError, IndexError):
            if rng.random() < 0.3:
                del node[key]
            else:
                node[key] = ODD[rng.integers(len(ODD))]
    if rng.random() < 0.02:
        return b"[" * 100_000 + b"]" * 100_000
    return json.dumps(manifest).encode()


def _odd_array(rng, data: bytes) -> bytes:
    if rng.random() < 0.4:
        return _scrambled(rng, data)
    header = ODD_HEADERS[rng.integers(len(ODD_HEADERS))].ljust(117) + b"\n"
    return (
        b"\x93NUMPY\x01\x00"
        + len(header).to_bytes(2, "little")
        + header
        + (bytes(10**6) if rng.random() < 0.1 else b"")
    )
