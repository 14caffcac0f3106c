"""Loading a file that somebody else made: no code runs, nothing is written, and its size bounds what it takes."""

from __future__ import annotations

import dataclasses
import glob
import io
import json
import os
import pickle
import subprocess
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from batch2online import BatchToOnline, OnlineClustering, OnlineRegression, load
from batch2online.core import registry
from batch2online.engine import invariants
from batch2online.persistence.checkpoint import CheckpointError, deserialise, serialise
from batch2online.persistence.tree import DEEPEST, decoded, encoded
from batch2online.solvers import weighted_fit
from forging import archived, forged, of_state, opened, signed
from torture.forged import campaign

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
Y = X @ [1.0, -2.0, 0.5] + rng.normal(size=300)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def saved(model, path):
    model.save(path)
    return opened(path.read_bytes())


def ridge(**settings):
    return BatchToOnline(Ridge(), coreset_size=50, random_state=0, **settings).fit(X, Y)


def wrapped(estimator):
    return BatchToOnline(estimator, coreset_size=50, random_state=0).fit(X, Y)


# -- memory and time in proportion to the size ------------------------------------------------------------------


def peak_of(content):
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError):
            deserialise(content)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_array_is_in_one_place():
    content = of_state({"list": [{"array": 0}] * 15_000}, [npy(np.zeros(25_000))])
    assert peak_of(content) < 40 * len(content)
    with pytest.raises(CheckpointError, match="array 0 is named more than once"):
        deserialise(content)


def test_members_of_an_archive_lie_in_different_places():
    array, n = npy(np.zeros(10_000)), 500
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        tree = {"list": [{"array": index} for index in range(n)]}
        archive.writestr("manifest.json", json.dumps({"format": "batch2online", "schema": 1, "state": tree}))
        archive.writestr("a0.npy", array)
        first = archive.getinfo("a0.npy")
        for index in range(1, n):  # entries of the directory that point to the same bytes
            again = zipfile.ZipInfo(f"a{index}.npy")
            again.header_offset, again.CRC = first.header_offset, first.CRC
            again.file_size = again.compress_size = first.file_size
            archive.filelist.append(again)
        archive.comment = b" " * 71
    content = signed(buffer.getvalue())
    assert peak_of(content) < 40 * len(content)
    with pytest.raises(CheckpointError, match="members claim"):
        deserialise(content)


@pytest.mark.parametrize("n", [DEEPEST, 300, 100_000])
@pytest.mark.parametrize("shape", ['{"list": [%s]}', '{"dict": {"a": %s}}', "[%s]"], ids=["list", "dict", "bare"])
def test_deep_nesting_is_refused(n, shape):
    start, stop = shape.split("%s")
    text = '{"format": "batch2online", "schema": 1, "state": ' + start * (n + 1) + "0" + stop * (n + 1) + "}"
    with pytest.raises(CheckpointError):
        deserialise(archived(text))


@pytest.mark.parametrize(
    "text",
    [
        "1" * 10**6,
        "-" + "1" * 41,
        "1.5",
        "1e5",
        "NaN",
        '{"float": "0x' + "0" * 10**6 + 'p0"}',
        '{"float": "0x1p99999"}',
        '{"float": 1}',
        '{"list": 5}',
        '{"list": [], "tuple": []}',
        "[1, 2]",
        '{"object": ["Rows"], "fields": {}}',
    ],
    ids=lambda text: text[:20],
)
def test_numbers_and_kinds_that_no_tree_holds_are_refused_at_once(text):
    start = time.perf_counter()
    with pytest.raises(CheckpointError):
        decoded(text, [])
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    "array", [np.zeros(3, ">f8"), np.zeros(3, "f4"), np.zeros(3, "c16"), np.array(["a"]), np.zeros((3, 2), order="F")]
)
def test_arrays_that_no_tree_holds_are_refused(array):
    with pytest.raises(CheckpointError):
        deserialise(of_state({"array": 0}, [npy(array)]))


def test_states_are_trees_and_arrays_whatever_the_container():
    state = OnlineRegression(random_state=0).fit(X, Y)._state()
    text, arrays = encoded(state)
    assert serialise(decoded(text, [array.copy() for array in arrays])) == serialise(state)


LIMITED = """
import resource, sys, batch2online
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
for path in sys.argv[1:]:
    try:
        batch2online.load(path)
    except batch2online.persistence.checkpoint.CheckpointError as error:
        print(error)
"""


@pytest.mark.filterwarnings("ignore")
def test_parameters_cannot_exhaust(tmp_path):
    asked_for = [
        (MLPRegressor(hidden_layer_sizes=(2,), max_iter=5), "hidden_layer_sizes", {"tuple": [20_000, 20_000]}),
        (RandomForestRegressor(n_estimators=2), "n_estimators", 10**9),
        (Ridge(), "max_iter", 10**9),
        (KMeans(2, n_init=1), "n_init", 10**9),
    ]
    for estimator, parameter, value in asked_for:
        path = tmp_path / type(estimator).__name__
        resample = isinstance(estimator, MLPRegressor)
        model = BatchToOnline(estimator, coreset_size=50, resample=resample, random_state=0).fit(X, Y)
        manifest, members = saved(model, path)
        manifest["state"]["dict"]["params"]["dict"]["estimator"]["dict"]["params"]["dict"][parameter] = value
        path.write_bytes(forged(manifest, members))
    start = time.perf_counter()
    paths = map(str, sorted(tmp_path.iterdir()))
    run = subprocess.run([sys.executable, "-c", LIMITED, *paths], capture_output=True, text=True)
    assert run.stdout.count("If you trust the file") == len(asked_for)
    assert time.perf_counter() - start < 60


# -- no code, no paths -----------------------------------------------------------------------------------------


def pipeline(**settings):
    return make_pipeline(StandardScaler(), Ridge(), **settings)


def test_the_memory_of_a_pipeline_is_left_out_and_no_code_of_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = wrapped(pipeline(memory="cache"))
    with pytest.warns(UserWarning, match="memory of Pipeline is left out"):
        model.save("model.b2o")

    class Evil:
        def __reduce__(self):
            return os.mkdir, ("pwned",)

    found = glob.glob("cache/**/output.pkl", recursive=True)
    assert found
    for path in found:
        with open(path, "wb") as file:
            pickle.dump(Evil(), file)
    twin = load("model.b2o")
    assert twin.estimator.memory is None
    assert not os.path.exists("pwned")
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


@pytest.mark.parametrize("trusted", [None, True])
def test_a_file_that_names_a_path_is_refused_and_nothing_is_written(tmp_path, trusted):
    manifest, members = saved(wrapped(pipeline()), tmp_path / "model")
    target = tmp_path / "anywhere"
    params = manifest["state"]["dict"]["params"]["dict"]["estimator"]["dict"]["params"]["dict"]
    params["memory"] = str(target)
    (tmp_path / "model").write_bytes(forged(manifest, members))
    with pytest.raises(CheckpointError, match="no file may name one"):
        load(tmp_path / "model", trusted=trusted)
    params["memory"] = "bare"
    (tmp_path / "model").write_bytes(forged(manifest, members))
    with pytest.raises(CheckpointError, match="memory of Pipeline is a path"):
        load(tmp_path / "model", trusted=trusted)
    assert os.listdir(tmp_path) == ["model"]


def test_a_forged_history_touches_no_folder(tmp_path):
    rows = np.random.default_rng(0).normal(size=(15_000, 2))
    evil = OnlineClustering(2, history=tmp_path / "evil", random_state=0, coreset_size=50).partial_fit(rows)
    manifest, members = saved(evil, tmp_path / "evil.b2o")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "rows-000000").write_text("of somebody else")
    engine = manifest["state"]["dict"]["engine"]["fields"]
    engine["construction"]["fields"]["history_place"] = str(victim)
    manifest["state"]["dict"]["params"]["dict"]["history"] = str(victim)
    (tmp_path / "evil.b2o").write_bytes(forged(manifest, members))
    before = [(file.name, file.stat().st_mtime_ns) for file in (victim, *victim.iterdir())]
    model = load(tmp_path / "evil.b2o").partial_fit(rows[:100]).forget([0])
    model.save(tmp_path / "mine.b2o")
    assert [(file.name, file.stat().st_mtime_ns) for file in (victim, *victim.iterdir())] == before


# -- trust -----------------------------------------------------------------------------------------------------


def test_what_is_not_known_to_be_harmless_needs_trust(tmp_path):
    forest = wrapped(RandomForestRegressor(n_estimators=3))
    forest.save(tmp_path / "model")
    name = "sklearn.ensemble._forest.RandomForestRegressor"
    with pytest.raises(CheckpointError, match=rf'trusted=\["{name}"\]'):
        load(tmp_path / "model")
    for trusted in (True, [name]):
        np.testing.assert_array_equal(load(tmp_path / "model", trusted=trusted).predict(X), forest.predict(X))
    twin = BatchToOnline.restore(tmp_path / "model", estimator=RandomForestRegressor(n_estimators=3))
    np.testing.assert_array_equal(twin.predict(X), forest.predict(X))


@pytest.mark.parametrize("trusted", ["sklearn", [1], 3])
def test_trust_is_given_by_names(trusted, tmp_path):
    ridge().save(tmp_path / "model")
    with pytest.raises((TypeError, CheckpointError)):
        load(tmp_path / "model", trusted=trusted)


def test_a_trusted_model_is_not_fitted_again(tmp_path, monkeypatch):
    model = wrapped(RandomForestRegressor(n_estimators=3))
    model.save(tmp_path / "model")
    fits = count_fits(monkeypatch)
    np.testing.assert_array_equal(load(tmp_path / "model", trusted=True).predict(X), model.predict(X))
    assert not fits


def test_a_harmless_model_is_not_fitted_again(tmp_path, monkeypatch):
    model = ridge()
    model.save(tmp_path / "model")
    fits = count_fits(monkeypatch)
    np.testing.assert_array_equal(load(tmp_path / "model").coef_, model.coef_)
    assert not fits


def count_fits(monkeypatch):
    fits = []
    seeded = weighted_fit.seeded
    monkeypatch.setattr(weighted_fit, "seeded", lambda *arguments: fits.append(1) or seeded(*arguments))
    return fits


def test_without_skops_a_harmless_model_is_solved_on_its_rows_again(tmp_path, monkeypatch):
    model = ridge()
    monkeypatch.setitem(sys.modules, "skops.io", None)
    model.save(tmp_path / "without")
    monkeypatch.undo()
    model.save(tmp_path / "with")
    monkeypatch.setitem(sys.modules, "skops.io", None)
    fits = count_fits(monkeypatch)
    for name in ("with", "without"):
        np.testing.assert_array_equal(load(tmp_path / name).coef_, model.coef_)
    assert len(fits) == 2


def forged_model(path, model, change):
    """The checkpoint of a model whose fitted form has been changed."""
    manifest, members = saved(model, path)
    member = f"a{manifest['state']['dict']['fitted']['array']}.npy"
    with zipfile.ZipFile(io.BytesIO(np.load(io.BytesIO(members[member])).tobytes())) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    method = change(parts) or zipfile.ZIP_STORED
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    members[member] = npy(np.frombuffer(buffer.getvalue(), dtype=np.uint8))
    path.write_bytes(forged(manifest, members))


def of_another_type(parts):
    parts["schema.json"] = (
        parts["schema.json"].replace(b'"Ridge"', b'"system"').replace(b"sklearn.linear_model._ridge", b"os")
    )


def compressed(parts):
    return zipfile.ZIP_DEFLATED


def with_a_huge_array(parts):
    name = next(name for name in parts if name.endswith(".npy"))
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }"
    header += b" " * (117 - len(header)) + b"\n"
    parts[name] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def cut_off(parts):
    parts["schema.json"] = parts["schema.json"][:100]


def in_several_places(parts):
    """A tree that is small as a file, and huge for whoever looks at a part as often as it is named."""

    def node(key, content):
        kind = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
        return kind | {"content": content, "__id__": key}

    tree = node(1, [])
    for key in range(2, 40):
        tree = node(key, [tree, node(key - 1, [])])
    parts["schema.json"] = json.dumps(tree | {"protocol": json.loads(parts["schema.json"])["protocol"]}).encode()


@pytest.mark.parametrize("change", [of_another_type, compressed, with_a_huge_array, cut_off, in_several_places])
def test_a_forged_model_is_not_believed_but_solved_again(change, tmp_path):
    model = ridge()
    forged_model(tmp_path / "model", model, change)
    start = time.perf_counter()
    np.testing.assert_array_equal(load(tmp_path / "model").coef_, model.coef_)
    assert time.perf_counter() - start < 5


def test_a_model_of_other_rows_is_not_believed(tmp_path):
    model = ridge()

    def of_two_columns(parts):
        name = next(name for name in parts if name.endswith(".npy"))
        parts[name] = npy(np.zeros(2))

    forged_model(tmp_path / "model", model, of_two_columns)
    with pytest.raises(CheckpointError):
        load(tmp_path / "model")


# -- every field is checked --------------------------------------------------------------------------------------


def test_every_storable_class_says_what_its_fields_are():
    assert invariants
    own = [cls for cls in registry.classes.values() if cls.__module__.startswith("batch2online.")]
    assert len(own) > 30
    for cls in own:
        assert registry.is_closed(cls), cls
        assert registry.kinds_of(cls) or (dataclasses.is_dataclass(cls) and not dataclasses.fields(cls)), cls


def fields_of(manifest, *names):
    tree = manifest["state"]["dict"]["engine"]
    for name in names:
        tree = tree["list"][name] if isinstance(name, int) else tree["fields"][name]
    return tree["fields"]


NEGATIVE, NAN = {"float": "-0x1.0p+0"}, {"float": "nan"}


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        (("construction",), "queue", {"object": "Nothing", "fields": {}}),
        ((), "construction", None),
        ((), "n_learned", -1),
        ((), "n_learned", 10**6),
        ((), "next_refresh", 0),
        ((), "width", 4),
        ((), "is_solved", 1),
        ((), "policy", {"object": "EveryStep", "fields": {"start": None}}),
        ((), "problem", {"object": "KZClustering", "fields": {"k": 2, "z": {"float": "0x1.0p+1"}}}),
        (("policy",), "growth", NEGATIVE),
        (("policy",), "growth", NAN),
        (("construction",), "epsilon", NAN),
        (("construction",), "seed", -1),
        (("construction",), "n_rows", 299),
        (("construction",), "intervals", {"list": [{"tuple": [300, 0]}]}),
        (("construction",), "block", 0),
        (("construction",), "constant", NEGATIVE),
        (("construction",), "parts", {"list": []}),
        (("construction", "statistics"), "with_targets", None),
        (("construction", "statistics", "moments"), "rows", 3),
        (("construction", "statistics", "moments"), "width", 10**9),
        (("construction", "statistics", "moments"), "reference", None),
    ],
    ids=str,
)
def test_a_field_of_another_kind_is_refused(path, name, value, tmp_path):
    manifest, members = saved(OnlineRegression(coreset_size=50, random_state=0).fit(X, Y), tmp_path / "model")
    content = fields_of(manifest, *path)
    assert json.dumps(content[name]) != json.dumps(value)
    content[name] = value
    (tmp_path / "model").write_bytes(forged(manifest, members))
    with pytest.raises(CheckpointError):
        load(tmp_path / "model")


def test_labels_that_no_row_may_have_are_refused(tmp_path):
    model = BatchToOnline(LogisticRegression(), random_state=0).fit(X, np.where(Y > 0, "up", "down"))
    manifest, members = saved(model, tmp_path / "model")
    manifest["state"]["dict"]["labels"]["list"].pop()
    (tmp_path / "model").write_bytes(forged(manifest, members))
    with pytest.raises(CheckpointError, match="known label"):
        load(tmp_path / "model")


def test_forgeries_end_in_an_error_or_in_a_model_that_works():
    assert sum(campaign(300).values()) == 300
