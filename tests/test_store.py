"""The store: what is appended is there, whatever is refused leaves it as it was."""

import copy
import errno
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch2online.persistence.files import Files
from batch2online.persistence.store import Store, StoreCorrupted, StoreError, StoreLocked, reader, store
from batch2online.persistence.store.records import Header
from torture.faults import FaultyFiles, Killed, ShortWrites, Unsynced
from torture.stores import ROWS, STEPS, content, is_same, states_of, written

FAST = {"files": Unsynced()}


def segment(folder, number=0):
    return folder / f"{number:08d}.rows"


# -- rows -----------------------------------------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3000)),
        st.tuples(st.just("truncate"), st.floats(0, 1)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(steps=steps, columns=st.integers(1, 4), piece=st.integers(1, 5000), data=st.data())
def test_a_store_is_an_array_that_grows(steps, columns, piece, data, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("store"), np.random.default_rng(0)
    expected = np.empty((0, columns))
    opened = Store.create(folder, columns, segment_bytes=20_000, **FAST)
    for kind, value in steps:
        if kind == "append":
            rows = rng.normal(size=(value, columns))
            opened.append(rows)
            expected = np.concatenate([expected, rows])
        elif kind == "truncate":
            expected = expected[: int(value * len(expected))]
            opened.truncate(len(expected))
        else:
            opened.close()
            opened = Store.open(folder, segment_bytes=20_000, **FAST)
            assert opened.recovered is None
        assert len(opened) == len(expected)
    pieces = list(opened.pieces(rows=piece))
    assert all(0 < len(part) <= piece and not part.flags.writeable for part in pieces)
    assert np.array_equal(np.concatenate([np.empty((0, columns)), *pieces]), expected)
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    part = np.concatenate([np.empty((0, columns)), *opened.pieces(start, stop)])
    assert np.array_equal(part, expected[start:stop])
    numbers = np.array(
        sorted(data.draw(st.lists(st.integers(0, len(expected) - 1))) if len(expected) else []), dtype=int
    )
    assert np.array_equal(opened.read(numbers), expected[numbers])
    opened.close()


def test_doubles_come_back_bit_for_bit(tmp_path):
    rows = np.array([[np.nan, -np.nan, np.inf, -0.0, 5e-324, 2**53 + 1]])
    rows[0, 1] = np.array(0xFFF8DEADBEEF0001, dtype=np.uint64).view(np.float64)
    with Store.create(tmp_path, 6) as opened:
        opened.append(rows)
        assert content(opened).tobytes() == rows.tobytes()


def test_rows_appended_together_are_not_copied(tmp_path):
    with Store.create(tmp_path, 2) as opened:
        opened.append(ROWS[:2000, :2])
        (piece,) = opened.pieces()
        assert not piece.flags.owndata
        opened.append(ROWS[:2000, :2])  # the file has grown behind the map
        opened.truncate(10)
        assert np.array_equal(piece, ROWS[:2000, :2])


def test_rows_appended_one_by_one_come_in_large_pieces(tmp_path):
    with Store.create(tmp_path, 1, sync="never") as opened:
        for row in range(300):
            opened.append([[float(row)]])
        (piece,) = opened.pieces()
        assert piece[:, 0].tolist() == list(range(300))


def test_more_segments_than_maps(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_MAPS", 2)
    with Store.create(tmp_path, 1, segment_bytes=1, **FAST) as opened:
        for row in range(6):
            opened.append([[float(row)]])
        assert opened.read(range(6))[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert len(opened._maps) == 2
    assert len(list(tmp_path.glob("*.rows"))) == 7


def test_a_system_that_takes_few_bytes_at_a_time(tmp_path):
    with Store.create(tmp_path, 3, files=ShortWrites()) as opened:
        opened.append(ROWS[:20])
        assert np.array_equal(content(opened), ROWS[:20])


@pytest.mark.parametrize("rows", [np.ones(3), np.ones((2, 2)), np.ones((1, 2, 3)), [["x", "y", "z"]]])
def test_rows_of_another_shape_are_refused(tmp_path, rows):
    with Store.create(tmp_path, 3) as opened:
        with pytest.raises(ValueError, match=r"shape|convert"):
            opened.append(rows)
        assert len(opened) == 0


@pytest.mark.parametrize("columns", [0, -1, 1.5, "3", None, 2**32])
def test_impossible_numbers_of_columns_are_refused(tmp_path, columns):
    with pytest.raises(ValueError, match="columns"):
        Store.create(tmp_path / "store", columns)
    assert not (tmp_path / "store").exists()


def test_places_outside_are_refused(tmp_path):
    with Store.create(tmp_path, 3) as opened:
        opened.append(ROWS[:5])
        for numbers in ([-1], [5], [3, 2]):
            with pytest.raises(ValueError, match="row numbers"):
                opened.read(numbers)
        for bounds in ((-1, 2), (3, 2), (0, 6), (0, 5, 0)):
            with pytest.raises(ValueError, match="no rows"):
                opened.pieces(*bounds)
        for n in (-1, 6):
            with pytest.raises(ValueError, match="n_rows"):
                opened.truncate(n)


# -- syncing --------------------------------------------------------------------------------------------------


class CountingFiles(Files):
    n_fsyncs = 0

    def fsync(self, descriptor):
        self.n_fsyncs += 1


def test_each_mode_syncs_when_it_says(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    counts = {}
    for mode in ("always", "interval", "never"):
        files = CountingFiles()
        opened = Store.create(tmp_path / mode, 3, sync=mode, files=files)
        files.n_fsyncs = 0
        for _ in range(10):
            now[0] += 0.25
            opened.append(ROWS[:2])
        counts[mode] = files.n_fsyncs, opened.n_durable
        opened.sync()
        opened.sync()
        assert (files.n_fsyncs, opened.n_durable) == (counts[mode][0] + (mode != "always"), 20)
        opened.close()
    assert counts == {"always": (10, 20), "interval": (2, 16), "never": (0, 0)}


def test_an_unknown_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="sync"):
        Store.create(tmp_path, 3, sync="sometimes")


class FailingFiles(Files):
    """Calls that fail while their names are in ``broken``."""

    def __init__(self, *broken):
        self.broken = set(broken)


for _name in ("write", "fsync", "truncate", "rename", "fsync_folder"):

    def _call(self, *arguments, _name=_name):
        if _name in self.broken:
            raise OSError(errno.EIO, "broken")
        return getattr(Files, _name)(self, *arguments)

    setattr(FailingFiles, _name, _call)


def test_a_failed_fsync_poisons_the_store(tmp_path):
    files = FailingFiles()
    opened = Store.create(tmp_path, 3, sync="always", files=files)
    opened.append(ROWS[:4])
    files.broken = {"fsync"}
    with pytest.raises(StoreError, match="fsync failed"):
        opened.append(ROWS[4:6])
    files.broken = set()
    for act in (
        lambda: opened.append(ROWS[:1]),
        lambda: opened.truncate(0),
        opened.sync,
        lambda: opened.read([0]),
        lambda: list(opened.pieces()),
    ):
        with pytest.raises(StoreError, match="cannot be used any more: fsync failed"):
            act()
    opened.close()
    with Store.open(tmp_path) as again:
        assert len(again) in (4, 6)


def test_a_full_disk_refuses_rows_and_takes_them_when_there_is_room(tmp_path):
    files = FailingFiles()
    with Store.create(tmp_path, 3, files=files) as opened:
        opened.append(ROWS[:4])
        files.broken = {"write"}
        with pytest.raises(StoreError, match="cannot write"):
            opened.append(ROWS[4:6])
        files.broken = set()
        opened.append(ROWS[6:9])
        assert np.array_equal(content(opened), ROWS[[0, 1, 2, 3, 6, 7, 8]])


def test_what_can_neither_be_written_nor_taken_back_poisons_the_store(tmp_path):
    files = FailingFiles()
    opened = Store.create(tmp_path, 3, files=files)
    files.broken = {"write", "truncate"}
    with pytest.raises(StoreError, match="could not be taken back"):
        opened.append(ROWS[:2])
    files.broken = set()
    with pytest.raises(StoreError, match="cannot be used any more"):
        opened.append(ROWS[:2])
    opened.close()


def test_an_interrupt_takes_back_what_was_written(tmp_path):
    class Interrupted(Files):
        is_armed = False

        def write(self, descriptor, parts):
            taken = super().write(descriptor, parts)
            if self.is_armed:
                raise KeyboardInterrupt
            return taken

        def truncate(self, descriptor, size):
            if self.is_armed == "twice":
                raise KeyboardInterrupt
            super().truncate(descriptor, size)

    files = Interrupted()
    opened = Store.create(tmp_path, 3, files=files)
    opened.append(ROWS[:2])
    size = segment(tmp_path).stat().st_size
    files.is_armed = True
    with pytest.raises(KeyboardInterrupt):
        opened.append(ROWS[2:4])
    assert segment(tmp_path).stat().st_size == size
    files.is_armed = "twice"
    with pytest.raises(KeyboardInterrupt):
        opened.append(ROWS[2:4])
    with pytest.raises(StoreError, match="cannot be used any more"):
        opened.read([0])
    opened.close()


def test_a_segment_that_may_not_be_durable_poisons_the_store(tmp_path):
    files = FailingFiles()
    opened = Store.create(tmp_path, 3, segment_bytes=1, files=files)
    opened.append(ROWS[:2])
    files.broken = {"rename"}
    with pytest.raises(StoreError, match="cannot begin"):
        opened.append(ROWS[2:4])
    files.broken = {"fsync_folder"}
    with pytest.raises(StoreError, match="cannot begin"):
        opened.append(ROWS[2:4])
    with pytest.raises(StoreError, match="may not be durable"):
        opened.append(ROWS[2:4])
    opened.close()
    with Store.open(tmp_path) as again:
        assert np.array_equal(content(again), ROWS[:2])


def test_rows_are_safe_even_if_the_note_at_the_end_is_not_written(tmp_path):
    files = FailingFiles()
    opened = Store.create(tmp_path, 3, files=files)
    opened.append(ROWS[:2])
    files.broken = {"write"}
    opened.close()
    opened.close()
    with Store.open(tmp_path) as again:
        assert np.array_equal(content(again), ROWS[:2])


def test_a_file_without_an_end_is_not_synced_when_it_cannot_be_created(tmp_path):
    with pytest.raises(StoreError, match="cannot create"):
        Store.create(tmp_path, 3, files=FailingFiles("rename"))
    assert list(tmp_path.iterdir()) == [tmp_path / "lock"]
    Store.create(tmp_path, 3).close()


# -- who may do what ------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path):
    with Store.create(tmp_path, 3) as opened:
        opened.append(ROWS[:2])
        with pytest.raises(StoreLocked, match="another"):
            Store.open(tmp_path)
        with pytest.raises(StoreLocked):
            Store.create(tmp_path, 3)
        with Store.open(tmp_path, read_only=True) as one:
            assert np.array_equal(content(one), ROWS[:2])
            with pytest.raises(StoreError, match="reading only"):
                one.append(ROWS[:1])
            with pytest.raises(StoreError, match="reading only"):
                one.truncate(1)
    Store.open(tmp_path).close()


def test_a_second_process_is_refused(tmp_path):
    code = f"from batch2online.persistence.store import Store; Store.open({str(tmp_path)!r})"
    with Store.create(tmp_path, 3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StoreLocked" in done.stderr


def test_a_dropped_store_gives_its_lock_back(tmp_path):
    opened = Store.create(tmp_path, 3)
    opened.append(ROWS[:3])
    del opened
    with Store.open(tmp_path) as again:
        assert len(again) == 3


def test_a_forked_process_cannot_write(tmp_path):
    with Store.create(tmp_path, 3) as opened:
        child = os.fork()
        if child == 0:
            try:
                opened.append(ROWS[:1])
            except StoreError:
                opened.close()  # leaves the parent's lock alone
                os._exit(17)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
        with pytest.raises(StoreLocked):
            Store.open(tmp_path)
        opened.append(ROWS[:1])
        assert len(opened) == 1


def test_another_process_than_the_one_that_opened_it_cannot_write(tmp_path, monkeypatch):
    with Store.create(tmp_path, 3) as opened, monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreError, match="belongs to the process"):
            opened.append(ROWS[:1])


def test_a_closed_store_does_nothing(tmp_path):
    opened = Store.create(tmp_path, 3)
    opened.close()
    with pytest.raises(StoreError, match="it is closed"):
        opened.append(ROWS[:1])


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_store_is_not_copied(tmp_path, act):
    with Store.create(tmp_path, 3) as opened, pytest.raises(TypeError, match="open its folder"):
        act(opened)


class ReadOnlyFolder(Files):
    def lock(self, path):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_folder_that_cannot_be_written_to_is_refused_and_can_be_read(tmp_path):
    written(tmp_path / "store")
    with pytest.raises(StoreError, match="Permission denied"):
        Store.open(tmp_path / "store", files=ReadOnlyFolder())
    with pytest.raises(StoreError, match="Permission denied"):
        Store.create(tmp_path / "new", 3, files=ReadOnlyFolder())
    with Store.open(tmp_path / "store", read_only=True, files=ReadOnlyFolder()) as opened:
        assert len(opened) == 15


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create"):
        Store.create(tmp_path / "file", 3)
    with pytest.raises(StoreError, match="holds no store"):
        Store.open(tmp_path / "file")


def test_a_folder_without_a_store_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(StoreError, match="holds no store"):
            Store.open(folder)


def test_a_store_is_not_created_over_another(tmp_path):
    written(tmp_path / "store")
    with pytest.raises(StoreError, match="holds a store already"):
        Store.create(tmp_path / "store", 3)


def test_folders_above_are_created(tmp_path):
    Store.create(tmp_path / "a" / "b" / "c", 3).close()
    assert len(Store.open(tmp_path / "a" / "b" / "c", read_only=True)) == 0


# -- damage ---------------------------------------------------------------------------------------------------


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("content", [b"", b"x", b"a,b\n1,2\n" * 20, bytes(100)], ids=["empty", "byte", "text", "zeros"])
def test_foreign_files_are_refused(tmp_path, content):
    segment(tmp_path).write_bytes(content)
    for repair in (False, True):
        with pytest.raises(StoreCorrupted, match="does not begin as"):
            Store.open(tmp_path, repair=repair)


def test_a_later_version_is_refused_with_advice(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("batch2online.persistence.store.records.VERSION", 2)
        Store.create(tmp_path, 3).close()
    for repair in (False, True):
        with pytest.raises(StoreError, match="upgrade") as caught:
            Store.open(tmp_path, repair=repair)
        assert not isinstance(caught.value, StoreCorrupted)


def test_damage_behind_which_all_was_durable_is_no_crash(tmp_path):
    written(tmp_path / "store")
    flip(segment(tmp_path / "store"), 245)
    before = segment(tmp_path / "store").read_bytes()
    with pytest.raises(StoreCorrupted, match=r"damaged at byte 200: the rows.*5 rows before it are intact"):
        Store.open(tmp_path / "store")
    with Store.open(tmp_path / "store", read_only=True, repair=True) as opened:
        assert np.array_equal(content(opened), ROWS[:5])
        assert (opened.recovered.rows, opened.recovered.segment) == (5, "00000000.rows")
    assert segment(tmp_path / "store").read_bytes() == before
    with Store.open(tmp_path / "store", repair=True) as opened:
        assert opened.recovered.dropped_bytes > 0
        opened.append(ROWS[5:8])
    with Store.open(tmp_path / "store") as opened:
        assert opened.recovered is None
        assert np.array_equal(content(opened), ROWS[:8])


def test_repairing_sets_later_segments_aside(tmp_path):
    written(tmp_path / "store", segment_bytes=900)
    names = sorted(path.name for path in (tmp_path / "store").glob("*.rows"))
    assert len(names) > 2
    flip(segment(tmp_path / "store", 1), 60)
    with pytest.raises(StoreCorrupted):
        Store.open(tmp_path / "store")
    with Store.open(tmp_path / "store", repair=True) as opened:
        rows = content(opened)
        opened.append(ROWS[:1])
    left = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert left == sorted([*names[:2], *(name.replace(".rows", ".damaged") for name in names[2:]), "lock"])
    with Store.open(tmp_path / "store") as opened:
        assert np.array_equal(content(opened), np.concatenate([rows, ROWS[:1]]))


@pytest.mark.parametrize("what", ["missing", "exchanged", "of another store", "damaged header"])
def test_segments_that_do_not_belong_together_are_refused(tmp_path, what):
    written(tmp_path / "store", segment_bytes=700)
    one, two = segment(tmp_path / "store", 1), segment(tmp_path / "store", 2)
    if what == "missing":
        one.unlink()
    elif what == "exchanged":
        contents = one.read_bytes(), two.read_bytes()
        two.write_bytes(contents[0])
        one.write_bytes(contents[1])
    elif what == "of another store":
        first = Header.unpack(one.read_bytes())
        one.write_bytes(Header(first.columns, 1, first.rows_before, first.previous ^ 1).pack() + one.read_bytes()[40:])
    else:
        flip(one, 20)
    with pytest.raises(StoreCorrupted, match=r"follow|header"):
        Store.open(tmp_path / "store")
    with Store.open(tmp_path / "store", read_only=True, repair=True) as opened:
        assert any(is_same(content(opened), state) for state in states_of(STEPS))


def test_a_record_cut_out_of_the_middle_is_noticed(tmp_path):
    with Store.create(tmp_path, 3) as opened:
        for start in range(0, 9, 3):
            opened.append(ROWS[start : start + 3])
    whole, size = segment(tmp_path).read_bytes(), 40 + 3 * 3 * 8
    segment(tmp_path).write_bytes(whole[: 40 + size] + whole[40 + 2 * size :])
    with pytest.raises(StoreCorrupted, match="does not follow"):
        Store.open(tmp_path)


def test_rows_that_look_like_records_are_rows(tmp_path):
    with Store.create(tmp_path, 3, sync="never") as opened:
        opened.append(np.frombuffer(b"ROWS" * 60, dtype="<f8").reshape(-1, 3))
    segment(tmp_path).write_bytes(segment(tmp_path).read_bytes()[:-5])
    with Store.open(tmp_path) as opened:
        assert opened.recovered.rows == len(opened) == 0


def test_temporary_files_of_a_crash_are_removed(tmp_path):
    files = FaultyFiles(9, "kill")
    with pytest.raises(Killed):
        Store.create(tmp_path / "store", 3, segment_bytes=1, files=files).append(ROWS[:1])
    files.bury()
    (tmp_path / "store" / ".00000001.rows.9-9.tmp").write_bytes(b"half")
    Store.open(tmp_path / "store").close()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["00000000.rows", "lock"]


def test_appending_a_thousand_rows_is_one_call(tmp_path):
    files = FaultyFiles()
    with Store.create(tmp_path, 8, sync="never", files=files) as opened:
        before = len(files.calls)
        opened.append(np.ones((1000, 8)))
        assert files.calls[before:] == ["write"]
