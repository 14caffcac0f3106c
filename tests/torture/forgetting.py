"""Forgotten rows are nowhere: not in the file, its log or its note, not in a saved copy, not in the pickled model."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

from batch2online import Durable
from torture.cases import WITH_HISTORY, X, model, scratch, small_blocks, targets

N_ROWS = 300


@small_blocks
def forgetting(names: tuple[str, ...] = WITH_HISTORY) -> dict[str, int]:
    """For all estimators with a history: many rows, several checkpoints, two calls that forget, then a search."""
    outcomes = Counter()
    for name in names:
        with scratch() as folder:
            path = Path(folder, "model.b2o")
            durable = Durable(path, model(name), durability="os", checkpoint_rows=45)
            for start in range(0, N_ROWS, 25):
                durable.partial_fit(X[start : start + 25], targets(name, slice(start, start + 25)))
            gone = np.random.default_rng(0).permutation(N_ROWS)[:150]
            durable.forget(gone[:75].tolist()).learn_one(X[N_ROWS].tolist(), _one(name)).forget(gone[75:].tolist())
            kept = np.setdiff1d(np.arange(N_ROWS), gone)
            durable.save(Path(folder, "saved"))
            for where, content in _contents(folder, durable).items():
                _check(name, where, content, gone)
                outcomes[f"{where}: none of {len(gone)} rows"] += 1
            assert _found(b"".join(_contents(folder, durable).values()), kept) == set(kept)  # the search finds rows
            durable.close()
            _check(name, "closed file", path.read_bytes(), gone)
        plain = model(name).partial_fit(X[:N_ROWS], targets(name, slice(0, N_ROWS))).forget(gone.tolist())
        _check(name, "the model's own file", _unnamed() + pickle.dumps(plain), gone)
    return dict(outcomes)


def _one(name: str):
    value = targets(name, N_ROWS)
    return value if value is None or isinstance(value, str) else float(value)


def _contents(folder: str, durable: Durable) -> dict[str, bytes]:
    found = {path: Path(folder, path).read_bytes() for path in os.listdir(folder)}
    return found | {"pickle": pickle.dumps(durable.model), "files without a name": _unnamed()}


def _unnamed() -> bytes:
    """Return what is in the open files in which running models keep rows; they were removed when they were made."""
    found = []
    for link in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            if "rows-" in os.readlink(link):
                found.append(link.read_bytes())
    return b"".join(found)


def _check(name: str, where: str, content: bytes, gone) -> None:
    found = _found(content, gone)
    assert not found, f"{name}: {len(found)} of {len(gone)} forgotten rows are in {where}"


def _found(content: bytes, rows) -> set[int]:
    """Return the rows of which any number is among the bytes, wherever it begins."""
    by_bytes = {X[row, column].tobytes(): int(row) for row in rows for column in range(X.shape[1])}
    return {row for number, row in by_bytes.items() if number in content}
