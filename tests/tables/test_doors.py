"""A random table through every door, cut into nights anywhere, makes the same model bit for bit."""

from __future__ import annotations

import datetime as dt
import io
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

from batch2online import Durable, OnlineRegression, load
from batch2online.app.cli.app import run_safely

pytestmark = pytest.mark.filterwarnings("ignore::batch2online.tables.codec.ColumnsWarning")
N = 160


def table(seed):
    """Return columns of strings, dates and numbers with gaps, whose names are sorted: objects of JSON have no order."""
    rng = np.random.default_rng(seed)
    late = rng.integers(20, N)
    levels = np.array(["Graz", "Linz", "Zürich, ZH", 'the "new" one'])
    city = [str(levels[rng.integers(3 + (row > late))]) for row in range(N)]
    day = [dt.date(2024, 1, 1) + dt.timedelta(int(each)) for each in rng.integers(0, 500, N)]
    amount = rng.normal(size=N).round(6)
    columns = {
        "amount": [None if rng.random() < 0.1 else float(each) for each in amount],
        "city": [None if rng.random() < 0.1 and row > late else each for row, each in enumerate(city)],
        "count": rng.integers(0, 9, N).tolist(),
        "day": [each.isoformat() for each in day],
        "empty": [None] * N,
        "ok": [bool(each) for each in rng.random(N) < 0.5],
        "ticket": [f"T{row}" for row in rng.permutation(N)],
    }
    y = amount + (np.array(city) == "Graz") + rng.normal(size=N)
    columns["y"] = [None if rng.random() < 0.03 else float(each) for each in y.round(6)]
    cuts = [0, *sorted(rng.choice(np.arange(1, N), 2, replace=False).tolist()), N]
    return columns, list(pairwise(cuts))


def part(columns, night):
    return {name: values[slice(*night)] for name, values in columns.items()}


def python(make):
    """Learn the nights in one process, in a container."""

    def learn(columns, nights, _folder):
        model = OnlineRegression(random_state=0)
        for night in nights:
            own = part(columns, night)
            y = np.array(own.pop("y"), dtype=float)
            model.partial_fit(make(own), y)
        return model

    return learn


def rows_of(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def typed(columns):
    data = pd.DataFrame(columns).astype({"city": "category", "count": "Int32"})
    return data.assign(day=pd.to_datetime(data["day"]))


def single_rows(columns, _nights, _folder):
    model = OnlineRegression(random_state=0)
    for row in rows_of(columns):
        if (y := row.pop("y")) is not None:
            model.learn_one(row, y)
    return model


def durable(columns, nights, folder):
    for night in nights:
        own = part(columns, night)
        y = np.array(own.pop("y"), dtype=float)
        with Durable(folder / "model", OnlineRegression(random_state=0)) as model:
            model.partial_fit(pa.table(own), y)
    with Durable(folder / "model") as model:
        model.model.save(folder / "copy")
    return load(folder / "copy")


def command(write, suffix):
    """Learn each night in a command of its own."""

    def learn(columns, nights, folder):
        model = folder / "model.b2o"
        for number, night in enumerate(nights):
            file = folder / f"{number}.{suffix}"
            write(part(columns, night), file)
            words = ["learn", str(model), str(file), "--alarms", "none"] if number else ["run", str(file), "--task"]
            more = [] if number else ["regression", "--target", "y", "--state", str(model)]
            assert run_safely([*words, *more, "--quiet"]) == 0
        return load(model)

    return learn


def csv(columns, file):
    pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()}).to_csv(file, index=False)


def json_lines(columns, file):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows_of(columns)))


def parquet(columns, file):
    pl.DataFrame(columns, schema_overrides={"empty": pl.String}).write_parquet(file)


def service(encode, kind):
    """Learn each night by a request, to a service of its own."""

    def learn(columns, nights, folder):
        pytest.importorskip("starlette", reason="needs the extra serve")
        pytest.importorskip("httpx2", reason="needs httpx2")
        from starlette.testclient import TestClient

        from batch2online.app.serve.service import create_app

        for night in nights:
            with TestClient(create_app(folder), base_url="http://127.0.0.1:8000") as client:
                assert client.put("/models/m", json={"task": "regression", "target": "y"}).status_code < 300
                body = encode(part(columns, night))
                found = client.post("/models/m/learn", content=body, headers={"Content-Type": kind})
                assert found.status_code == 200, found.text
        with Durable(folder / "m.b2o") as model:
            model.model.save(folder / "copy")
        return load(folder / "copy")

    return learn


def arrow(columns):
    sink, given = io.BytesIO(), pa.table(columns)
    with pa.ipc.new_stream(sink, given.schema) as writer:
        writer.write_table(given)
    return sink.getvalue()


DOORS = {
    "columns": python(dict),
    "rows": python(rows_of),
    "pandas": python(pd.DataFrame),
    "typed pandas": python(typed),
    "polars": python(pl.DataFrame),
    "lazy polars": python(lambda columns: pl.DataFrame(columns).lazy()),
    "arrow": python(pa.table),
    "arrow stream": python(lambda columns: pa.table(columns).to_reader()),
    "single rows": single_rows,
    "durable": durable,
    "csv": command(csv, "csv"),
    "json lines": command(json_lines, "jsonl"),
    "parquet": command(parquet, "parquet"),
    "json": service(lambda columns: json.dumps(rows_of(columns)).encode(), "application/json"),
    "arrow body": service(arrow, "application/vnd.apache.arrow.stream"),
}


@pytest.mark.parametrize("seed", [0, 1])
def test_every_door_makes_the_same_model(seed, tmp_path):
    columns, nights = table(seed)
    expected = DOORS["columns"](columns, [(0, N)], tmp_path)
    codec = expected.columns_
    assert {"amount is missing", "city=Graz", "day", "city=other"} < {*codec.names, "city=Graz"}
    assert codec.ignored == {"empty": "it has no values", "ticket": "most of its values are unique"}
    for name, learn in DOORS.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        found = learn(columns, nights, folder)
        assert found.columns_.names == codec.names, name
        assert found.columns_.means == codec.means, name
        assert found.n_seen_ == expected.n_seen_, name
        assert np.array_equal(found.coef_, expected.coef_), name
        assert found.intercept_ == expected.intercept_, name
        assert found.regret_ == expected.regret_, name
