"""What the service promises of tokens, keys, bodies, settings, other clients and starts, as a client finds it."""

import json
import os
import resource
import shutil
import signal
import socket
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from torture.service import READ, Files, Service, ServiceError, bearer, serving
from torture.service_bodies import bomb, forged_strings, forged_views

REGRESSION = {"task": "regression", "target": "y"}
ROWS = [{"a": 0.1 * i, "b": float(i % 7), "y": 0.3 * i} for i in range(60)]
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
MEGABYTE = ("--max-megabytes", "1")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(Service(tmp_path_factory.mktemp("open") / "models", *MEGABYTE)) as service:
        yield service


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with serving(Service(tmp_path_factory.mktemp("guarded") / "models", *MEGABYTE, guarded=True)) as service:
        yield service


@pytest.fixture
def own(tmp_path):
    """A service that a test may break."""
    with serving(Service(tmp_path / "models", *MEGABYTE)) as service:
        create(service, "price", rows=ROWS)
        yield service


def create(service, name, rows=(), **settings):
    assert service.ask("PUT", f"/models/{name}", REGRESSION | settings)[0] == 201
    if rows:
        assert service.ask("POST", f"/models/{name}/learn", rows)[0] == 200


def n_seen(service, name):
    return service.ask("GET", f"/models/{name}")[1]["n_seen"]


# -- tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["other", "predict", "infer"])
def test_a_token_for_reading_creates_no_model(guarded, name):
    assert guarded.ask("PUT", f"/models/{name}", REGRESSION, **bearer(READ))[0] in (401, 403)


def test_a_token_for_reading_changes_no_model(guarded):
    first = [{"x": float(i), "c": "u", "y": float(i)} for i in range(30)]
    more = [{"x": float(i % 9), "c": "uvw"[i % 3], "y": float(i % 9) + 10 * (i % 3)} for i in range(2_000)]
    for name in ("read", "alone"):
        create(guarded, name, rows=first)
    asked = [{"k": f"n{i}", "x": 1.0, "c": "u"} for i in range(2_000)]
    guarded.ask("POST", "/models/read/predict?key=k", asked, **bearer(READ))
    waiting, predictions = guarded.ask("GET", "/models/read")[1]["n_waiting"], []
    for name in ("read", "alone"):
        assert guarded.ask("POST", f"/models/{name}/learn", more)[0] == 200
        predictions.append(guarded.ask("POST", f"/models/{name}/predict", [{"x": 1.0, "c": "w"}]))
    assert waiting == 0
    assert predictions[0] == predictions[1]


OLD_URLS = """
import starlette.datastructures as s
new = s.URL.__init__
def __init__(self, url="", scope=None, **components):  # Starlette 0.40: the path follows whatever the header Host says
    if scope is None: return new(self, url, scope, **components)
    host = next((value.decode("latin-1") for key, value in scope["headers"] if key == b"host"), "")
    self._url = f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}{scope['path']}"
s.URL.__init__ = __init__
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", pytest.param(OLD_URLS, id="Starlette 0.40")])
def test_a_host_header_is_no_token(tmp_path, first):
    with serving(Service(tmp_path / "models", guarded=True, first=first)) as service:
        create(service, "price")
        body = json.dumps(ROWS).encode()
        for host, token in (("x/v2/health/live?", ""), ("x/predict?", f"Authorization: Bearer {READ}\r\n")):
            head = f"POST /models/price/learn HTTP/1.1\r\nHost: {host}\r\n{token}Content-Type: application/json\r\n"
            assert service.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body) in (400, 401, 403)
        assert n_seen(service, "price") == 0


# -- keys -------------------------------------------------------------------------------------------------------


def test_keys_above_two_to_the_53_are_told_apart(service):
    create(service, "keys", rows=ROWS, keep_history=True)
    n = 2**53
    rows = [{"k": n + 1, "a": 1.0, "b": 2.0, "y": 2.0}]
    assert service.ask("POST", "/models/keys/learn?key=k", rows)[0] == 200
    assert service.ask("POST", "/models/keys/forget", {"keys": [n]})[0] == 409, "a row with another key is forgotten"
    assert service.ask("POST", "/models/keys/forget", {"keys": [n + 1]})[0] == 200
    both = [row | {"k": n + place} for place, row in enumerate(ROWS[:2])]
    assert service.ask("POST", "/models/keys/learn?key=k", both)[0] == 200


def test_probabilities_of_rows_with_keys(service):
    create(service, "kinds", [{"x": float(i), "y": "ab"[i % 2]} for i in range(50)], task="classification")
    status, found = service.ask("POST", "/models/kinds/predict?key=k&method=predict_proba", [{"k": "z", "x": 1.0}])
    assert status == 422 or np.shape(found["predictions"]) == (1, 2)


def test_an_empty_idempotency_key_drops_no_rows(service):
    create(service, "empty-key")
    given = {"Idempotency-Key": ""}
    statuses = [service.ask("POST", "/models/empty-key/learn", [row], **given)[0] for row in ROWS[:5]]
    assert n_seen(service, "empty-key") == statuses.count(200)


@pytest.mark.parametrize(("path", "body"), [("learn", ROWS[5:8]), ("forget", {"ids": [0]})])
def test_an_idempotency_key_of_another_call_is_refused(service, path, body):
    name, given = f"used-key-{path}", {"Idempotency-Key": "night 1"}
    create(service, name, keep_history=True)
    learn = lambda: service.ask("POST", f"/models/{name}/learn", ROWS[:5], **given)[0]  # noqa: E731
    assert (learn(), learn(), n_seen(service, name)) == (200, 200, 5)
    assert service.ask("POST", f"/models/{name}/{path}", body, **given)[0] in (409, 422)


# -- bodies -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_strings_behind_the_end_of_a_body_are_refused(own):
    assert own.ask("POST", "/models/price/learn", forged_strings(), **ARROW)[0] == 422
    assert own.is_live()


@pytest.mark.slow
def test_a_body_gives_no_view_of_the_memory_of_the_service(own):
    starts = [sign * (48 + 24 * place) for place in range(10) for sign in (1, -1)]
    statuses = [own.ask("POST", "/models/price/predict?key=key", forged_views(start), **ARROW)[0] for start in starts]
    assert statuses == [422] * len(starts)


@pytest.mark.slow
def test_a_compressed_body_of_arrow_is_limited_in_memory(own):
    body, before = bomb(), own.peak_memory()
    assert len(body) < 2**20
    create(own, "empty")
    own.ask("POST", "/models/empty/predict", body, **ARROW)
    assert own.peak_memory() - before < 128 * 2**20


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: [::1",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://[::1",
        "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: a:\xb2",
        "POST /v2/models/heads/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nInference-Header-Content-Length: \xb2",
    ],
    ids=["host", "origin", "position of events", "length of a header"],
)
def test_malformed_headers_are_no_failure_of_the_service(service, head):
    service.ask("PUT", "/models/heads", REGRESSION)
    status = service.send(f"{head}\r\nContent-Length: 2\r\n\r\n{{}}".encode("latin-1"))
    assert isinstance(status, int)
    assert status < 500


def test_a_refused_call_writes_nothing(service):
    create(service, "refused", rows=ROWS)
    files = Files(service.folder)
    before = files.hashes()
    assert service.ask("POST", "/models/refused/learn", [{"a": 1.0}])[0] == 422
    assert files.hashes() == before


# -- settings, and other models -----------------------------------------------------------------------------------


def test_a_name_can_be_used_after_a_failed_creation(service):
    in_the_way = service.folder / "again.json"
    in_the_way.mkdir()
    assert service.ask("PUT", "/models/again", REGRESSION)[0] not in (200, 201)
    in_the_way.rmdir()
    assert service.ask("PUT", "/models/again", REGRESSION)[0] == 201


@pytest.mark.slow
def test_a_model_that_fits_for_long_leaves_others_served(own):
    status, _ = own.ask("PUT", "/models/many", {"task": "clustering", "k": 10**9})
    assert status in (201, 422)
    if status == 201:
        learn = threading.Thread(target=_leave, args=(own, "/models/many/learn", [{"x": float(i)} for i in range(60)]))
        learn.start()
        time.sleep(1)
        try:
            assert own.ask("GET", "/v2/health/live", seconds=3)[0] == 200
        finally:
            own.process.kill()
            learn.join()


def _leave(service, path, rows):
    try:
        service.ask("POST", path, rows)
    except ConnectionError:
        return


@pytest.mark.slow
def test_idle_connections_leave_others_served(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = min(max(limits[0], 4_000), limits[1]), limits[1]
    first = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {more})"
    resource.setrlimit(resource.RLIMIT_NOFILE, more)
    try:
        with serving(Service(tmp_path / "models", guarded=True, first=first)) as service, ExitStack() as held:
            for _ in range(1_050):
                idle = held.enter_context(socket.create_connection(("127.0.0.1", service.port)))
                idle.sendall(b"GET / HT")
            end = time.monotonic() + 20
            while (status := service.ask("GET", "/models")[0]) == 503 and time.monotonic() < end:
                time.sleep(0.5)
            assert status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# -- starts -------------------------------------------------------------------------------------------------------

DAMAGED = {
    "cut settings": lambda folder: (folder / "price.json").write_text('{"task": "regr'),
    "a cut file": lambda folder: os.truncate(folder / "price.b2o", 70_000),
    "an unknown option": lambda folder: _add_option(folder, new=1),
    "an estimator of a package not allowed": lambda folder: _add_option(folder, estimator="lightgbm.LGBMRegressor"),
}


def _add_option(folder, **options):
    path = folder / "price.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | options))


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """The folder of a service that has ended, with two models."""
    with serving(Service(tmp_path_factory.mktemp("closed") / "models")) as service:
        for name in ("price", "healthy"):
            create(service, name, rows=ROWS)
        assert service.end() in (0, -signal.SIGTERM)
    return service.folder


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["nothing", *DAMAGED])
def test_a_damaged_model_leaves_others_served(closed, tmp_path, damage):
    folder = tmp_path / "models"
    shutil.copytree(closed, folder)
    DAMAGED.get(damage, lambda folder: None)(folder)
    try:
        with serving(Service(folder)) as service:
            assert service.ask("POST", "/models/healthy/predict", ROWS[:1])[0] == 200
            errors = {model["name"]: model["error"] for model in service.ask("GET", "/models")[1]}
            assert errors["healthy"] is None
            assert (errors["price"] is None) == (damage == "nothing")
            for method, path in (("PUT", "/models/price"), ("POST", "/models/price/learn")):
                status, found = service.ask(method, path, REGRESSION if method == "PUT" else ROWS[:1])
                assert damage == "nothing" or (status == 503 and "cannot be opened" in found["detail"])
    except ServiceError as error:
        raise AssertionError(str(error)) from None
