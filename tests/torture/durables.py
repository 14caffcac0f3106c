"""Campaigns against durable estimators: killed processes, faults at every call, loss of power, altered files."""

from __future__ import annotations

import itertools
import os
import signal
import struct
import time
from collections import Counter
from contextlib import suppress

import numpy as np

from batch2online import OnlineLowRank, OnlineRegression
from batch2online.persistence.checkpoint import CheckpointError, serialise
from batch2online.persistence.durable import Durable
from batch2online.persistence.store import StoreError
from torture.faults import FaultyFiles, Killed, RecordingFiles, Unsynced
from torture.stores import FAULTS, MODES, scratch

N = 30_000
X = np.random.default_rng(3).normal(size=(N, 4)) * [1, 2, 3, 4]
Y = X @ [1.0, -2.0, 3.0, 0.5] + np.random.default_rng(4).normal(size=N)


def regression(**settings):
    return OnlineRegression(coreset_size=60, random_state=0, **settings)


def low_rank(**settings):
    return OnlineLowRank(2, coreset_size=60, random_state=0, **settings)


ESTIMATORS = (regression, low_rank)


def state(model) -> bytes:
    return serialise(model._state()) if "_engine" in vars(model) else b""


class Undisturbed:
    """What an estimator is after any number of rows of the stream, to be asked for in rising order."""

    def __init__(self, make) -> None:
        self.make, self.model, self.n = make, make(), 0

    def after(self, n: int) -> bytes:
        if n < self.n:
            self.model, self.n = self.make(), 0
        if n > self.n:
            self.model.partial_fit(X[self.n : n], Y[self.n : n])
            self.n = n
        return state(self.model)


# -- kill -9 ------------------------------------------------------------------------------------------------


def kills(count: int, seed: int = 0) -> dict[str, int]:
    """Kill a writing process at a random moment, again and again in the same folder.

    After each kill all acknowledged rows are there, and the model is bit for bit the one of an undisturbed run.
    """
    rng, outcomes, n_done = np.random.default_rng(seed), Counter(), 0
    while n_done < count:
        make, mode = ESTIMATORS[rng.integers(len(ESTIMATORS))], MODES[rng.integers(3)]
        reference = Undisturbed(make)
        with scratch() as folder:
            for _ in range(min(25, count - n_done)):
                outcomes[one_kill(folder, make, mode, reference, rng)] += 1
                n_done += 1
    return dict(outcomes)


def one_kill(folder, make, mode, reference, rng) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            write_until_killed(folder, make, mode, int(rng.integers(2**32)), writing)
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        pipe.read(8)  # it has begun
        time.sleep(rng.exponential(rng.choice([0.01, 0.1])))
        os.kill(child, signal.SIGKILL)
        acknowledged = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended before it was killed"
    promised = struct.unpack("<q", acknowledged[len(acknowledged) // 8 * 8 - 8 :][:8])[0] if acknowledged else 0
    return check_after_kill(folder, make, mode, promised, reference)


def write_until_killed(folder, make, mode, seed, writing) -> None:
    """Learn the stream in random chunks for ever, and tell how many rows are acknowledged."""
    rng = np.random.default_rng(seed)
    with Durable(folder, make(), sync=mode, checkpoint_rows=2000) as durable:
        n = durable.model.n_seen_ if "_engine" in vars(durable.model) else 0
        os.write(writing, struct.pack("<q", n))
        while True:
            size = int(rng.choice([1, 7, 100, 900]))
            if n + size > N:
                time.sleep(60)
            if size == 1:
                durable.learn_one(X[n], Y[n])
            else:
                durable.partial_fit(X[n : n + size], Y[n : n + size])
            n += size
            os.write(writing, struct.pack("<q", n))


def check_after_kill(folder, make, mode, promised, reference) -> str:
    durable = Durable(folder, make(), sync=mode)
    n = durable.model.n_seen_ if durable.reopened else 0
    assert n >= promised, f"{promised} rows were acknowledged, {n} are there"
    assert n == 0 or state(durable.model) == reference.after(n)
    durable._release()  # without a checkpoint, so that the next process finds what this kill left
    if durable.reopened is None:
        return "nothing acknowledged, nothing there"
    return "unfinished end dropped" if durable.reopened.dropped else "replayed"


# -- faults, loss of power ----------------------------------------------------------------------------------

OTHER = regression(first_id=10**6, keep_history=True).partial_fit(X[5000:5100], Y[5000:5100])
RUN = [
    lambda model: model.partial_fit(X[:50], Y[:50]),
    lambda model: model.learn_one(X[50], Y[50]),
    lambda model: model.partial_fit(X[51:150], Y[51:150], np.arange(99) % 3),
    lambda model: model.forget([3, 60]),
    lambda model: model.partial_fit(X[150:200], Y[150:200]),
    lambda model: model.merge(OTHER),
    lambda model: model.learn_one(X[200], Y[200]),
    lambda model: model.partial_fit(X[201:300], Y[201:300]),
]


def with_history():
    return regression(keep_history=True)


def run_states() -> list[bytes]:
    model, states = with_history(), [b""]
    for step in RUN:
        step(model)
        states.append(state(model))
    return states


def run(folder, files, mode) -> tuple[Durable | None, int]:
    """Do the run until it fails; the object, and the number of steps that were acknowledged."""
    durable, done = None, 0
    try:
        durable = Durable(folder, with_history(), sync=mode, checkpoint_rows=100, files=files)
        for step in RUN:
            step(durable)
            done += 1
        durable.close()
    except (StoreError, Killed):
        pass
    return durable, done


def every_fault(faults=FAULTS, modes=("always",), every: int = 1) -> dict[str, int]:
    """Let each call of a run fail in each way: typed error, the model of before or after the step, opens again."""
    outcomes, states = Counter(), run_states()
    for mode, fault in itertools.product(modes, faults):
        for index in itertools.count(step=every):
            files = FaultyFiles(index, fault)
            with scratch() as folder:
                durable, done = run(folder, files, mode)
                if len(files.calls) <= index:
                    break
                if durable is not None and not files.is_dead:
                    assert state(durable.model) == states[done]
                _abandon(durable, files)
                check_reopened(folder, states[done : done + 2])
            outcomes[f"{files.calls[index]} {fault}"] += 1
    return dict(outcomes)


def _abandon(durable, files) -> None:
    files.is_dead = True
    if durable is not None:
        with suppress(Killed):
            durable._release()
        durable._lock = None
    files.bury()


def check_reopened(folder, possible) -> None:
    with Durable(folder, with_history(), files=Unsynced()) as durable:
        assert state(durable.model) in possible
        durable.partial_fit(X[1000:1010], Y[1000:1010])
        expected = state(durable.model)
    with Durable(folder, with_history(), files=Unsynced()) as durable:
        assert state(durable.model) == expected


def power_loss(count: int, seed: int = 0, states_per_run: int = 5) -> dict[str, int]:
    """Lose the power within a random call of the run; with ``always``, no acknowledged step may be lost."""
    rng, outcomes, states = np.random.default_rng(seed), Counter(), run_states()
    while sum(outcomes.values()) < count:
        mode = MODES[rng.integers(3)]
        with scratch() as root:
            (root / "run").mkdir()
            files = RecordingFiles(root / "run", fail_at=int(rng.integers(130)))
            durable, done = run(root / "run" / "model", files, mode)
            _abandon(durable, files)
            first = done if mode == "always" else _last_change(done)
            for repeat in range(states_per_run):
                files.after_power_loss(rng, root / f"disk{repeat}")
                check_reopened(root / f"disk{repeat}" / "model", states[first : done + 2])
                outcomes[mode] += 1
    return dict(outcomes)


def _last_change(done: int) -> int:
    """The last step up to this one that is durable in every mode: the first rows, forget and merge."""
    return max((index for index in (0, 1, 4, 6) if index <= done), default=0)


# -- altered files ------------------------------------------------------------------------------------------


def bit_flips(count: int, seed: int = 0) -> dict[str, int]:
    """Flip a bit in the newest checkpoint: noticed and said, and the one before it gives the same model."""
    return _altered(count, lambda rng, whole: _flipped(rng, whole), seed)


def truncations(count: int, seed: int = 0) -> dict[str, int]:
    """Cut the newest checkpoint anywhere: the same."""
    return _altered(count, lambda rng, whole: whole[: rng.integers(len(whole))], seed)


def _flipped(rng, whole: bytes) -> bytes:
    damaged = bytearray(whole)
    damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
    return bytes(damaged)


def _altered(count, alter, seed) -> dict[str, int]:
    rng, outcomes = np.random.default_rng(seed), Counter()
    with scratch() as folder:
        durable, done = run(folder, FaultyFiles(), "always")
        assert done == len(RUN)
        durable.close()
        expected = run_states()[-1]
        files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        newest = max(folder.glob("*.npz"))
        for _ in range(count):
            newest.write_bytes(alter(rng, files[newest]))
            durable = Durable(folder, with_history(), files=Unsynced())
            assert len(durable.reopened.damaged) == 1
            assert state(durable.model) == expected
            durable._release()
            newest.with_suffix(".damaged").unlink()
            outcomes["noticed, said, previous used, same model"] += 1
        _check_none_intact(folder, files)
    return dict(outcomes)


def _check_none_intact(folder, files) -> None:
    for path in (path for path in files if path.suffix == ".npz"):
        path.write_bytes(files[path][:-1])
    with suppress(CheckpointError):
        Durable(folder, with_history(), files=Unsynced())
        raise AssertionError("a folder without an intact checkpoint was opened")
