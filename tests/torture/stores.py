"""Campaigns against the store: faults at every call, loss of power, cut and altered files."""

from __future__ import annotations

import errno
import itertools
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from batch2online.persistence.store import Store, StoreCorrupted, StoreError
from torture.faults import FaultyFiles, Killed, RecordingFiles, Unsynced

FAULTS = (errno.EIO, errno.ENOSPC, "short", "kill", "kill half")
MODES = ("always", "interval", "never")
COLUMNS = 3
ROWS = np.random.default_rng(7).normal(size=(4000, COLUMNS))
MORE = ROWS[-3:]


@contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def states_of(steps):
    """The rows that a store holds after each step: (append, n), (truncate, n) or (sync, 0)."""
    states, rows, used = [np.empty((0, COLUMNS))], np.empty((0, COLUMNS)), 0
    for kind, n in steps:
        if kind == "append":
            rows, used = np.concatenate([rows, ROWS[used : used + n]]), used + n
        elif kind == "truncate":
            rows = rows[:n]
        states.append(rows)
    return states


def act(opened, steps, on_done=lambda index: None):
    """Do the steps, and tell after each one that it is done."""
    used = 0
    for index, (kind, n) in enumerate(steps):
        if kind == "append":
            used += n
            opened.append(ROWS[used - n : used])
        elif kind == "truncate":
            opened.truncate(n)
        else:
            opened.sync()
        on_done(index + 1)


STEPS = [
    *[("append", n) for n in (5, 1, 40)],
    ("truncate", 30),
    *[("append", n) for n in (8, 30, 1, 1)],
    ("sync", 0),
    ("append", 20),
    ("truncate", 3),
    ("append", 12),
]


def content(opened) -> np.ndarray:
    return np.concatenate([np.empty((0, opened.columns)), *opened.pieces()])


def is_same(rows, state) -> bool:
    return rows.shape == state.shape and bool((rows == state).all())


# -- a fault at each call ---------------------------------------------------------------------------------


def every_fault(faults=FAULTS, modes=MODES, segment_bytes=700) -> dict[str, int]:
    """Let each call of a run fail in each way. Typed error, old or new state, and the store opens again."""
    outcomes: Counter[str] = Counter()
    for mode, fault in itertools.product(modes, faults):
        for index in itertools.count():
            with scratch() as folder:
                outcome = one_fault(folder / "store", mode, fault, index, segment_bytes)
            if outcome is None:
                break
            outcomes[outcome] += 1
    return dict(outcomes)


def one_fault(folder, mode, fault, index, segment_bytes) -> str | None:
    """What happened, or None where the run has fewer calls than that."""
    files, states, done = FaultyFiles(index, fault), states_of(STEPS), 0
    opened = None
    more = False

    def note(number):
        nonlocal done
        done = number

    try:
        opened = Store.create(folder, COLUMNS, sync=mode, segment_bytes=segment_bytes, files=files)
        act(opened, STEPS, note)
        opened.close()
    except StoreError:
        more = opened is not None and goes_on(opened, states[done])
    except Killed:
        pass
    if len(files.calls) <= index:
        return None
    abandon(opened, files)
    check_reopened(folder, [np.concatenate([states[done], MORE])] if more else states[done : done + 2], done)
    return f"{files.calls[index]} {errno.errorcode.get(fault, fault)}"


def goes_on(opened, state) -> bool:
    """After an error the store refuses everything, or is as it was and takes further rows."""
    try:
        rows = content(opened)
    except StoreError:
        return False
    assert is_same(rows, state)
    opened.append(MORE)
    return True


def abandon(opened, files):
    """Leave a store as a dead process would."""
    files.is_dead = True
    if opened is not None:
        with suppress(Killed):
            opened.close()
    files.bury()


def check_reopened(folder, possible, done):
    """It opens, holds what it should, and can be written to."""
    if done == 0 and not list(folder.glob("*.rows")):
        Store.create(folder, COLUMNS, files=Unsynced()).close()
        return
    with Store.open(folder, files=Unsynced()) as again:
        rows = content(again)
        assert any(is_same(rows, state) for state in possible), (len(rows), done)
        again.append(ROWS[:2])
    with Store.open(folder, files=Unsynced()) as again:
        assert again.recovered is None
        assert is_same(content(again), np.concatenate([rows, ROWS[:2]]))


# -- loss of power ------------------------------------------------------------------------------------------


def power_loss(count: int, seed: int = 0, states_per_run: int = 5) -> dict[str, int]:
    """Random runs, the power lost within a random call, any part of what was not synced on disk."""
    rng, outcomes = np.random.default_rng(seed), Counter()
    while sum(outcomes.values()) < count:
        mode, steps = MODES[rng.integers(3)], random_steps(rng)
        with scratch() as root:
            (root / "run").mkdir()
            files = RecordingFiles(root / "run", fail_at=int(rng.integers(60)))
            durable, done = run_recorded(root / "run" / "store", files, steps, mode)
            possible = states_of(steps)[max(durable, 0) : done + 2]
            for repeat in range(states_per_run):
                disk = root / f"disk{repeat}"
                files.after_power_loss(rng, disk)
                outcomes[check_after_power_loss(disk / "store", possible, mode, is_created=durable >= 0)] += 1
    return dict(outcomes)


def random_steps(rng):
    steps, rows = [], 0
    for _ in range(rng.integers(1, 15)):
        kind = rng.choice(["append", "append", "append", "truncate", "sync"])
        n = int(rng.integers(1, 60)) if kind == "append" else int(rng.integers(0, rows + 1))
        rows = rows + n if kind == "append" else n if kind == "truncate" else rows
        steps.append((str(kind), n))
    return steps


def run_recorded(folder, files, steps, mode) -> tuple[int, int]:
    """Do the steps; the number of the last that will survive (-1: not even the store), and of the last done."""
    durable, done, opened = -1, 0, None

    def note(index):
        nonlocal durable, done
        done = index
        if mode == "always" or opened._durable_bytes == opened._size:
            durable = index

    with suppress(Killed):
        opened = Store.create(folder, COLUMNS, sync=mode, segment_bytes=1500, files=files)
        durable = 0
        act(opened, steps, note)
    abandon(opened, files)
    return durable, done


def check_after_power_loss(folder, possible, mode, is_created) -> str:
    if not is_created and not list(folder.glob("*.rows")):
        Store.create(folder, COLUMNS, files=Unsynced()).close()
        return f"{mode}: not created yet"
    with Store.open(folder, files=Unsynced()) as again:
        rows, recovered = content(again), again.recovered
        assert any(is_same(rows, state) for state in possible), (mode, len(rows), [len(state) for state in possible])
        again.append(ROWS[:2])
    with Store.open(folder, files=Unsynced()) as again:
        assert is_same(content(again), np.concatenate([rows, ROWS[:2]]))
    return f"{mode}: {'all there' if recovered is None else 'unfinished end dropped and said'}"


# -- files cut short or altered -----------------------------------------------------------------------------


def written(folder, steps=STEPS, segment_bytes=10**6, is_closed=True):
    """A store in which these steps were done."""
    opened = Store.create(folder, COLUMNS, sync="always", segment_bytes=segment_bytes)
    act(opened, steps)
    if not is_closed:
        opened._close_durably = lambda: None
    opened.close()


def truncations(n_records: int = 3) -> dict[str, int]:
    """Cut the log at every byte of its last records: the longest intact prefix is recovered, and it is said."""
    outcomes = Counter()
    with scratch() as root:
        written(root / "store", is_closed=False)
        path, ends = root / "store" / "00000000.rows", record_ends(root / "store")
        whole, states = path.read_bytes(), [state for (kind, _), state in _with_states() if kind != "sync"]
        for size in range(ends[-n_records - 1], len(whole)):
            path.write_bytes(whole[:size])
            intact = sum(end <= size for end in ends)
            with Store.open(root / "store", read_only=True) as again:
                assert is_same(content(again), states[intact])
                is_said = again.recovered is not None
            assert is_said == (size not in ends)
            outcomes["dropped and said" if is_said else "a whole record less"] += 1
    return dict(outcomes)


def _with_states():
    return zip([("start", 0), *STEPS], states_of(STEPS), strict=True)


def record_ends(folder) -> list[int]:
    """Where the records of the only segment end."""
    from batch2online.persistence.store.records import Header, map_file, scan

    data = map_file(folder / "00000000.rows")
    records = scan(data, Header.unpack(data)).records
    return [record.at + record.rows * COLUMNS * 8 for record in records]


def bit_flips(count: int, seed: int = 0) -> dict[str, int]:
    """Flip one bit in one file of a store: never unnoticed, never rows that were not there."""
    rng, outcomes = np.random.default_rng(seed), Counter()
    with scratch() as root:
        written(root / "store", segment_bytes=900)
        paths = sorted((root / "store").glob("*.rows"))
        whole = {path: path.read_bytes() for path in paths}
        states = states_of(STEPS)
        for _ in range(count):
            path = paths[rng.integers(len(paths))]
            damaged = bytearray(whole[path])
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            outcomes[check_noticed(root / "store", states)] += 1
            path.write_bytes(whole[path])
    return dict(outcomes)


def check_noticed(folder, states) -> str:
    try:
        with Store.open(folder, read_only=True) as again:
            assert again.recovered is not None
            assert any(is_same(content(again), state) for state in states)
            return "end dropped and said"
    except StoreCorrupted:
        with suppress(StoreCorrupted), Store.open(folder, read_only=True, repair=True) as again:
            assert any(is_same(content(again), state) for state in states)
        return "refused"
