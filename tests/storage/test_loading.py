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

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from batch2online import BatchToOnline, Durable, OnlineClustering, OnlineRegression, load, schema
from batch2online.app.cli.app import run_safely
from batch2online.methods.any_estimator import fitted_estimator, weighted_fit
from batch2online.methods.any_estimator.problem import EstimatorProblem
from batch2online.storage.errors import StoreError
from batch2online.storage.tree import DEEPEST, CheckpointError, decoded, encoded, state_of
from batch2online.validation import LARGEST
from forging import forged, opened
from state_bytes import serialise

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


def peak_of(parts):
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError):
            state_of(parts)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_array_is_in_one_place():
    parts = [json.dumps({"list": [{"array": 0}] * 15_000}).encode(), npy(np.zeros(25_000))]
    assert peak_of(parts) < 40 * sum(map(len, parts))
    with pytest.raises(CheckpointError, match="array 0 is named more than once"):
        state_of(parts)


@pytest.mark.parametrize("n", [DEEPEST, 300, 100_000])
@pytest.mark.parametrize("shape", ['{"list": [%s]}', '{"dict": {"a": %s}}', "[%s]"], ids=["list", "dict", "bare"])
def test_deep_nesting_is_refused(n, shape):
    start, stop = shape.split("%s")
    with pytest.raises(CheckpointError):
        decoded(start * (n + 1) + "0" + stop * (n + 1), [])


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
    start = time.process_time()
    with pytest.raises(CheckpointError):
        decoded(text, [])
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "array", [np.zeros(3, ">f8"), np.zeros(3, "f4"), np.zeros(3, "c16"), np.array(["a"]), np.zeros((3, 2), order="F")]
)
def test_arrays_that_no_tree_holds_are_refused(array):
    with pytest.raises(CheckpointError):
        state_of([b'{"array": 0}', npy(array)])


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
    except batch2online.storage.tree.CheckpointError as error:
        print(error)
"""


def forge_parameter(manifest, name, value):
    """Change a parameter of the estimator, or of one of its steps."""
    stored = manifest["state"]["dict"]["params"]["dict"]["estimator"]["dict"]
    entries = json.loads(stored["parts"])
    params = [pair for kind, content in entries if kind == "unfitted" for pair in content[1]]
    next(pair for pair in params if pair[0] == name)[1] = value
    stored["parts"] = json.dumps(entries)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.full
def test_parameters_cannot_exhaust(tmp_path):
    asked_for = [
        (MLPRegressor(hidden_layer_sizes=(2,), max_iter=5), "max_iter", 10**9),
        (RandomForestRegressor(n_estimators=2), "n_estimators", 10**9),
        (Ridge(), "max_iter", 10**9),
        (KMeans(2, n_init=1), "n_init", 10**9),
    ]
    for asking, parameter, value in asked_for:
        path = tmp_path / type(asking).__name__
        resample = isinstance(asking, MLPRegressor)
        model = BatchToOnline(asking, coreset_size=50, resample=resample, random_state=0).fit(X, Y)
        manifest, members = saved(model, path)
        forge_parameter(manifest, parameter, value)
        path.write_bytes(forged(manifest, members))
    start = time.perf_counter()
    paths = map(str, sorted(tmp_path.iterdir()))
    run = subprocess.run([sys.executable, "-c", LIMITED, *paths], capture_output=True, text=True)
    assert run.stdout.count("it is a model of another kind") == len(asked_for)
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
    for path in (str(target), "bare"):
        forge_parameter(manifest, "memory", path)
        (tmp_path / "model").write_bytes(forged(manifest, members))
        with pytest.raises(CheckpointError, match="memory of Pipeline is a path, and no file may name one"):
            load(tmp_path / "model", trusted=trusted)
    forge_parameter(manifest, "memory", None)
    forge_parameter(manifest, "solver", str(target))
    (tmp_path / "model").write_bytes(forged(manifest, members))
    with pytest.raises(CheckpointError, match=r"solver of Ridge is the path .*no file may name one"):
        load(tmp_path / "model", trusted=trusted)
    assert os.listdir(tmp_path) == ["model"]


def test_a_forged_history_touches_no_folder(tmp_path):
    rows = np.random.default_rng(0).normal(size=(15_000, 2))
    evil = OnlineClustering(2, history=tmp_path / "evil", random_state=0, coreset_size=50).partial_fit(rows)
    manifest, members = saved(evil, tmp_path / "evil.b2o")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "rows-000000").write_text("of somebody else")
    manifest["state"]["dict"]["params"]["dict"]["history"] = str(victim)
    (tmp_path / "evil.b2o").write_bytes(forged(manifest, members))
    before = [(file.name, file.stat().st_mtime_ns) for file in (victim, *victim.iterdir())]
    model = load(tmp_path / "evil.b2o").partial_fit(rows[:100]).forget([0])
    model.save(tmp_path / "mine.b2o")
    assert [(file.name, file.stat().st_mtime_ns) for file in (victim, *victim.iterdir())] == before


# -- trust -----------------------------------------------------------------------------------------------------


def test_types_that_are_not_known_to_be_safe_need_trust(tmp_path):
    neighbours = BatchToOnline(KNeighborsRegressor(), resample=True, random_state=0).fit(X, Y)
    neighbours.save(tmp_path / "model")
    names = ["sklearn.metrics._dist_metrics.EuclideanDistance64", "sklearn.neighbors._kd_tree.KDTree"]
    for known in (None, names[:1], []):
        with pytest.raises(CheckpointError, match=r"no fitted KNeighborsRegressor to load: it holds .*trusted=\["):
            load(tmp_path / "model", trusted=known)
    for settings in ({"trusted": True}, {"trusted": names}, {"refit": True}):
        np.testing.assert_array_equal(load(tmp_path / "model", **settings).predict(X), neighbours.predict(X))
    twin = BatchToOnline.restore(tmp_path / "model", estimator=KNeighborsRegressor())
    np.testing.assert_array_equal(twin.predict(X), neighbours.predict(X))


@pytest.mark.parametrize("trusted", ["sklearn", [1], 3])
def test_trust_is_given_by_names(trusted, tmp_path):
    ridge().save(tmp_path / "model")
    with pytest.raises((TypeError, CheckpointError)):
        load(tmp_path / "model", trusted=trusted)


def hold_no_models(patch):
    """Let files hold rows and no fitted models."""
    patch.setattr(fitted_estimator, "stored_model", lambda _: None)


def count_fits(monkeypatch):
    fits = []
    seeded = weighted_fit.seeded
    monkeypatch.setattr(weighted_fit, "seeded", lambda *arguments: fits.append(1) or seeded(*arguments))
    return fits


def test_a_model_that_no_file_can_hold_is_fitted_again_if_the_caller_says_so(tmp_path, monkeypatch):
    model = ridge()
    hold_no_models(monkeypatch)
    with pytest.warns(UserWarning, match=r"not the fitted model, which has parts that no file can hold.*refit=True"):
        model.save(tmp_path / "model")
    fits = count_fits(monkeypatch)
    with pytest.raises(CheckpointError, match=r"no fitted Ridge to load: .*no file can hold.*refit=True"):
        load(tmp_path / "model")
    assert not fits
    np.testing.assert_array_equal(load(tmp_path / "model", refit=True).predict(X), model.predict(X))
    assert fits


def forged_model(path, model, change):
    """The checkpoint of a model whose table of parts, or whose arrays, have been changed."""
    manifest, members = saved(model, path)
    stored = fields_of(manifest, "state", "model")
    text, arrays = stored["model"]["tuple"]
    names = [f"a{each['array']}.npy" for each in arrays["list"]]
    entries, contents = json.loads(text), [np.load(io.BytesIO(members[name])).tobytes() for name in names]
    stored["model"]["tuple"][0] = change(entries, contents) or json.dumps(entries)
    for name, content in zip(names, contents, strict=True):
        members[name] = npy(np.frombuffer(content, dtype=np.uint8))
    path.write_bytes(forged(manifest, members))


def of_another_type(entries, contents):
    return json.dumps(entries).replace("sklearn.linear_model._ridge.Ridge", "os.system")


def with_a_huge_array(entries, contents):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }"
    header += b" " * (117 - len(header)) + b"\n"
    contents[0] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def cut_off(entries, contents):
    return json.dumps(entries)[:100]


def nested(entries, contents):
    return "[" * 100_000 + "]" * 100_000


def in_several_places(entries, contents):
    """A small file whose parts are shared so often that the unfolded tree is huge."""
    return json.dumps([["list", []], *(["list", [{"at": n}, {"at": n}]] for n in range(60))])


def of_parts_to_come(entries, contents):
    return json.dumps([["list", [{"at": 0}]]])


FORGERIES = [of_another_type, with_a_huge_array, cut_off, nested, in_several_places, of_parts_to_come]


@pytest.mark.parametrize("change", FORGERIES)
def test_a_forged_model_is_not_believed(change, tmp_path):
    model = ridge()
    forged_model(tmp_path / "model", model, change)
    start = time.process_time()
    for trusted in (None, True) if change is not of_another_type else (None,):
        with pytest.raises(CheckpointError, match="no fitted Ridge to load"):
            load(tmp_path / "model", trusted=trusted)
    np.testing.assert_array_equal(load(tmp_path / "model", refit=True).coef_, model.coef_)
    assert time.process_time() - start < 5


# -- loading fits nothing ---------------------------------------------------------------------------------------


def without_fitted(model, path, **parameters):
    """Save a model as somebody does who leaves the fitted form out and asks for more, where nothing is fitted yet."""
    model.estimator.set_params(**parameters)
    with pytest.MonkeyPatch.context() as patch:
        hold_no_models(patch)
        with pytest.warns(UserWarning, match="not the fitted model"):
            model.save(path)
    return path


def asking_for_processes(path):
    model = BatchToOnline(LinearRegression(positive=True), random_state=0).partial_fit(X, np.abs(np.stack([Y, Y], 1)))
    return without_fitted(model, path, n_jobs=os.cpu_count())


def asking_for_memory(path):
    model = BatchToOnline(GaussianMixture(1), resample=True, coreset_size=300, random_state=0).fit(X)
    return without_fitted(model, path, n_components=250, covariance_type="full")


def of_half_lives():
    rows, targets = np.resize(X, (900, 3)), np.resize(Y, 900)
    model = BatchToOnline(Ridge(), half_life="auto", coreset_size=60, random_state=0)
    for start in range(0, 900, 300):
        model.partial_fit(rows[start : start + 300], targets[start : start + 300])
    assert all(state.has_model for state in (model.stream.state, *model.stream.state.others))
    return model


HOSTILE = {"processes": asking_for_processes, "memory": asking_for_memory}


def refuse_to_fit(monkeypatch):
    monkeypatch.setattr(weighted_fit, "seeded", lambda *_: pytest.fail("it was fitted"))


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("way", ["load", "Durable", "command line"])
def test_no_way_into_a_file_fits(kind, way, tmp_path, monkeypatch, capsys):
    path = HOSTILE[kind](tmp_path / "model.b2o")
    content = path.read_bytes()
    refuse_to_fit(monkeypatch)
    if way == "command line":
        assert run_safely(["show", str(path)]) == 2
        assert "--estimator" in capsys.readouterr().err
    else:
        with pytest.raises(CheckpointError, match=r"no fitted \w+ to load: .*fits nothing by itself.*refit=True"):
            (load if way == "load" else Durable.open)(path)
    assert way == "Durable" or path.read_bytes() == content


def test_models_of_all_half_lives_come_out_of_a_file(tmp_path, monkeypatch):
    model = of_half_lives()
    model.save(tmp_path / "model")
    with monkeypatch.context() as patch:
        refuse_to_fit(patch)
        twin = load(tmp_path / "model")
        np.testing.assert_array_equal(twin.predict(X), model.predict(X))
        twin.partial_fit(X[:1], Y[:1])
    assert twin.partial_fit(X[1:], Y[1:]).regret_.loss == model.partial_fit(X, Y).regret_.loss


def test_the_model_of_a_seeded_estimator_is_loaded(tmp_path, monkeypatch):
    """The model of a file is that of its estimator and seed, and is not fitted again."""
    model = wrapped(KMeans(2, n_init=1))
    model.save(tmp_path / "model")
    with monkeypatch.context() as patch:
        refuse_to_fit(patch)
        np.testing.assert_array_equal(load(tmp_path / "model").cluster_centers_, model.cluster_centers_)


def test_trust_opens_no_file_that_rows_name(tmp_path):
    """Rows that are paths: whoever trusts the vectorizer has not allowed it to read them."""
    for name in ("one", "two"):
        (tmp_path / name).write_text("words of the victim")
    model = BatchToOnline(make_pipeline(CountVectorizer(), LogisticRegression()), random_state=0)
    for at in range(20):
        model.learn_one(str(tmp_path / ("one", "two")[at % 2]), "ab"[at % 2])
    manifest, members = saved(model, tmp_path / "model")
    forge_parameter(manifest, "input", "filename")
    (tmp_path / "model").write_bytes(forged(manifest, members))
    for settings in ({}, {"trusted": True}, {"trusted": True, "refit": True}):
        with pytest.raises(CheckpointError, match="reads the files that its rows name"):
            load(tmp_path / "model", **settings)
    own = make_pipeline(CountVectorizer(input="filename"), LogisticRegression())
    restored = BatchToOnline.restore(tmp_path / "model", estimator=own)  # the caller's own words
    assert "victim" in restored.model_.named_steps["countvectorizer"].vocabulary_
    with pytest.raises(TypeError, match="no file can hold"):
        Durable(tmp_path / "durable", BatchToOnline(own))


def test_a_durable_that_was_not_closed_is_fitted_by_whoever_opens_it(tmp_path):
    """Rows since the last state are learned again, which fits: the caller passes the estimator, or says so."""
    rows, targets = np.resize(X, (1200, 3)), np.resize(Y, 1200)
    durable = Durable(tmp_path / "model", BatchToOnline(Ridge(), coreset_size=60, random_state=0), durability="os")
    for start in range(0, 1200, 100):
        durable.partial_fit(rows[start : start + 100], targets[start : start + 100])
    expected = serialise(durable.model._state())
    durable._session.abandon()
    with pytest.raises(StoreError, match=r"learns 1,100 rows again: Ridge would be fitted on .*or refit=True"):
        Durable.open(tmp_path / "model")
    with Durable.open(tmp_path / "model", refit=True) as again:
        assert serialise(again.model._state()) == expected
    with Durable.open(tmp_path / "model") as again:  # it is closed, and holds the fitted model
        assert serialise(again.model._state()) == expected


def test_a_single_class_is_loaded_as_it_was_fitted(tmp_path, monkeypatch):
    model = BatchToOnline(LogisticRegression(), random_state=0).partial_fit(X, ["one"] * len(X))
    model.save(tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr(EstimatorProblem, "fit_on", lambda *_: pytest.fail("it was fitted"))
        assert set(load(tmp_path / "model").predict(X[:5])) == {"one"}


# -- every field is checked --------------------------------------------------------------------------------------


def test_every_storable_class_says_what_its_fields_are():
    own = [cls for cls in schema.classes.values() if cls.__module__.startswith("batch2online.")]
    assert len(own) > 30
    for cls in own:
        assert schema.is_closed(cls), cls
        assert schema.kinds_of(cls) or (dataclasses.is_dataclass(cls) and not dataclasses.fields(cls)), cls


SUMS = ("state", "sketch", "statistics")


def fields_of(manifest, *names):
    tree = manifest["state"]["dict"]["stream"]["dict"]
    for name in names:
        tree = tree[name]["fields"]
    return tree


NAN = {"float": "nan"}


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ((), "buffer", {"object": "Nothing", "fields": {}}),
        (("state",), "sketch", None),
        (("state",), "has_model", 1),
        (("state", "sketch", "settings"), "epsilon", NAN),
        (("state", "sketch", "settings"), "seed", -1),
        (("state", "sketch", "settings"), "shape", {"tuple": [0, 1]}),
        (("state", "sketch"), "parts", {"list": []}),
        ((*SUMS, "sums"), "with_targets", None),
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


def test_rows_whose_powers_are_beyond_all_numbers_are_refused(tmp_path, monkeypatch):
    """Distances to the power of 3 allow smaller values than squares do."""
    limit = OnlineClustering(2, z=3.0)._largest
    assert limit < LARGEST
    with monkeypatch.context() as patch:
        patch.setattr(OnlineClustering, "_largest", property(lambda self: LARGEST))
        OnlineClustering(2, z=3.0, random_state=0).partial_fit(np.full((2, 2), 10 * limit)).save(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"found a magnitude of .*, expected at most"):
        load(tmp_path / "model")
