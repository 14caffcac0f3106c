"""A model in a file: complete, exact, replaced as a whole, and refused when it is anything but intact."""

import os
import pickle
import sqlite3
from itertools import count

import numpy as np
import pandas as pd
import pytest

from batch2online import Durable, OnlineRegression, load
from batch2online.refresh import Adaptive, Every, EveryStep, Geometric, OnChange
from batch2online.storage import database
from batch2online.storage.errors import StoreCorrupted, StoreError
from batch2online.storage.tree import CheckpointError
from state_bytes import deserialise, serialise

rng = np.random.default_rng(0)
X = rng.normal(size=(500, 3))
Y = X @ [1.0, -2.0, 3.0] + rng.normal(size=500)


def state(model):
    return serialise(model._state())


def model_of(n, **settings):
    return OnlineRegression(**{"coreset_size": 60, "random_state": 0} | settings).partial_fit(X[:n], Y[:n])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.b2o"


# -- there and back -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"keep_history": True, "first_id": 10**18},
        {"solve": "exact", "fit_intercept": False, "score_targets": False, "coreset_size": "theory"},
        {"coreset_size": np.int64(60), "first_id": np.int64(5), "random_state": np.uint64(2**64 - 1)},
        {"random_state": None, "refresh": EveryStep()},
        {"refresh": OnChange()},
        {"refresh": Every(np.int64(70))},
        {"refresh": Geometric(np.float32(1.5), start=np.int64(20))},
        {"refresh": Adaptive(2, 1.5, 0.01)},
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [1, 130])
@pytest.mark.slow
def test_a_loaded_model_is_the_saved_one_and_continues_bit_for_bit(settings, n, path):
    saved = model_of(n, **settings)
    saved.save(path)
    loaded = load(path)
    assert loaded.get_params() == saved.get_params()
    assert state(loaded) == state(saved)
    for model in (saved, loaded):
        model.partial_fit(X[n:400], Y[n:400]).learn_one(X[400], Y[400])
    assert state(loaded) == state(saved)
    assert loaded.regret_ == saved.regret_
    assert loaded.changes_ == saved.changes_


@pytest.mark.parametrize("source", [np.random.RandomState, np.random.default_rng])
def test_a_generator_is_stored_as_the_seed_it_gave(source, path):
    saved = model_of(130, random_state=source(0))
    saved.save(path)
    loaded = load(path)
    assert loaded.random_state == saved._stream.sketch.settings.seed
    assert state(loaded.partial_fit(X[130:], Y[130:])) == state(saved.partial_fit(X[130:], Y[130:]))


def test_names_and_shapes_of_several_targets_come_back(path):
    frame, targets = pd.DataFrame(X, columns=["a", "b", "naïve"]), np.column_stack([Y, -Y])
    saved = OnlineRegression(random_state=0).partial_fit(frame[:300], targets[:300])
    saved.save(path)
    loaded = load(path)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "naïve"]
    for model in (saved, loaded):
        model.partial_fit(frame[300:], targets[300:])
    assert state(loaded) == state(saved)


@pytest.mark.parametrize("chunk", [1, 7, 499])
def test_the_state_does_not_depend_on_the_sizes_of_chunks(chunk):
    whole, model = OnlineRegression(random_state=0).partial_fit(X, Y), OnlineRegression(random_state=0)
    for start in range(0, len(X), chunk):
        model.partial_fit(X[start : start + chunk], Y[start : start + chunk])
    assert state(model) == state(whole)


def test_positions_and_keys_are_kept_with_the_rows(path):
    with Durable(path, OnlineRegression(random_state=0)) as durable:
        durable.partial_fit(X[:50], Y[:50], key="first", source=("input", 50))
        with pytest.raises(ValueError, match="NaN"):
            durable.partial_fit(X[:1] * np.nan, Y[:1], key="second", source=("input", 51))
    with Durable.open(path) as durable:
        assert durable.positions == {"input": 50}
        durable.partial_fit(X[:50], Y[:50], key="first").partial_fit(X[50:60], Y[50:60], key="second")
        assert durable.model.n_seen_ == 60


# -- what is refused ------------------------------------------------------------------------------------


def changed_by(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"a,b\n1,2\n" * 100, pickle.dumps(list(range(99))), database.MAGIC, database.MAGIC + bytes(10_000)],
    ids=["empty", "two bytes", "text", "pickle", "beginning of a database", "empty database"],
)
def test_foreign_files_are_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=path.name):
        load(path)
    with pytest.raises(StoreError, match=path.name):
        Durable(path, OnlineRegression())
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA application_id=1",
        "CREATE TABLE other (a)",
        "CREATE TRIGGER trap AFTER INSERT ON journal BEGIN DELETE FROM state; END",
        "CREATE VIEW window AS SELECT * FROM state",
        "DELETE FROM state WHERE number = 0",
        "DELETE FROM history",
        "UPDATE meta SET text = '{}'",
        "UPDATE state SET content = 'text' WHERE number = 1",
    ],
)
def test_anything_but_what_was_written_is_refused(statement, path):
    with Durable(path, OnlineRegression(random_state=0, keep_history=True)) as durable:
        durable.partial_fit(X, Y, key="all")
    changed_by(path, statement)
    with pytest.raises((StoreCorrupted, CheckpointError), match=path.name):
        Durable.open(path)


def test_bytes_behind_the_end_are_refused(path):
    model_of(50).save(path)
    path.write_bytes(path.read_bytes() + bytes(database.PAGE_BYTES))
    with pytest.raises(CheckpointError, match="after its end"):
        load(path)


def test_a_missing_file_is_missing(path):
    with pytest.raises(FileNotFoundError):
        load(path)
    with pytest.raises(StoreError, match="holds no model"):
        Durable.open(path)


@pytest.mark.parametrize(("step", "version"), [(1, "a newer"), (-1, "the older")])
def test_another_schema_is_refused_with_advice(step, version, monkeypatch, path):
    with monkeypatch.context() as patch:
        patch.setattr(database, "SCHEMA", database.SCHEMA + step)
        model_of(20).save(path)
    with pytest.raises(CheckpointError, match=f"this version reads schema {database.SCHEMA}: load it with {version}"):
        load(path)


# -- writing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("exception", [OSError, KeyboardInterrupt])
def test_an_interrupted_save_leaves_the_old_file_and_nothing_else(monkeypatch, path, step, exception):
    model_of(50).save(path)
    before = path.read_bytes()

    def failing(*_):
        raise exception

    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing)
        with pytest.raises(StoreError if exception is OSError else exception):
            model_of(100).save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    model_of(100).save(str(path))
    assert load(str(path)).n_seen_ == 100
    assert os.listdir(path.parent) == [path.name]


def test_saving_to_a_bare_name_goes_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = model_of(50)
    before = state(model)
    model.save("model.b2o")
    assert state(model) == state(load("model.b2o")) == before


def test_a_saved_file_is_read_back_before_it_takes_its_place(monkeypatch, path):
    model_of(50).save(path)
    numbers = count()
    monkeypatch.setattr(database, "checksum", lambda *_: next(numbers))
    with pytest.raises(StoreCorrupted, match="checksum"):
        model_of(100).save(path)
    monkeypatch.undo()
    assert load(path).n_seen_ == 50


# -- states as parts ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([object()]), 1j, {1: "key"}], ids=lambda v: str(type(v)))
def test_what_cannot_come_back_cannot_be_stored(value):
    with pytest.raises((TypeError, ValueError)):
        serialise(value)
