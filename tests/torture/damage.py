"""Files that were damaged: flipped bits, cut ends, and what a loss of power leaves.

Whatever is in the files, what opens is a model that was there, and nothing is missing unsaid.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

import numpy as np

from batch2online import load
from batch2online.storage.errors import StoreCorrupted, StoreError
from batch2online.storage.tree import CheckpointError
from torture.cases import ESTIMATORS, digest, expected, keyed, lived, reopened, scratch, small_blocks
from torture.kills import killed

FILE, LOG, OWNER = "model.b2o", "model.b2o-wal", "model.b2o-owner"
FRAME, SECTOR = 24 + 65_536, 4096
FULL = 2
KEPT = "nothing lost"
BATCH = 100
N_CALLS = 13

Files = dict[str, bytes]


def snapshot(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def laid_out(folder: Path, files: Files) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / FILE


def content_of(path: Path, name: str, **settings) -> tuple[str, int]:
    """Return the digest of the model in a file, and how many calls it says were lost."""
    if path.with_name("saved").exists():
        return digest(load(path.with_name("saved"))), 0
    return reopened(path, name, **settings)


# -- flipped bits and cut files -------------------------------------------------------------------------------


def originals(folder: Path, names: Iterable[str] = ESTIMATORS) -> dict[str, tuple[str, Files]]:
    """Saved, closed and crashed files of every estimator, with the estimator's name."""
    found = {}
    for name in names:
        path = folder / name / FILE
        path.parent.mkdir()
        durable = lived(path, name, N_CALLS, checkpoint_rows=50)
        durable.save(folder / "saved")
        found[f"{name}, crashed"] = name, snapshot(path.parent)
        durable.close()
        found[f"{name}, closed"] = name, snapshot(path.parent)
        found[f"{name}, saved"] = name, {"saved": (folder / "saved").read_bytes()}
    return found


@small_blocks
def bit_flips(count: int, seed: int = 0, batch: int = BATCH, names: Iterable[str] = ESTIMATORS) -> dict[str, int]:
    """One bit of a file flipped: an error of this package, or the identical model with the same keys."""
    rng, outcomes = np.random.default_rng(seed), Counter()
    with scratch() as name:
        folder = Path(name)
        kinds = cycle(originals(folder, names).items())
        while sum(outcomes.values()) < count:
            (kind, (name, files)), n = next(kinds), min(batch, count - sum(outcomes.values()))
            flips = [_flip(rng, files) for _ in range(n)]
            said, _ = killed(lambda say, g=(name, files, flips): _try_flips(folder / "copy", *g, say))
            assert len(said) == n, f"{kind}: a signal ended it at {flips[len(said)]}"
            outcomes.update(f"{kind.split(', ')[-1]}: {word}" for word in said)
    return dict(outcomes)


def _flip(rng, files: Files) -> tuple[str, int, int]:
    """Return a file, a byte and a bit; half of the bytes are such that hold something."""
    which = rng.choice(sorted(name for name in files if files[name]))
    content = np.frombuffer(files[which], dtype=np.uint8)
    at = rng.choice(np.flatnonzero(content)) if rng.random() < 0.5 else rng.integers(len(content))
    return str(which), int(at), int(rng.integers(8))


def _try_flips(folder: Path, name: str, files: Files, flips, say) -> None:
    whole = content_of(laid_out(folder, files), name)
    for which, at, bit in flips:
        content = bytearray(files[which])
        content[at] ^= 1 << bit
        path = laid_out(folder, files | {which: bytes(content)})
        try:
            found = content_of(path, name)
            assert found == whole, f"{name}: bit {bit} of byte {at} of {which} makes another model"
            say("same model")
        except (CheckpointError, StoreError) as error:
            assert "checksum" in str(error) or FILE in str(error) or "saved" in str(error), error  # noqa: PT017
            say("noticed")
        except Exception as error:
            raise AssertionError(f"{name}: bit {bit} of byte {at} of {which} gives {error!r}") from error


@small_blocks
def truncations(names: Iterable[str] = ESTIMATORS, step: int = 4096) -> dict[str, int]:
    """Saved and closed files cut at every so many bytes are refused."""
    outcomes = Counter()
    with scratch() as name:
        folder = Path(name)
        for kind, (name, files) in originals(folder, names).items():
            if kind.endswith("crashed"):
                continue
            ((which, content),) = files.items()
            for size in range(0, len(content), step):
                path = laid_out(folder / "copy", {which: content[:size]})
                try:
                    content_of(path, name)
                except (CheckpointError, StoreError):
                    outcomes[f"{kind.split(', ')[-1]}: refused"] += 1
                else:
                    raise AssertionError(f"{kind} cut to {size} bytes opens")
    return dict(outcomes)


# -- loss of power --------------------------------------------------------------------------------------------


def _past(folder: Path, name: str, durability: str = "os") -> tuple[list[Files], bool]:
    """Return the files after none, one, two ... calls, and whether SQLite syncs its log at the end of each."""
    durable, found = lived(folder / FILE, name, 0, durability, checkpoint_rows=40), []
    ((synchronous,),) = durable._session.database.select("PRAGMA synchronous")
    for number in range(N_CALLS):
        found.append(snapshot(folder))
        keyed(name, number, durable)
    found.append(snapshot(folder))
    durable._session.abandon()
    return found, synchronous == FULL


@small_blocks
def power_loss(count: int, seed: int = 0, names: Iterable[str] = ESTIMATORS) -> dict[str, int]:
    """Power lost within a call: sectors written since the last sync are there or not, each for itself."""
    rng, outcomes = np.random.default_rng(seed), Counter()
    with scratch() as name:
        folder, pasts = Path(name), {}
        for index, key in enumerate((name, how) for name in names for how in ("every", "batch", "os")):
            (folder / str(index)).mkdir()
            pasts[key] = _past(folder / str(index), *key)
        kinds = cycle(pasts.items())
        while sum(outcomes.values()) < count:
            (name, durability), (past, is_synced) = next(kinds)
            outcome = _lose_power(rng, folder / "copy", name, past, is_synced)
            assert outcome == KEPT or durability != "every", f"{name}: an acknowledged call is lost"
            outcomes[f"{durability}: {outcome}"] += 1
    return dict(outcomes)


def _lose_power(rng, folder: Path, name: str, past: list[Files], is_synced: bool) -> str:
    at = int(rng.integers(1, N_CALLS))  # so many calls were acknowledged; the next one was under way
    before, after = past[at], past[at + 1]
    is_new_log = before[LOG][:32] != after[LOG][:32]
    synced = at if is_synced or is_new_log else _last_sync(rng, past, at)
    noted = int(rng.integers(synced, at + 1))
    files = {FILE: before[FILE], LOG: _torn_log(rng, past[synced][LOG], after[LOG]), OWNER: past[noted][OWNER]}
    if is_new_log:  # the old one is in the file by now, and that is synced
        files |= {FILE: after[FILE], LOG: after[LOG][:32] + _torn_log(rng, before[LOG][32:], after[LOG][32:])}
    elif before[FILE] != after[FILE] and rng.random() < 0.5:  # the log is synced, and the file itself was being written
        synced = at + 1
        files |= {FILE: _torn(rng, before[FILE], after[FILE]), LOG: after[LOG]}
    token, _, commit = files[OWNER].decode().split()
    files[OWNER] = f"{token} before-the-loss {commit}\n".encode()
    found, lost = reopened(laid_out(folder, files), name)
    assert found in expected(name)[synced : at + 2], f"{name}: synced {synced}, done {at}, found another"
    there = expected(name).index(found)
    assert lost == max(0, noted - there), f"{name}: {noted} noted, {there} there, said to be lost: {lost}"
    return KEPT if there >= at else "a prefix of the calls"


def _last_sync(rng, past: list[Files], at: int) -> int:
    """Return any call since which the file itself is the same: not even that much had to be synced since."""
    now = past[at][FILE], past[at][LOG][:32]
    first = next(index for index in range(at + 1) if (past[index][FILE], past[index][LOG][:32]) == now)
    return int(rng.integers(first, at + 1))


def _torn(rng, old: bytes, new: bytes) -> bytes:
    """Return sectors of the new content among those of the old one; the end may be missing."""
    size = max(len(old), len(new))
    mixed = bytearray(old.ljust(size, b"\0"))
    for start in range(0, size, SECTOR):
        if rng.random() < 0.5:
            mixed[start : start + SECTOR] = new[start : start + SECTOR].ljust(min(SECTOR, size - start), b"\0")
    return bytes(mixed)


def _torn_log(rng, old: bytes, new: bytes) -> bytes:
    """The same for a log, which grows at its end."""
    mixed = old if rng.random() < 0.2 else _torn(rng, old, new)
    return mixed[: int(rng.integers(min(len(old), len(new)), len(mixed) + 1))]


@small_blocks
def lost_files(names: Iterable[str] = ESTIMATORS) -> dict[str, int]:
    """The log cut at every frame and inside it, log or note removed, no power lost: an error, never less unsaid."""
    outcomes = Counter()
    with scratch() as name:
        folder = Path(name)
        for index, name in enumerate(names):
            (folder / str(index)).mkdir()
            files = _past(folder / str(index), name)[0][-1]
            for end in range(32, len(files[LOG]) + 1, FRAME // 2):
                outcomes[_missing(folder / "copy", name, files | {LOG: files[LOG][:end]})] += 1
            for which in (LOG, OWNER):
                rest = {other: content for other, content in files.items() if other != which}
                outcomes[_missing(folder / "copy", name, rest)] += 1
    return dict(outcomes)


def _missing(folder: Path, name: str, files: Files) -> str:
    states = expected(name)[: N_CALLS + 1]
    found, lost = reopened(laid_out(folder, files), name, accept_loss=True)
    there = states.index(found)
    if OWNER in files:
        assert lost == N_CALLS - there, f"calls said to be lost: {lost}, expected {N_CALLS - there}"
        if not lost:
            assert reopened(laid_out(folder, files), name) == (states[-1], 0)
            return "nothing missing"
    try:
        reopened(laid_out(folder, files), name)
    except StoreCorrupted:
        assert snapshot(folder) == files, "a file that was refused is another one now"
        return "refused; accept_loss opens a prefix"
    raise AssertionError(f"{name}: opens with {there} of {N_CALLS} calls")
