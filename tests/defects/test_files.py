"""Saved files: older ones never touch newer ones, looking writes nothing, what is forgotten is gone."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from batch2online import Durable, OnlineClustering, OnlineRegression, load
from batch2online.checks import small_blocks
from defects.subjects import ESTIMATORS, SMALL, X, Y, learned, state

ROWS = np.random.default_rng(0).normal(size=(6_000, 2))
KEPT = {name: case for name, case in ESTIMATORS.items() if "bounded" not in name}
"""Estimators whose history is kept."""


@pytest.fixture(autouse=True)
def blocks_of_few_rows():
    with small_blocks(500):
        yield


def with_history_on_disk(folder, **settings):
    return OnlineClustering(3, history=folder / "history", coreset_size=100, random_state=0, **settings)


def print_of(folder):
    """Size, time and content of all files below a folder."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def assert_rows_are(model, rows):
    """All rows of the coreset are those that were learned."""
    coreset = model.coreset_
    np.testing.assert_array_equal(coreset.points, rows[coreset.ids - model.first_id])
    assert model.n_seen_ == len(rows)


# -- older files and newer ones ----------------------------------------------------------------------------------


@pytest.mark.parametrize("first_id", [0, 250])
def test_going_back_to_an_older_file_never_touches_a_newer_one(tmp_path, first_id):
    model = with_history_on_disk(tmp_path, first_id=first_id)
    model.partial_fit(ROWS[:2000]).save(tmp_path / "monday")
    model.partial_fit(ROWS[2000:4000]).save(tmp_path / "tuesday")
    before = state(model)
    old = load(tmp_path / "monday")
    assert_rows_are(old, ROWS[:2000])
    old.partial_fit(ROWS[4000:] + 1000)  # another experiment, while the first model is still there
    old.forget([first_id + 5])
    old.save(tmp_path / "other")
    assert state(model) == before
    del model, old
    new = load(tmp_path / "tuesday")
    assert state(new) == before
    assert_rows_are(new, ROWS[:4000])
    assert_rows_are(load(tmp_path / "monday"), ROWS[:2000])
    assert load(tmp_path / "other").n_seen_ == 3999


def test_looking_at_an_older_file_never_touches_a_newer_one(tmp_path):
    model = with_history_on_disk(tmp_path, first_id=250)
    model.partial_fit(ROWS[:1350]).save(tmp_path / "monday")
    model.partial_fit(ROWS[1350:]).save(tmp_path / "tuesday")
    expected, coreset = model.regret_, model.coreset_
    del model
    before = print_of(tmp_path)
    monday = load(tmp_path / "monday")
    assert len(monday.coreset_)
    assert monday.regret_.rows == 1350
    assert print_of(tmp_path) == before
    tuesday = load(tmp_path / "tuesday")
    assert (tuesday.regret_, tuesday.coreset_) == (expected, coreset)


def open_files():
    """Sizes of the files without a name that this process has open, by their number."""
    sizes = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            if "(deleted)" in os.readlink(link):
                sizes[link.name] = (os.stat(link).st_size, os.stat(link).st_mtime_ns)
        except OSError:  # the one that lists
            continue
    return sizes


def look(model):
    for _ in range(3):
        assert len(model.coreset_)
        assert model.regret_.rows == model.n_seen_
        assert len(model.predict(ROWS[:5])) == 5
        assert len(model.changes_) == model.n_changes_


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not say which files are open")
@pytest.mark.parametrize("first_id", [0, 250])
@pytest.mark.slow
def test_looking_writes_nothing(tmp_path, first_id):
    model = with_history_on_disk(tmp_path, first_id=first_id).partial_fit(ROWS[:2600])
    model.forget([first_id + 7])
    model.partial_fit(ROWS[2600:2999])
    before, files = print_of(tmp_path), open_files()
    assert files
    look(model)
    assert (print_of(tmp_path), open_files()) == (before, files)
    model.save(tmp_path / "saved")
    with Durable(tmp_path / "durable", with_history_on_disk(tmp_path, first_id=first_id)) as durable:
        durable.partial_fit(ROWS[:2600]).forget([first_id + 7])
        durable.partial_fit(ROWS[2600:2999])
        before = print_of(tmp_path)
        look(durable.model)
        look(load(tmp_path / "saved"))
        assert print_of(tmp_path) == before


# -- forgetting --------------------------------------------------------------------------------------------------


def doubles_in(content):
    """All doubles that the bytes may spell, wherever they begin."""
    return np.concatenate(
        [np.frombuffer(content, dtype="<u8", offset=at, count=(len(content) - at) // 8) for at in range(8)]
    )


def found_in(contents, rows):
    """How many of the numbers of rows stand in one of these contents."""
    numbers = np.ascontiguousarray(rows).view("<u8").ravel()
    return sum(int(np.isin(numbers, doubles_in(content)).sum()) for content in contents if len(content) >= 16)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.few(2)
def test_forgotten_rows_are_in_no_byte_that_is_left(name, tmp_path):
    make, targets = KEPT[name]
    gone = list(range(400))
    with Durable(tmp_path / "durable", make(), durability="every") as durable:
        for start in range(0, 1000, 100):
            durable.partial_fit(X[start : start + 100], None if targets is None else targets[start : start + 100])
        assert found_in([path.read_bytes() for path in tmp_path.iterdir()], X[:400])
        durable.forget(gone)
        assert not found_in([path.read_bytes() for path in tmp_path.iterdir()], X[:400])
        durable.save(tmp_path / "saved")
        model = durable.model
    assert not found_in([path.read_bytes() for path in tmp_path.iterdir()], X[:400])
    assert not found_in([pickle.dumps(load(tmp_path / "saved"))], X[:400])
    assert model.n_seen_ == 600
    plain = learned(make(), targets, 0, 1000)
    assert found_in([pickle.dumps(plain)], X[:400])
    assert not found_in([pickle.dumps(plain.forget(gone))], X[:400])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not say which files are open")
def test_forgotten_rows_are_gone_from_a_history_on_disk(tmp_path):
    others = set(open_files())
    model = with_history_on_disk(tmp_path).partial_fit(ROWS)
    own = [Path("/proc/self/fd") / name for name in set(open_files()) - others]
    assert found_in([path.read_bytes() for path in own], ROWS[:3000])
    model.forget(range(3000))
    assert not found_in([path.read_bytes() for path in own], ROWS[:3000])
    assert model.n_seen_ == 3000


# -- rights and links --------------------------------------------------------------------------------------------


def test_saving_keeps_mode_and_owner_and_links(tmp_path):
    model = OnlineRegression(**SMALL).partial_fit(X[:100], Y[:100])
    path, link = tmp_path / "model", tmp_path / "link"
    model.save(path)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12346)
    before = path.stat()
    link.symlink_to(path)
    model.partial_fit(X[100:200], Y[100:200]).save(link)
    after = path.stat()
    assert link.is_symlink()
    assert load(path).n_seen_ == load(link).n_seen_ == 200
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o640, before.st_uid, before.st_gid)
    with Durable(link, OnlineRegression(**SMALL)) as durable:
        durable.partial_fit(X[200:300], Y[200:300])
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert load(path).n_seen_ == 300


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_rights_that_the_user_asks_for(tmp_path, mask):
    before = os.umask(mask)
    try:
        OnlineRegression(**SMALL).partial_fit(X[:100], Y[:100]).save(tmp_path / "saved")
        with Durable(tmp_path / "durable", OnlineRegression(**SMALL)) as durable:
            durable.partial_fit(X[:100], Y[:100])
    finally:
        os.umask(before)
    for name in ("saved", "durable"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o666 & ~mask


# -- foreign files -----------------------------------------------------------------------------------------------


def test_foreign_files_beside_a_model_do_no_harm(tmp_path):
    with Durable(tmp_path / "model", OnlineRegression(**SMALL)) as durable:
        durable.partial_fit(X[:1000], Y[:1000])
    for name in ("model-copy", "model.bak", "00000000-copy.rows", ".model.abc.tmp", "copy of model"):
        shutil.copy(tmp_path / "model", tmp_path / name)
    for name in ("model-owner", "model.lock", "model~", "owner"):
        (tmp_path / name).write_bytes(b"something else" * 100)
    foreign = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name not in ("model", "model-owner")}
    for accept_loss in (False, True):
        with Durable.open(tmp_path / "model", accept_loss=accept_loss) as durable:
            durable.partial_fit(X[1000:1100], Y[1000:1100])
            assert durable.reopened.lost == 0
    assert load(tmp_path / "model").n_seen_ == 1200
    assert {path: path.read_bytes() for path in foreign} == foreign
    with Durable.open(tmp_path / "model-copy") as copy:  # a copy is a model of its own
        copy.partial_fit(X[:100], Y[:100])
        assert copy.model.n_seen_ == 1100
    assert load(tmp_path / "model").n_seen_ == 1200
