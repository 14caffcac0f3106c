"""SIGKILL while rows get keys, wait for their targets, get them, expire and are forgotten: every call exactly once.

After each death the file is that of the calls that were acknowledged, and of at most the one in flight besides: the
model bit for bit, the losses of earlier answers, all keys, all rows that wait, and the models that have answered. Keys
of calls that were carried out are refused, so that a client that sends a call again does no harm.
"""

from __future__ import annotations

import hashlib
import random
from functools import cache
from pathlib import Path

import numpy as np

from batch2online import Durable
from batch2online.storage.errors import DuplicateKey, UnknownKey
from torture.cases import X, digest, model, scratch, small_blocks, targets
from torture.kills import LINES, Life, deaths

NAMES = ("regression", "counts", "classification", "regression, half-life", "wrapped Ridge")
FORGETFUL = ("regression", "counts", "classification", "wrapped Ridge")
N_CALLS = 40


@cache
def script(name: str) -> tuple[tuple, ...]:
    """Calls with keys; a row of ``X`` has its number as its key, every other one as a string."""
    rng, calls, waiting, learned, used = np.random.default_rng(7), [("learn", range(30))], [], list(range(30)), 30
    while len(calls) < N_CALLS:
        kind = ("ask", "label", "learn", "ask", "both", "forget", "label")[len(calls) % 7]
        if not waiting or (kind == "forget" and name not in FORGETFUL):
            kind = "ask"
        rows, due = range(used, used + int(rng.integers(2, 14))), list[int]()
        if kind in ("label", "both"):
            due = rng.permutation(waiting)[: int(rng.integers(1, 12))].tolist()
            waiting, learned = [row for row in waiting if row not in due], learned + due
        if kind == "forget":
            due = rng.choice(learned, 2, replace=False).tolist() + waiting[:1]
            waiting, learned = waiting[1:], [row for row in learned if row not in due]
        if kind in ("learn", "ask", "both"):
            used = rows.stop
            (learned if kind == "learn" else waiting).extend(rows)
        calls.append((kind, due, rows) if kind == "both" else (kind, due or rows))  # a batch: targets, then questions
    return tuple(calls)


def keys_of(rows) -> list[str | int]:
    return [row if row % 2 else f"row {row}" for row in rows]


def carry_out(name: str, call: tuple, durable: Durable) -> None:
    """Make one call of a script."""
    kind, rows, *more = call
    if kind == "learn":
        durable.partial_fit(X[rows.start : rows.stop], targets(name, slice(rows.start, rows.stop)), keys=keys_of(rows))
    elif kind == "ask":
        durable.predict(X[rows.start : rows.stop], keys=keys_of(rows), at=float(rows.start))
    elif kind == "label":
        durable.label(keys_of(rows), targets(name, rows))
    elif kind == "forget":
        durable.forget(keys=keys_of(rows))
    else:
        calls = ([("label", rows)] if rows else []) + [("ask", *more)]
        durable.batch(lambda: [carry_out(name, each, durable) for each in calls])


def content(durable: Durable) -> str:
    """Tell one file from another: the model, its keys, the rows that wait and what has answered."""
    found = [digest(durable.model)]
    for name in ("key", "question", "answer"):
        found += [repr(row) for row in durable._session.database.select(f"SELECT * FROM {name} ORDER BY number")]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


@cache
def expected(name: str) -> tuple[str, ...]:
    """Contents of an undisturbed file after none, one, two ... calls of the script."""
    with scratch() as folder, Durable(Path(folder, "model.b2o"), model(name), durability="os") as durable:
        found = [content(durable)]
        for call in script(name):
            carry_out(name, call, durable)
            found.append(content(durable))
    assert len(set(found)) == len(found)
    return tuple(found)


@small_blocks
def late_targets(count: int, seed: int = 4) -> dict[str, int]:
    """Models with targets, each killed in turn until so many were killed."""
    return deaths(LateLife, NAMES, count, seed)


class LateLife(Life):
    """A model whose rows wait for their targets."""

    lines = 2 * LINES

    def expected(self) -> tuple[str, ...]:
        return expected(self.name)

    def _go_on(self, say) -> None:
        rng = random.Random(self.rng.random())
        settings = self.settings(rng)
        durable = Durable(self.path, model(self.name), **settings)
        found = content(durable)
        at = self.found(found)
        say(at)
        if at:
            send_again(self.name, script(self.name)[at - 1], durable)
            assert content(durable) == found
        for call in script(self.name)[at:]:
            carry_out(self.name, call, durable)
            say("done")
            if rng.random() < 0.15:
                durable.close()
                durable = Durable(self.path, model(self.name), **settings)
        durable.close()
        say("end")


def send_again(name: str, call: tuple, durable: Durable) -> None:
    """Send a call that was carried out; its keys must be refused."""
    try:
        carry_out(name, call, durable)
    except (DuplicateKey, UnknownKey):
        return
    raise AssertionError(f"{call[0]} was carried out twice")
