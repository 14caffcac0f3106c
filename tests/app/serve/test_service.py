"""The service over HTTP: its shapes, its errors, its limits, and that it learns as the library does."""

import asyncio
import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="needs httpx2")

from sklearn.linear_model import Ridge
from starlette.requests import Request
from starlette.testclient import TestClient

from batch2online import Durable, OnlineRegression
from batch2online.app.serve.access import Tokens, is_loopback, read_body
from batch2online.app.serve.models import ModelFolder, ServedModel
from batch2online.app.serve.problems import RequestError
from batch2online.app.serve.service import create_app
from batch2online.storage.errors import StoreError
from state_bytes import serialise
from torture.server import Server
from torture.steady import Use, check_flat, steady

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1_000, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=1_000)
ROWS = [dict(zip("abcy", map(float, values), strict=True)) for values in np.column_stack([X, Y])]
REGRESSION = {"task": "regression", "target": "y"}


def client_of(folder, **settings):
    return TestClient(create_app(folder, **settings), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


@pytest.fixture
def client(tmp_path):
    with client_of(tmp_path / "models") as client:
        yield client


@pytest.fixture
def learned(client):
    assert client.put("/models/price", json=REGRESSION).status_code == 201
    assert client.post("/models/price/learn", json=ROWS).json() == {"first_id": 0, "last_id": 999}
    return client


def detail(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status
    return response.json()["detail"]


def test_predictions_are_those_of_the_library(learned):
    found = learned.post("/models/price/predict", json=[{"a": 1, "b": 0, "c": 2}, {"c": 1, "a": 0, "b": 1, "y": 7}])
    model = OnlineRegression(random_state=0).partial_fit(X, Y)
    np.testing.assert_allclose(found.json()["predictions"], model.predict([[1, 0, 2], [0, 1, 1]]), rtol=1e-9)
    about = learned.get("/models/price").json()
    assert (about["n_seen"], about["task"], about["n_changes"]) == (1_000, "regression", model.n_changes_)
    assert [each["name"] for each in learned.get("/models").json()] == ["price"]
    assert learned.get("/models/price/report").text.startswith("<!doctype html>")


def test_every_format_gives_the_same_model(tmp_path):
    table = pa.table({name: [row[name] for row in ROWS] for name in "abcy"})
    arrow, csv = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    pa.csv.write_csv(table, csv)
    bodies = {
        "application/json": json.dumps(ROWS).encode(),
        "application/x-ndjson": "\n".join(map(json.dumps, ROWS)).encode(),
        "text/csv": csv.getvalue(),
        "application/vnd.apache.arrow.stream": arrow.getvalue(),
    }
    with client_of(tmp_path) as client:
        answers = []
        for number, (kind, body) in enumerate(bodies.items()):
            client.put(f"/models/m{number}", json=REGRESSION)
            done = client.post(f"/models/m{number}/learn", content=body, headers={"content-type": kind})
            assert done.status_code == 200, done.text
            answers.append(client.post(f"/models/m{number}/predict", json=ROWS[:5]).json())
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_a_repeated_call_learns_once(learned, n_rows):
    for expected in ({"first_id": 1_000, "last_id": 999 + n_rows}, {"first_id": None, "last_id": None}):
        done = learned.post("/models/price/learn", json=ROWS[:n_rows], headers={"Idempotency-Key": "night 1"})
        assert done.json() == expected
    assert learned.get("/models/price").json()["n_seen"] == 1_000 + n_rows


def test_labels_may_come_late(learned):
    rows = [{"id": f"order {i}", "a": 0.5, "b": i, "c": 1} for i in range(3)]
    before = learned.post("/models/price/predict?key=id", json=rows).json()["predictions"]
    assert len(before) == 3
    assert learned.get("/models/price").json()["n_waiting"] == 3
    done = learned.post("/models/price/label?key=id", json=[{"id": "order 1", "y": 2.0}])
    assert done.json() == {"n_labelled": 1}
    assert learned.get("/models/price").json()["n_seen"] == 1_001
    assert "has its target already" in detail(
        learned.post("/models/price/label?key=id", json=[{"id": "order 1", "y": 2.0}]), 409
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "need a task"),
        ({"task": "nothing"}, "nothing"),
        ({"task": "regression"}, "needs target"),
        (REGRESSION | {"state": "/etc/passwd"}, "Unknown options"),
        ({"task": "clustering", "k": 2, "history": "/tmp/rows"}, 'must be "memory" or "coreset"'),
        (REGRESSION | {"history": "memory"}, "task regression has no history"),
        (REGRESSION | {"estimator": "/tmp/model.py"}, "dotted name of a class of sklearn"),
        (REGRESSION | {"estimator": "os.system"}, "dotted name of a class of sklearn"),
        ({"task": "clustering", "k": "five"}, "k must be an integer between 1 and 1000, got 'five'"),
        (REGRESSION | {"epsilon": 2}, 'epsilon must be between 0 and 1 (exclusive) or "auto", got 2'),
        (REGRESSION | {"refresh": "lazy:1.2"}, "refresh 'lazy:1.2' is unknown"),
        (REGRESSION | {"columns": "a"}, "list of strings"),
        ({"task": "clustering"}, "needs k"),
        (REGRESSION | {"seed": -1}, "seed must be"),
        (REGRESSION | {"alpha": -1}, "alpha must be"),
        (REGRESSION | {"keep_history": {"a": 1}}, "keep_history must be"),
        (REGRESSION | {"estimator": "sklearn.base.clone"}, "is no estimator"),
        (REGRESSION | {"estimator": "sklearn.datasets._base.Path"}, "is no estimator"),
        (REGRESSION | {"estimator": "sklearn.linear_model.Ridge", "memory": "elsewhere"}, "memory"),
    ],
    ids=str,
)
def test_wrong_settings_create_nothing(client, settings, said, tmp_path):
    assert said in detail(client.put("/models/m", json=settings), 422)
    assert client.get("/models").json() == []
    assert not list((tmp_path / "models").glob("*.json"))


@pytest.mark.parametrize("name", ["..", "a.b", "-a", "a" * 65, "%2e%2e", "a%2fb", "a%0a"])
def test_names_are_no_paths(client, name):
    assert client.put(f"/models/{name}", json=REGRESSION).status_code in (404, 405, 422)
    assert client.get("/models").json() == []


def test_another_model_of_the_same_name_is_refused(learned):
    assert learned.put("/models/price", json=REGRESSION).status_code == 200
    assert "other settings" in detail(learned.put("/models/price", json=REGRESSION | {"alpha": 1.0}), 409)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([{"a": 1, "b": 2, "c": 3}], "no column 'y'"),
        ([{"a": 1, "b": 2, "y": 3}], "The columns ['c'] of price are missing"),
        ([{"a": 1, "b": 2, "c": 3, "y": "x"}], "y"),
        ([{"a": "x", "b": 2, "c": 3, "y": 1}, {"a": 1, "b": 2, "c": 3, "y": 1}], "several types"),
        ([], "no rows"),
        ({"a": 1}, "not a table"),
        ([[1, 2]], "not a table"),
        ([{"a": [1], "b": 2, "c": 3, "y": 1}], "not a table"),
        ([{"a": 1e308, "b": 1e308, "c": 3, "y": 1}], "1e"),
    ],
    ids=str,
)
def test_wrong_rows_change_nothing(learned, body, said):
    before = learned.post("/models/price/predict", json=ROWS[:3]).json()
    assert said in detail(learned.post("/models/price/learn", json=body), 422)
    assert learned.get("/models/price").json()["n_seen"] == 1_000
    assert learned.post("/models/price/predict", json=ROWS[:3]).json() == before


def test_what_is_left_out_of_rows_is_noted(learned):
    rows = [{"a": 1, "b": 2, "c": 3, "d": 4, "y": 3}, {"a": 1, "b": 2, "c": 3, "d": 4, "y": None}]
    found = learned.post("/models/price/learn", json=rows).json()
    assert (found["first_id"], found["last_id"]) == (1000, 1000)
    skipped, ignored = found["notes"]
    assert skipped == "rows without a value of 'y' are skipped, 1 here; predict answers them"
    assert ignored == "columns ['d'] are ignored: the first rows did not have them"


def test_other_errors_are_sentences(learned):
    detail(learned.post("/models/price/learn", content=b"a=1"), 415)
    detail(learned.post("/models/price/learn", content=b"{", headers={"content-type": "application/json"}), 422)
    detail(learned.get("/models/other"), 404)
    detail(learned.get("/models/price/changes?since=x"), 422)
    assert "Not Found" in detail(learned.get("/nothing"), 404)
    response = learned.delete("/models/price")
    detail(response, 405)
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT"}
    learned.put("/models/new", json=REGRESSION)
    assert "no rows yet" in detail(learned.post("/models/new/predict", json=[{"a": 1}]), 409)


@pytest.mark.parametrize("error", [RuntimeError, AttributeError, ZeroDivisionError])
def test_a_failure_of_the_service_tells_nothing(learned, monkeypatch, error):
    def fail(*_, **__):
        raise error("secret")

    monkeypatch.setattr(Durable, "partial_fit", fail)
    assert "secret" not in detail(learned.post("/models/price/learn", json=ROWS[:2]), 500)


@pytest.mark.parametrize("error", [AttributeError, ZeroDivisionError, MemoryError, NotImplementedError])
def test_a_failure_of_the_estimator_of_a_user_is_told(client, monkeypatch, error):
    def fail(*_, **__):
        raise error("too few rows")

    monkeypatch.setattr(Ridge, "fit", fail)
    client.put("/models/ridge", json=REGRESSION | {"estimator": "sklearn.linear_model.Ridge"})
    assert "too few rows" in detail(client.post("/models/ridge/learn", json=ROWS), 422)


def test_sizes_and_numbers_are_limited(tmp_path):
    with client_of(tmp_path, max_bytes=10_000, max_models=1) as client:
        client.put("/models/price", json=REGRESSION)
        assert "1 models already" in detail(client.put("/models/more", json=REGRESSION), 409)
        detail(client.post("/models/price/learn", json=ROWS), 413)
        kind = {"content-type": "application/json"}
        detail(client.post("/models/price/learn", content=iter([b"[" * 6_000] * 2), headers=kind), 413)


def test_a_crowded_model_says_when_to_come_back(learned, monkeypatch):
    started, go = threading.Event(), threading.Event()
    monkeypatch.setattr("batch2online.app.serve.models.MAX_WAITING", 1)

    def slow(*_):
        started.set()
        go.wait(10)
        return 0, 0

    monkeypatch.setattr(ServedModel, "learn", slow)
    first = threading.Thread(target=lambda: learned.post("/models/price/learn", json=ROWS[:2]))
    first.start()
    assert started.wait(10)
    response = learned.post("/models/price/learn", json=ROWS[:2])
    assert learned.post("/models/price/predict", json=ROWS[:1]).status_code == 200  # predictions do not wait
    go.set()
    first.join()
    detail(response, 429)
    assert response.headers["retry-after"] == "1"


def test_calls_that_wait_together_are_one_transaction(tmp_path):
    model, _ = ModelFolder(tmp_path).create("price", REGRESSION)
    go, table = threading.Event(), pa.Table.from_pylist
    model.submit(lambda: go.wait(10))
    calls = [ROWS[:10], [{"a": 1.0, "y": 1.0}], ROWS[10:15], [ROWS[15] | {"y": "x"}], ROWS[15:20]]
    futures = [model.submit(lambda rows=rows: model.learn(table(rows), None)) for rows in calls]
    before = model.durable._session.n_calls
    go.set()
    assert [futures[i].result(10) for i in (0, 2, 4)] == [(0, 9), (10, 14), (15, 19)]
    for i, said in ((1, "missing"), (3, "y")):
        with pytest.raises((RequestError, ValueError), match=said):
            futures[i].result(10)
    assert model.durable._session.n_calls - before <= 2
    model.close()
    with Durable.open(tmp_path / "price.b2o") as durable, Durable(tmp_path / "other.b2o", _like(durable)) as other:
        other.partial_fit(table(ROWS[:20]).select(["a", "b", "c"]), Y[:20])
        assert serialise(durable.model._state()) == serialise(other.model._state())


def _like(durable):
    return OnlineRegression(**durable.get_params())


def test_a_group_that_cannot_be_committed_fails_as_a_whole(learned, monkeypatch):
    def fail(*_):
        raise StoreError("The disk is full.")

    monkeypatch.setattr(Durable, "batch", fail)
    assert "disk is full" in detail(learned.post("/models/price/learn", json=ROWS[:2]), 503)


def test_tokens_decide_who_reads_and_who_writes(tmp_path):
    (tmp_path / "tokens").write_text(f"{'w' * 20}\nread {'r' * 20}\n")
    tokens = Tokens.from_file(tmp_path / "tokens")
    with client_of(tmp_path / "models", tokens=tokens) as client:
        bearer = {name: {"Authorization": f"Bearer {name * 20}"} for name in "rwx"}
        detail(client.put("/models/m", json=REGRESSION), 401)
        detail(client.put("/models/m", json=REGRESSION, headers=bearer["r"]), 401)
        assert client.put("/models/m", json=REGRESSION, headers=bearer["w"]).status_code == 201
        assert client.post("/models/m/learn", json=ROWS[:50], headers=bearer["w"]).status_code == 200
        assert client.get("/models", headers=bearer["r"]).status_code == 200
        assert client.post("/models/m/predict", json=ROWS[:2], headers=bearer["r"]).status_code == 200
        detail(client.get("/models", headers=bearer["x"]), 401)
        detail(client.post("/models/m/learn", json=ROWS[:50], headers=bearer["r"]), 401)
        assert client.get("/v2/health/live").status_code == 200


@pytest.mark.parametrize("content", ["", "short", "admin " + "a" * 20, "read " + "a" * 20])
def test_a_wrong_token_file_is_refused(content, tmp_path):
    (tmp_path / "tokens").write_text(content)
    with pytest.raises(ValueError, match="16 characters"):
        Tokens.from_file(tmp_path / "tokens")


def test_pages_of_other_sites_reach_nothing(learned):
    detail(learned.get("/models", headers={"Host": "evil.example"}), 421)
    detail(learned.post("/models/price/learn", json=ROWS[:1], headers={"Origin": "http://evil.example"}), 403)
    assert is_loopback("127.0.0.1")
    assert is_loopback("[::1]")
    assert not is_loopback("0.0.0.0")
    for name in ("x-content-type-options", "x-frame-options", "referrer-policy"):
        assert name in learned.get("/models").headers


def test_the_live_page_allows_its_own_scripts_alone(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(page.content) < 15_000


def test_the_description_names_every_address(client):
    found = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    assert {"/models/{name}/learn", "/models/{name}/predict", "/models/{name}/label"} <= set(found["paths"])
    assert "LearnResult" in found["components"]["schemas"]


def test_a_client_that_leaves_is_no_failure():
    async def receive():
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(RequestError, match="closed before"):
        asyncio.run(read_body(request, 10))


@pytest.mark.slow
def test_a_loaded_service_holds_no_more_files_and_threads():
    assert steady(rounds=20)["requests answered"] == 20 * 14


@pytest.mark.parametrize("more", [Use(20 * 2**20, 0, 0), Use(0, 20, 0), Use(0, 0, 20)])
def test_growth_under_load_is_noticed(more):
    held = Use(2**27, 30, 8)
    check_flat([held] * 6)
    with pytest.raises(AssertionError, match=r"memory has grown|files are open|more threads"):
        check_flat([held] * 3 + [Use(*map(sum, zip(held, more, strict=True)))] * 3)


@pytest.mark.full
def test_the_service_keeps_to_its_description(tmp_path):
    """Which columns a model has is not in the description, so valid requests may be refused."""
    pytest.importorskip("schemathesis", reason="needs schemathesis")
    server = Server(tmp_path / "models")
    server.start()
    server.wait()
    try:
        server.ask("PUT", "/models/price", REGRESSION)
        server.ask("POST", "/models/price/learn", ROWS)
        command = [
            Path(sys.executable).with_name("schemathesis"),
            "run",
            f"http://127.0.0.1:{server.port}/openapi.json",
        ]
        options = ["--exclude-checks", "positive_data_acceptance", "--max-examples", "30", "--no-color"]
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-5_000:]
    finally:
        server.terminate()


def test_rows_one_by_one_give_the_same_model(learned):
    """Single rows of numbers take a shorter way."""
    learned.put("/models/one", json=REGRESSION)
    learned.post("/models/one/learn", json=ROWS[:950])
    for number, row in enumerate(ROWS[950:], 950):
        assert learned.post("/models/one/learn", json=[row]).json() == {"first_id": number, "last_id": number}
    for rows in (ROWS[:1], [{"a": 1, "b": 2, "c": 3}]):
        one, many = (learned.post(f"/models/{name}/predict", json=rows).json() for name in ("one", "price"))
        assert one == many
        both = learned.post("/models/price/predict", json=[*rows, *rows]).json()["predictions"]
        assert both == many["predictions"] * 2
    assert "no column 'y'" in detail(learned.post("/models/one/learn", json=[{"a": 1, "b": 2, "c": 3}]), 422)
