"""Rows from Redis and Kafka: each learned once, whatever happens in between, and wrong messages skipped."""

import json
import shutil
import time

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from batch2online.app.inputs import DataError
from batch2online.app.serve.models import ModelFolder
from batch2online.app.serve.queues import Address, QueueReader
from torture.cases import digest
from torture.served_kills import redis_server, served

RNG = np.random.default_rng(0)
ROWS = [{"a": a, "b": b, "y": 2 * a - b} for a, b in RNG.normal(size=(300, 2)).tolist()]
REGRESSION = {"task": "regression", "target": "y"}


@pytest.fixture(scope="module")
def redis():
    pytest.importorskip("redis", reason="needs the extra queues")
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server")
    with redis_server() as found:
        yield found


@pytest.fixture
def models(tmp_path):
    models = ModelFolder(tmp_path / "models")
    yield models
    models.close()


def expected(tmp_path, rows):
    """A model that was taught rows without a queue."""
    models = ModelFolder(tmp_path / "expected")
    model, _ = models.create("price", REGRESSION)
    for start in range(0, len(rows), 70):
        part = rows[start : start + 70]
        model.durable.partial_fit([[each["a"], each["b"]] for each in part], [each["y"] for each in part])
    models.close()
    return model.durable.model


def read_until(address, models, n_seen):
    reader = QueueReader(Address.parse(address), models)
    reader.start()
    end = time.monotonic() + 20
    while models.get("price").n_seen < n_seen and time.monotonic() < end:
        time.sleep(0.01)
    reader.end()


def test_a_redis_stream_is_learned_once(redis, models, tmp_path):
    client, port = redis
    address = f"redis://127.0.0.1:{port}/once?model=price"
    model, _ = models.create("price", REGRESSION)
    for start, stop in ((0, 120), (120, 121), (121, 300)):
        for row in ROWS[start:stop]:
            client.xadd("once", {"row": json.dumps(row)})
        read_until(address, models, stop)
    assert model.n_seen == 300
    np.testing.assert_allclose(model.durable.coef_, expected(tmp_path, ROWS).coef_, rtol=1e-9)
    (position,) = model.durable.positions.values()
    assert position["skipped"] == 0


def test_wrong_messages_are_skipped_and_counted(redis, models):
    client, port = redis
    wrong = [b"{", b"", b"[1]", b'{"a": 1}', b'{"a": 1, "b": 2, "y": null}', b'{"a": 1, "b": 2, "y": 3},{"a": 1}']
    for place, row in enumerate(ROWS[:30]):
        client.xadd("wrong", {"row": json.dumps(row)})
        if place in range(5, 11):
            client.xadd("wrong", {"row": wrong[place - 5]} if place > 5 else {"other": "x"})
    model, _ = models.create("price", REGRESSION)
    read_until(f"redis://127.0.0.1:{port}/wrong?model=price", models, 30)
    assert model.n_seen == 30
    assert [position["skipped"] for position in model.durable.positions.values()] == [6]
    assert all("redis://" in error for error in model.errors)


def test_cuts_of_a_stream_do_not_matter(redis, tmp_path):
    client, port = redis
    for row in ROWS:
        client.xadd("cuts", {"row": json.dumps(row)})
    found = []
    for place, n_messages in enumerate((1_000, 37)):
        models = ModelFolder(tmp_path / str(place))
        model, _ = models.create("price", REGRESSION)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("batch2online.app.serve.queues.MESSAGES", n_messages)
            read_until(f"redis://127.0.0.1:{port}/cuts?model=price", models, 300)
        found.append(digest(model.durable.model))
        models.close()
    assert found[0] == found[1]


def test_a_kafka_topic_is_learned_once(models):
    kafka = pytest.importorskip("confluent_kafka", reason="needs the extra queues")
    producer = kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    producer.produce("orders", json.dumps(ROWS[0]))
    producer.flush(10)
    ((_, broker),) = producer.list_topics(timeout=10).brokers.items()
    address = f"kafka://{broker.host}:{broker.port}/orders?model=price&log_level=0"
    model, _ = models.create("price", REGRESSION)
    for start, stop in ((1, 120), (120, 300)):
        for row in ROWS[start:stop]:
            producer.produce("orders", json.dumps(row))
        producer.flush(10)
        read_until(address, models, stop)
    assert model.n_seen == 300
    (position,) = model.durable.positions.values()
    assert sum(position["at"].values()) == 300


@pytest.mark.parametrize("address", ["redis://", "redis://host", "amqp://host/x", "orders", "kafka:///x"])
def test_wrong_addresses_are_refused(address):
    with pytest.raises(DataError, match="give redis://HOST/STREAM"):
        Address.parse(address)


def test_an_address_names_its_model(models):
    pytest.importorskip("redis", reason="needs the extra queues")
    with pytest.raises(DataError, match="name the model") as caught:
        QueueReader(Address.parse("redis://me:secret@localhost/orders"), models)
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_a_killed_service_loses_and_repeats_nothing():
    assert sum(served(3).values()) > 3
