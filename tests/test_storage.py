"""Checkpoints: complete, exact, atomic, and refused when they are anything but intact."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest

from batch2online import OnlineRegression, load
from batch2online.core import registry
from batch2online.persistence import checkpoint as storage
from batch2online.persistence.checkpoint import CheckpointError, deserialise, serialise
from batch2online.persistence.files import Files
from batch2online.refresh import Budget, EveryStep, Geometric, Lazy, OnChange
from forging import forged
from torture.faults import FaultyFiles, Killed

rng = np.random.default_rng(0)
X = rng.normal(size=(500, 3))
Y = X @ [1.0, -2.0, 3.0] + rng.normal(size=500)


def state(model):
    return serialise(model._state())


def model_of(n, **settings):
    return OnlineRegression(**{"coreset_size": 60, "random_state": 0} | settings).partial_fit(X[:n], Y[:n])


# -- there and back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 12, 130, 300])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"keep_history": True, "first_id": 10**18},
        {"solve": "exact", "fit_intercept": False, "score_targets": False},
        {"coreset_size": "theory"},
        {"coreset_size": np.int64(60), "first_id": np.int64(5)},
        {"random_state": None},
        {"random_state": np.int64(3)},
        {"random_state": np.uint64(2**64 - 1)},
        {"refresh": EveryStep()},
        {"refresh": OnChange()},
        {"refresh": Geometric(1.5, start=20)},
        {"refresh": Geometric(np.float32(1.5), start=np.int64(20))},
        {"refresh": Lazy(2, 0.01)},
        {"refresh": Budget(changes=5, horizon=1000)},
    ],
    ids=str,
)
def test_a_loaded_model_is_the_saved_one_and_continues_bit_for_bit(settings, n, tmp_path):
    saved = model_of(n, **settings)
    saved.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert type(loaded) is OnlineRegression
    assert loaded.get_params() == saved.get_params()
    assert state(loaded) == state(saved)
    for model in (saved, loaded):
        model.partial_fit(X[n:400], Y[n:400]).learn_one(X[400], Y[400])
    assert state(loaded) == state(saved)
    assert np.array_equal(loaded.predict(X), saved.predict(X))
    assert loaded.regret_ == saved.regret_
    assert loaded.changes_ == saved.changes_


@pytest.mark.parametrize("source", [np.random.RandomState, np.random.default_rng])
def test_a_generator_is_stored_as_the_seed_it_gave(source, tmp_path):
    saved = model_of(130, random_state=source(0))
    saved.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.random_state == saved._engine.construction.seed
    assert state(loaded.partial_fit(X[130:], Y[130:])) == state(saved.partial_fit(X[130:], Y[130:]))


def test_names_and_shapes_of_several_targets_come_back(tmp_path):
    frame, targets = pd.DataFrame(X, columns=["a", "b", "naïve"]), np.column_stack([Y, -Y])
    saved = OnlineRegression(random_state=0).partial_fit(frame[:300], targets[:300])
    saved.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.feature_names_in_.tolist() == ["a", "b", "naïve"]
    assert loaded.n_features_in_ == 3
    for model in (saved, loaded):
        model.partial_fit(frame[300:], targets[300:])
    assert state(loaded) == state(saved)


def test_merging_and_forgetting_work_on_loaded_models(tmp_path):
    first, second = model_of(200, keep_history=True), model_of(200, keep_history=True, first_id=1000)
    first.save(tmp_path / "first")
    second.save(tmp_path / "second")
    loaded = load(tmp_path / "first").merge(load(tmp_path / "second")).forget([3, 1003])
    assert state(loaded) == state(first.merge(second).forget([3, 1003]))


def test_equal_states_give_equal_bytes_whatever_memory_held_before():
    contents = set()
    for value in (1.0, 2.0):
        dirt = [np.full((rows, 3), value) for rows in (64, 256, 1000) for _ in range(50)]
        del dirt
        model = OnlineRegression(random_state=0)
        for row, target in zip(X[:100], Y[:100], strict=True):
            model.learn_one(row, target)
        contents.add(state(model))
    assert len(contents) == 1


@pytest.mark.parametrize("chunk", [1, 7, 499])
def test_the_bytes_do_not_depend_on_the_sizes_of_chunks(chunk):
    whole, model = OnlineRegression(random_state=0).partial_fit(X, Y), OnlineRegression(random_state=0)
    for start in range(0, len(X), chunk):
        model.partial_fit(X[start : start + chunk], Y[start : start + chunk])
    assert state(model) == state(whole)


@pytest.mark.parametrize(
    "value",
    [
        {"text": "naïve", "none": None, "yes": True, "large": 2**64, "nested": [1, (2, [3])]},
        [0.1, -0.0, float("inf"), 5e-324],
        {"float": 1, "array": 2, "object": 3},
    ],
)
def test_plain_values_come_back_as_they_were(value):
    assert repr(deserialise(serialise(value))) == repr(value)


@pytest.mark.parametrize("dtype", ["f8", "i8", "u8", "?"])
@pytest.mark.parametrize("shape", [(0, 3), (4,), (2, 3)])
def test_arrays_come_back_as_they_were(dtype, shape):
    array = rng.integers(0, 2, size=shape).astype(dtype)
    back = deserialise(serialise(array))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back, array)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, np.array([object()]), 1j, {1: "key"}], ids=lambda v: type(v).__name__
)
def test_what_cannot_come_back_cannot_be_stored(value):
    with pytest.raises((TypeError, ValueError)):
        serialise(value)


# -- what is refused ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content():
    return state(model_of(130, keep_history=True))


@pytest.fixture
def load_bytes(tmp_path):
    def load_it(content):
        (tmp_path / "file").write_bytes(content)
        return load(tmp_path / "file")

    return load_it


def test_numpy_opens_a_checkpoint_without_pickle(content, tmp_path):
    (tmp_path / "model.npz").write_bytes(content)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as archive:
        names = [name for name in archive.files if name.startswith("a")]
        assert len(names) > 10
        assert all(archive[name].dtype != object for name in names)


def test_truncated_files_are_refused(content, load_bytes):
    for length in {*range(0, len(content), 97), *range(len(content) - 100, len(content))}:
        with pytest.raises(CheckpointError, match="file"):
            load_bytes(content[:length])


def test_bytes_behind_the_end_are_refused(content, load_bytes):
    with pytest.raises(CheckpointError, match="file"):
        load_bytes(content + b"\0")


def test_any_flipped_bit_is_noticed(content, load_bytes):
    size = len(content)
    random = np.random.default_rng(0)
    for place in {*random.integers(0, size, 300).tolist(), *range(30), *range(size - 95, size)}:
        damaged = bytearray(content)
        damaged[place] ^= 1 << random.integers(8)
        with pytest.raises(CheckpointError, match="file"):
            load_bytes(bytes(damaged))


def an_archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def an_npz():
    buffer = io.BytesIO()
    np.savez(buffer, a0=np.arange(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "foreign",
    [b"", b"PK", an_archive(), an_archive(manifest="{}"), an_npz(), b"a,b\n1,2\n" * 100, pickle.dumps(list(range(99)))],
    ids=["empty", "two bytes", "empty zip", "zip", "npz", "text", "pickle"],
)
def test_foreign_files_are_refused(foreign, load_bytes):
    with pytest.raises(CheckpointError, match="not a batch2online checkpoint"):
        load_bytes(foreign)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere")


def test_a_newer_schema_is_refused_with_advice(monkeypatch, load_bytes):
    with monkeypatch.context() as patch:
        patch.setattr(storage, "SCHEMA", storage.SCHEMA + 1)
        newer = state(model_of(20))
    with pytest.raises(CheckpointError, match="upgrade batch2online"):
        load_bytes(newer)


def test_another_format_is_refused(monkeypatch, load_bytes):
    with monkeypatch.context() as patch:
        patch.setattr(storage, "FORMAT", "other")
        other = state(model_of(20))
    with pytest.raises(CheckpointError, match="not a batch2online checkpoint"):
        load_bytes(other)


class Stranger:
    pass


def test_a_class_that_is_not_storable_can_neither_be_written_nor_read(monkeypatch):
    with pytest.raises(TypeError, match="Stranger"):
        serialise(Stranger())
    with monkeypatch.context() as patch:
        patch.setitem(registry.classes, "Stranger", Stranger)
        content = serialise(Stranger())
        assert isinstance(deserialise(content), Stranger)
    with pytest.raises(CheckpointError, match="Stranger"):
        deserialise(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state | {"estimator": "Stranger"},
        lambda state: state | {"estimator": ["OnlineRegression"]},
        lambda state: state | {"params": {"unknown": 1}},
        lambda state: state | {"params": None},
        lambda state: state | {"engine": None},
        lambda state: {},
        lambda state: [state],
        lambda state: None,
    ],
    ids=["estimator", "list", "parameter", "no parameters", "no engine", "empty", "list of states", "nothing"],
)
def test_an_intact_file_without_a_known_estimator_is_refused(change, load_bytes):
    content = serialise(change(model_of(20)._state()))
    with pytest.raises(CheckpointError, match="file"):
        load_bytes(content)


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "null",
        json.dumps({"format": storage.FORMAT}),
        json.dumps({"format": storage.FORMAT, "schema": "1", "state": None}),
        json.dumps({"format": storage.FORMAT, "schema": 1}),
        json.dumps({"format": storage.FORMAT, "schema": 1, "state": {"array": 5}}),
        json.dumps({"format": storage.FORMAT, "schema": 1, "state": {"float": "x"}}),
        json.dumps({"format": storage.FORMAT, "schema": 1, "state": {"object": "Rows", "fields": []}}),
    ],
)
def test_a_malformed_manifest_is_refused_even_under_a_right_checksum(manifest):
    with pytest.raises(CheckpointError):
        deserialise(forged(manifest))


# -- writing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("exception", [OSError, KeyboardInterrupt])
def test_an_interrupted_save_leaves_the_old_file_and_nothing_else(monkeypatch, tmp_path, step, exception):
    path = tmp_path / "model.npz"
    model_of(50).save(path)
    before = path.read_bytes()

    def failing(*_):
        raise exception

    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing)
        with pytest.raises(exception):
            model_of(100).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


def test_saving_replaces_the_old_file(tmp_path):
    path = tmp_path / "model.npz"
    model_of(50).save(path)
    model_of(100).save(str(path))
    assert load(str(path)).n_seen_ == 100
    assert os.listdir(tmp_path) == ["model.npz"]


def test_saving_to_a_bare_name_goes_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model_of(50).save("model.npz")
    assert load("model.npz").n_seen_ == 50


def test_saving_leaves_the_model_as_it_is(tmp_path):
    model = model_of(130)
    before = state(model)
    model.save(tmp_path / "model.npz")
    assert state(model) == before


# -- files that claim more than they hold -----------------------------------------------------------------


def signed(members, compression=zipfile.ZIP_STORED):
    """An archive of these members under a right checksum."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = b" " * 71
    body = buffer.getvalue()[:-71]
    return body + b"sha256:" + hashlib.sha256(body).hexdigest().encode()


def manifest_of(tree):
    return json.dumps({"format": storage.FORMAT, "schema": storage.SCHEMA, "state": tree})


def npy(header, data=b"", version=b"\x01\x00"):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "array",
    [
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", bytes(24)),
        npy("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 2)}", bytes(16)),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        npy("{'descr': '<U2', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(8), version=b"\x02\x00"),
    ],
    ids=["huge", "too short", "Fortran", "objects", "strings", "another format"],
)
def test_arrays_that_do_not_fit_their_bytes_are_refused_before_they_are_made(array):
    content = signed({"manifest.json": manifest_of({"array": 0}), "a0.npy": array})
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="an array"):
            deserialise(content)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_compressed_members_are_refused_before_they_are_unpacked():
    content = signed({"manifest.json": manifest_of({"list": [0] * 10**7})}, zipfile.ZIP_DEFLATED)
    assert len(content) < 10**5
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"a member is compressed"):
            deserialise(content)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_tree_deeper_than_any_is_refused():
    with pytest.raises(CheckpointError, match="the tree is no JSON"):
        deserialise(signed({"manifest.json": manifest_of(None).replace("null", "[" * 10**5 + "]" * 10**5)}))


def test_fields_that_an_earlier_version_did_not_have_take_their_defaults(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Thing:
        one: int

    @dataclasses.dataclass(frozen=True)
    class ThingNow:
        one: int
        two: float = 2.5

    monkeypatch.setitem(registry.classes, "Thing", Thing)
    content = serialise([Thing(1)])
    monkeypatch.setitem(registry.classes, "Thing", ThingNow)
    assert deserialise(content) == [ThingNow(1, 2.5)]


@pytest.mark.parametrize("fields", [{}, {"one": 1, "two": 2}])
def test_objects_with_other_fields_than_their_class_are_refused(monkeypatch, fields):
    @dataclasses.dataclass(frozen=True)
    class Thing:
        one: int

    monkeypatch.setitem(registry.classes, "Thing", Thing)
    with pytest.raises(CheckpointError, match="Thing has"):
        deserialise(signed({"manifest.json": manifest_of({"object": "Thing", "fields": fields})}))


class Lying(Files):
    """A disk that stores other bytes than it is given."""

    def write(self, descriptor, parts):
        return super().write(descriptor, [b"\0" * len(b"".join(map(bytes, parts)))])


def test_the_old_checkpoint_stays_until_the_new_one_is_read_back_intact(tmp_path):
    path = tmp_path / "model.npz"
    storage.write(path, b"old")
    with pytest.raises(CheckpointError, match="other bytes"):
        storage.write(path, b"new", Lying())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.npz"]


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "model.npz"
    storage.write(path, b"old")
    n_calls = FaultyFiles()
    storage.write(tmp_path / "other", b"new", n_calls)
    for index in range(len(n_calls.calls)):
        for fault in (28, "short", "kill half"):
            with contextlib.suppress(OSError, Killed):
                storage.write(path, b"new", FaultyFiles(index, fault))
            assert path.read_bytes() in (b"old", b"new")
            storage.write(path, b"old")


def test_a_temporary_file_left_by_a_crash_is_no_obstacle(tmp_path):
    files = FaultyFiles(2, "kill half")
    with pytest.raises(Killed):
        storage.write(tmp_path / "model.npz", b"new", files)
    files.bury()
    assert len(os.listdir(tmp_path)) == 1
    storage.write(tmp_path / "model.npz", b"new")
    assert os.listdir(tmp_path) == ["model.npz"]
