"""Figures of a served model: regret, metrics and events are those of all its rows at the moment they are asked for."""

import asyncio
import json
import re
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="needs httpx2")

from sklearn.linear_model import Ridge
from starlette.requests import ClientDisconnect

from app.serve import test_service as service
from batch2online import Durable, OnlineRegression

ROWS, SETTINGS = service.ROWS, service.REGRESSION | {"keep_history": True}


@pytest.fixture
def client(tmp_path):
    with service.client_of(tmp_path / "models") as client:
        assert client.put("/models/price", json=SETTINGS).status_code == 201
        yield client


def figures(client, last=""):
    """The first event of the live page, after the event of this id, and its id."""
    body = bytearray()

    async def receive():
        await asyncio.sleep(3_600)

    async def send(message):
        body.extend(message.get("body", b""))
        if b"data:" in body and body.endswith(b"\n\n"):
            raise OSError  # the client leaves

    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "scheme": "http"}
    scope |= {"method": "GET", "path": "/events", "raw_path": b"/events", "root_path": "", "query_string": b""}
    headers = [(b"host", b"127.0.0.1:8000"), (b"last-event-id", last.encode())]
    scope |= {"headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8_000)}
    with suppress(ClientDisconnect):
        client.portal.call(client.app, scope, receive, send)
    return json.loads(re.search(rb"data: (.*)", body)[1]) | {"id": re.search(rb"id: (.*)", body)[1].decode()}


def exposed(client, name):
    """One figure for Prometheus."""
    return float(re.search(rf'batch2online_{name}{{model="price"}} (.*)', client.get("/metrics").text)[1])


def check_figures(client, model):
    """Compare all that is shown of a served model with a model that was taught the same."""
    regret, live, about = model.regret_, figures(client), client.get("/models/price").json()
    found = client.get("/models/price/regret").json()
    expected = {name: getattr(regret, name) for name in ("loss", "optimum", "ratio", "rows")}
    assert found == pytest.approx(expected, rel=1e-9)
    assert exposed(client, "loss_ratio") == pytest.approx(regret.ratio, rel=1e-9)
    assert exposed(client, "rows_learned_total") == about["n_seen"] == live["rows"] == model.n_seen_
    assert exposed(client, "model_changes_total") == about["n_changes"] == live["version"] - 1 == model.n_changes_
    assert exposed(client, "order_evidence") == pytest.approx(model.order_.evidence, nan_ok=True)
    assert exposed(client, "consumer_lag_rows") == 0
    assert about["n_waiting"] == live["waiting"] == model.n_waiting
    assert (live["ratio"], live["loss"]) == pytest.approx((regret.ratio, regret.loss / regret.weight), rel=1e-9)
    assert live["headline"] == str(model.headline())
    assert [each["value"] for each in live["weights"]] == pytest.approx(model.coef_.tolist(), rel=1e-9)
    changes = [{"at": e.at, "reason": e.reason, "magnitude": pytest.approx(e.magnitude)} for e in model.changes_]
    assert live["changes"] == client.get("/models/price/changes").json()["changes"] == changes


def columns(rows):
    return np.array([[row[name] for name in "abc"] for row in rows])


def test_figures_follow_every_call(client, tmp_path):
    """Rows, one row, late targets, forgotten rows and a restart: each is seen at once, wherever one looks."""
    path, ids = "/models/price", iter(range(10_000))
    with Durable(tmp_path / "same", OnlineRegression(keep_history=True, random_state=0)) as model:

        def learn(client, rows):
            keys = [next(ids) for _ in rows]
            rows = [row | {"id": key} for row, key in zip(rows, keys, strict=True)]
            assert client.post(f"{path}/learn?key=id", json=rows).status_code == 200
            model.partial_fit(columns(rows), np.array([row["y"] for row in rows]), keys=keys)
            check_figures(client, model)

        learn(client, ROWS[:200])
        learn(client, ROWS[200:201])
        client.post(f"{path}/learn", json=ROWS[201:202])
        model.partial_fit(columns(ROWS[201:202]), [ROWS[201]["y"]])
        check_figures(client, model)
        learn(client, [row | {"y": 9.0} for row in ROWS[210:240]])
        for _ in range(2):  # the second answer was lost
            once = {"Idempotency-Key": "forgotten"}
            assert client.post(f"{path}/forget", json={"keys": [3, 4]}, headers=once).status_code == 200
        model.forget(keys=[3, 4])
        check_figures(client, model)
        client.post(f"{path}/predict?key=id", json=[{"id": "late", "a": 1.0, "b": 2.0, "c": 3.0}])
        model.predict([[1.0, 2.0, 3.0]], keys=["late"])
        check_figures(client, model)
        for _ in range(2):
            once, late = {"Idempotency-Key": "label"}, [{"id": "late", "y": 5.0}]
            assert client.post(f"{path}/label?key=id", json=late, headers=once).status_code == 200
        model.label(["late"], [5.0])
        check_figures(client, model)
        client.__exit__(None, None, None)
        with service.client_of(tmp_path / "models") as again:
            check_figures(again, model)
            learn(again, ROWS[240:400])


def test_regret_after_as_many_rows_are_forgotten_as_learned(client):
    client.post("/models/price/learn", json=ROWS[:200])
    before = client.get("/models/price/regret").json()
    client.post("/models/price/forget", json={"ids": [0, 1]})
    client.post("/models/price/learn", json=[row | {"y": 50.0} for row in ROWS[:2]])
    assert client.get("/models/price/regret").json()["loss"] > 10 * before["loss"]


def test_alarm_and_coreset_are_those_of_the_model(client):
    rows, settings = sorted(ROWS, key=lambda row: row["y"]), {"coreset_size": 60}
    assert client.put("/models/price", json=service.REGRESSION | settings).status_code == 409  # it has others
    assert client.put("/models/an-alarm", json=service.REGRESSION | settings).status_code == 201
    model = OnlineRegression(coreset_size=60, random_state=0)
    for start, stop in ((0, 800), (800, 1_000)):
        client.post("/models/an-alarm/learn", json=rows[start:stop])
        model.partial_fit(columns(rows[start:stop]), [row["y"] for row in rows[start:stop]])
    live, order, coreset = figures(client), model.order_, model.coreset_  # names are in order, the alarm comes first
    assert live["model"] == "an-alarm"
    assert live["order"] == pytest.approx(order.evidence)
    assert live["alarm"] == order.alarm < 800
    found = client.get("/models/an-alarm/coreset").json()
    assert found["ids"] == coreset.ids.tolist()
    assert np.ptp(coreset.weights) > 1
    for name in ("weights", "points", "targets"):
        np.testing.assert_allclose(found[name], getattr(coreset, name), rtol=1e-9)


def test_the_mean_loss_is_by_weight(tmp_path):
    half_life, n = 100, 600
    with service.client_of(tmp_path) as client:
        client.put("/models/price", json=service.REGRESSION | {"half_life": half_life})
        for start in range(0, n, 200):
            assert client.post("/models/price/learn", json=ROWS[start : start + 200]).status_code == 200
        loss = client.get("/models/price/regret").json()["loss"]
        weight = (0.5 ** (np.arange(n) / half_life)).sum()
        assert figures(client)["loss"] == pytest.approx(loss / weight, rel=1e-9)


def test_a_page_that_comes_back_is_sent_each_change_once(client):
    last, seen = "", []
    for start, stop in ((0, 150), (150, 151), (151, 400), (400, 1_000)):
        client.post("/models/price/learn", json=ROWS[start:stop])
        event = figures(client, last)
        last, seen = event["id"], seen + event["changes"]
        assert figures(client, last)["changes"] == []
    assert seen == client.get("/models/price/changes").json()["changes"]
    assert len(seen) > 3
    for change in seen:
        later = client.get(f"/models/price/changes?since={change['at']}").json()["changes"]
        assert later == seen[seen.index(change) + 1 :]


def test_pending_calls_and_durations_are_those_of_the_clients(client, monkeypatch):
    """A fit that lasts holds up the calls after it, of which one fails."""
    go, fit, durations = threading.Event(), Ridge.fit, []
    monkeypatch.setattr(Ridge, "fit", lambda *given, **named: go.wait(120) and fit(*given, **named))
    settings = {"estimator": "sklearn.linear_model.Ridge"}
    assert client.put("/models/held", json=service.REGRESSION | settings).status_code == 201

    def post(rows):
        start = time.perf_counter()
        client.post("/models/held/learn", json=rows)
        durations.append(time.perf_counter() - start)

    def lag():
        return float(re.search(r'consumer_lag_rows{model="held"} (.*)', client.get("/metrics").text)[1])

    rows = (ROWS[:300], ROWS[300:310], [row | {"a": "wrong"} for row in ROWS[:2]], ROWS[310:311])
    threads = [threading.Thread(target=post, args=(each,)) for each in rows]
    for count, thread in enumerate(threads, 1):
        thread.start()
        end = time.monotonic() + 30
        while lag() < count and time.monotonic() < end:
            time.sleep(0.01)
        assert lag() == count
    time.sleep(0.1)
    go.set()
    for thread in threads:
        thread.join()
    assert lag() == 0
    text = client.get("/metrics").text
    total, count = (
        float(re.search(rf'refresh_duration_seconds_{name}{{model="held"}} (.*)', text)[1]) for name in ("sum", "count")
    )
    assert 1 <= count <= 3
    assert 0.1 < total <= sum(durations)


def test_rows_a_second_are_those_of_the_last_ten_seconds(client, monkeypatch):
    real, ahead = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + ahead[0])

    def learned(n, seconds):
        """The time before and after a call, which comes so many seconds after the call before."""
        ahead[0] += seconds
        start = time.monotonic()
        client.post("/models/price/learn", json=ROWS[:n])
        return start, time.monotonic()

    def check(rows, since, seconds):
        """So many rows were learned since a call."""
        ahead[0] += seconds
        start = time.monotonic()
        rate = figures(client)["rate"]
        assert rows / (time.monotonic() - since[0]) - 0.1 <= rate <= rows / (start - since[1]) + 0.1

    first = learned(700, 0.0)
    assert figures(client)["rate"] == 0  # one call is no rate
    learned(20, 2.0)
    check(20, first, 0.0)
    second = learned(1, 2.0)
    learned(300, 3.0)
    check(321, first, 1.0)
    check(300, second, 4.0)
    check(0, (0.0, 0.0), 11.0)
