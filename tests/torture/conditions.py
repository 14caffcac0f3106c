"""What the system may do to a model that is open: each ends in an error that says so, or as if nothing had been."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import numpy as np

from batch2online import Durable, load
from batch2online.app.cli.app import run_safely
from batch2online.storage.errors import StoreCorrupted, StoreError, StoreLocked
from batch2online.storage.tree import CheckpointError
from torture.cases import ESTIMATORS, HISTORY, digest, expected, keyed, lived, model, reopened, scratch, small_blocks
from torture.damage import FILE, LOG, laid_out, snapshot
from torture.kills import killed

HALF, ALL = 9, 14
NOBODY = 65_534


def refused(error: type[BaseException], act, *words: str) -> None:
    """Check that an act ends in this error, in one sentence or a few, which hold these words."""
    try:
        act()
    except error as found:
        assert all(word in str(found) for word in words), found  # noqa: PT017
        assert "\n" not in str(found)  # noqa: PT017
    else:
        raise AssertionError(f"{error.__name__} was expected")


def goes_on(durable: Durable, name: str, done: int = HALF) -> None:
    """Check that a model is what it was after so many calls, learns the rest, and is found again."""
    assert digest(durable.model) == expected(name)[done], "full disk: another model than that of the file"
    for number in range(done, ALL):
        keyed(name, number, durable)
    durable.close()
    assert durable.checkpoint_error is None
    assert os.listdir(durable.path.parent) == [FILE]
    assert reopened(durable.path, name) == (expected(name)[ALL], 0)


def every_condition(names: tuple[str, ...] = tuple(ESTIMATORS)) -> dict[str, int]:
    """Each condition for each estimator, in a process of its own."""
    outcomes = Counter()
    for condition in CONDITIONS:
        for name in names:
            with scratch() as folder, small_blocks:
                killed(lambda say, f=Path(folder), c=condition, n=name: c(f, n))
            outcomes[condition.__name__.replace("_", " ")] += 1
    return dict(outcomes)


def two_writers(folder: Path, name: str) -> None:
    durable = lived(folder / FILE, name, HALF)
    refused(StoreLocked, lambda: Durable(folder / FILE, model(name)), FILE, "another process")
    killed(lambda say: refused(StoreLocked, lambda: Durable.open(folder / FILE), FILE, "another process"))
    with redirect_stderr(StringIO()) as said:
        words = ("run", "--dataset", "diabetes", "--task", "regression", "--quiet", "--state", str(folder / FILE))
        assert run_safely(words) == 2
    assert len(said.getvalue().splitlines()) == 1, said.getvalue()
    goes_on(durable, name)


def forked(folder: Path, name: str) -> None:
    """A fork looks and cannot write, and leaves nothing undone when it ends, however that is."""
    durable = lived(folder / FILE, name, HALF)
    before = snapshot(folder)
    for seconds in (None, 0.05):
        killed(lambda say: _use_in_fork(durable, name), seconds)
        assert snapshot(folder) == before
    goes_on(durable, name)


def _use_in_fork(durable: Durable, name: str) -> None:
    refused(StoreError, lambda: keyed(name, HALF, durable), "fork")
    refused(StoreError, durable.checkpoint, "fork")
    refused(StoreError, durable.close, "fork")
    refused(StoreLocked, lambda: Durable.open(durable.path), "another process")
    assert durable.model.n_seen_


def copied(folder: Path, name: str) -> None:
    """A copy of all files is the model; a copy of some of them is refused, or is a prefix for who accepts that."""
    durable, copy = lived(folder / FILE, name, HALF), folder.with_name(f"{folder.name}-copy")
    files = snapshot(folder)
    assert reopened(laid_out(copy, files), name) == (expected(name)[HALF], 0)
    refused(CheckpointError, lambda: load(laid_out(copy, files)), "not closed")
    assert snapshot(copy) == files
    for kept in ({FILE}, {FILE, LOG}):
        some = {which: content for which, content in files.items() if which in kept}
        refused(StoreCorrupted, lambda s=some: Durable.open(laid_out(copy, s)), "copied")
        assert reopened(laid_out(copy, some), name, accept_loss=True)[0] in expected(name)[: HALF + 1]
    with suppress(CheckpointError):
        load(laid_out(copy, {FILE: files[FILE]}))
        raise AssertionError("a part of a model was loaded")
    shutil.rmtree(copy)
    durable.save(folder / "saved")
    assert digest(load(folder / "saved")) == expected(name)[HALF]
    (folder / "saved").unlink()
    goes_on(durable, name)


def moved(folder: Path, name: str) -> None:
    durable = lived(folder / FILE, name, HALF)
    os.rename(folder / FILE, folder / "elsewhere")
    refused(StoreError, lambda: keyed(name, HALF, durable), "moved")
    refused(StoreLocked, lambda: Durable(folder / FILE, model(name)), "another")
    os.rename(folder / "elsewhere", folder / FILE)
    goes_on(durable, name)


def moved_and_closed(folder: Path, name: str) -> None:
    durable = lived(folder / FILE, name, HALF)
    os.rename(folder / FILE, folder / "elsewhere")
    durable.close()
    assert reopened(folder / "elsewhere", name) == (expected(name)[HALF], 0)


def replaced(folder: Path, name: str) -> None:
    """Another model in the place of an open one, whose folder was removed: neither touches the other."""
    durable = lived(folder / FILE, name, HALF)
    shutil.rmtree(folder)
    folder.mkdir()
    other = lived(folder / FILE, name, HALF)
    refused(StoreError, lambda: keyed(name, HALF, durable), "replaced")
    before = snapshot(folder)
    durable.close()
    assert snapshot(folder) == before
    goes_on(other, name)


def not_writable(folder: Path, name: str) -> None:
    """A folder or a file without the right to write: it can be loaded, not opened."""
    lived(folder / FILE, name, HALF).close()
    load(folder / FILE)
    HISTORY.mkdir(exist_ok=True)
    os.chmod(HISTORY, 0o777)
    if os.geteuid() == 0:  # who may write everywhere
        for path in (folder, folder / FILE):
            os.chown(path, NOBODY, NOBODY)
        os.setuid(NOBODY)
    os.chmod(folder / FILE, 0o444)
    refused(StoreError, lambda: Durable.open(folder / FILE), FILE)
    os.chmod(folder, 0o555)
    before = snapshot(folder)
    refused(StoreError, lambda: Durable.open(folder / FILE), FILE)
    refused(StoreError, lambda: Durable(folder / "new", model(name)), "new")
    assert digest(load(folder / FILE)) == expected(name)[HALF]
    assert snapshot(folder) == before
    os.chmod(folder, 0o755)
    os.chmod(folder / FILE, 0o644)


def no_descriptors(folder: Path, name: str) -> None:
    durable = lived(folder / FILE, name, HALF, checkpoint_rows=10)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, hard))
    taken = []
    with suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    done = HALF
    try:
        keyed(name, HALF, durable)
        done += 1
    except StoreError:
        pass
    refused(StoreError, lambda: Durable.open(folder / "other" / FILE), "other")
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    goes_on(durable, name, done)


def no_memory_for_the_state(folder: Path, name: str) -> None:
    """The rows of the call are learned once, the state is written at the next call."""
    durable = lived(folder / FILE, name, HALF, checkpoint_rows=1)
    with patch("batch2online.storage.tree.encoded", side_effect=MemoryError("none left")):
        keyed(name, HALF, durable)
        assert isinstance(durable.checkpoint_error, MemoryError)
        refused(MemoryError, durable.checkpoint)
    goes_on(durable, name, HALF + 1)


CONDITIONS = (two_writers, forked, copied, moved, moved_and_closed, replaced, not_writable, no_descriptors,
              no_memory_for_the_state)  # fmt: skip


# -- a full disk ----------------------------------------------------------------------------------------------


@small_blocks
def full_disk(count: int, seed: int = 0) -> dict[str, int]:
    """No room in the middle of a call: model and file are as they were, and both go on once there is room."""
    outcomes, names = Counter(), tuple(ESTIMATORS)
    for index in range(0, count, ALL):
        name, space = names[index // ALL % len(names)], (limit, ballast)[index // ALL // len(names) % 2]
        with scratch() as folder, room(Path(folder), space) as place:
            if place is not None:
                said, _ = killed(lambda say, n=name, p=place, s=space, i=index: _fill(p, n, s, seed + i, say))
                outcomes.update(f"{space.__name__}: {word}" for word in said)
    return dict(outcomes)


def _fill(folder: Path, name: str, space, seed: int, say) -> None:
    rng, copy = np.random.default_rng(seed), folder.parent / "copy"
    durable = lived(folder / FILE, name, 0, durability=str(rng.choice(["every", "batch", "os"])), checkpoint_rows=40)
    for number in range(ALL):
        done = number
        with space(folder, int(rng.exponential(80_000))):
            try:
                keyed(name, number, durable)
                done += 1
            except StoreError as error:
                assert "disk" in str(error) or "space" in str(error) or "large" in str(error), error  # noqa: PT017
        assert digest(durable.model) == expected(name)[done], "full disk: another model than that of the file"
        shutil.copytree(folder, copy)
        assert reopened(copy / FILE, name) == (expected(name)[done], 0)
        shutil.rmtree(copy)
        if done == number:
            keyed(name, number, durable)
        say("done" if done > number else "error, as it was, done later")
    durable.close()
    assert reopened(durable.path, name) == (expected(name)[ALL], 0)


@contextmanager
def room(folder: Path, space) -> Iterator[Path | None]:
    """Give a folder in which there can be too little room, None where the system does not let us."""
    place = folder / "place"
    place.mkdir()
    if space is limit:
        yield place
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextmanager
def limit(folder: Path, left: int) -> Iterator[None]:
    """No file may become larger than the largest is, and a little more."""
    largest = max(path.stat().st_size for path in folder.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def ballast(folder: Path, left: int) -> Iterator[None]:
    """All of the disk is taken but a little."""
    path = folder / "ballast"
    with open(path, "wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(16_384))
        file.truncate(max(0, file.tell() - left))
    try:
        yield
    finally:
        path.unlink()
