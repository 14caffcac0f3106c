"""Rows from Redis and Kafka: after any batch, wrong message, restart and kill, each was learned exactly once."""

import json
import shutil
import sys
import time
from collections import defaultdict
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="needs httpx2")

from app.serve import test_service as service
from batch2online import Durable
from batch2online.app.inputs import DataError
from batch2online.app.serve.models import ModelFolder
from batch2online.app.serve.queues import Address, QueueReader
from torture.cases import digest
from torture.served_kills import redis_server, served

ROWS = [{"a": a, "b": b, "y": 2 * a - b} for a, b in np.random.default_rng(0).normal(size=(60, 2)).tolist()]
GOOD = [json.dumps(row).encode() for row in ROWS]
WRONG = [b"{", b"", b"[1]", b'{"a": 1}', b'{"a": 1, "b": 2, "y": null}']
PARTS = {
    "rows": [GOOD[:20], GOOD[20:21], GOOD[21:60]],
    "wrong ones at the ends": [[WRONG[0], *GOOD[:20], WRONG[1]], GOOD[20:40], [*WRONG[2:], *GOOD[40:60]]],
    "wrong ones alone": [GOOD[:30], WRONG, GOOD[30:50], WRONG[:1], GOOD[50:60]],
}


class Kafka:
    """A topic of two partitions in memory, with a client like that of librdkafka; it gives at most seven messages."""

    def __init__(self, patch):
        self.partitions = defaultdict(lambda: {0: [], 1: []})
        client = ModuleType("confluent_kafka")
        client.TopicPartition = lambda topic, partition, offset: SimpleNamespace(
            topic=topic, partition=partition, offset=offset
        )
        client.Consumer = lambda options: Consumer(self.partitions)
        patch.setitem(sys.modules, "confluent_kafka", client)

    def address(self, topic):
        return f"kafka://localhost:9092/{topic}"

    def send(self, topic, messages):
        for place, message in enumerate(messages):
            self.partitions[topic][place % 3 // 2].append(message)

    def end(self, topic):
        return {str(partition): len(messages) for partition, messages in self.partitions[topic].items() if messages}


class Consumer:
    def __init__(self, partitions):
        self.partitions = partitions

    def list_topics(self, topic, timeout):
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=self.partitions[topic])})

    def assign(self, places):
        self.topic = places[0].topic
        self.at = {place.partition: max(0, place.offset) for place in places}

    def consume(self, n, seconds):
        found = []
        for partition, messages in self.partitions[self.topic].items():
            for message in messages[self.at[partition] :][: min(n, 7) - len(found)]:
                place = partition, self.at[partition]
                found.append(SimpleNamespace(error=lambda: None, value=lambda m=message: m,
                                             partition=lambda p=place: p[0], offset=lambda p=place: p[1]))  # fmt: skip
                self.at[partition] += 1
        if not found:
            time.sleep(min(seconds, 0.01))
        return found


class Redis:
    """Streams of a server of Redis."""

    def __init__(self, client, port):
        self.client, self.port = client, port

    def address(self, topic):
        return f"redis://127.0.0.1:{self.port}/{topic}"

    def send(self, topic, messages):
        for message in messages:
            self.client.xadd(topic, {"row": message})

    def end(self, topic):
        return self.client.xrevrange(topic, count=1)[0][0].decode()


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("redis", reason="needs the package redis")
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server")
    with redis_server() as found:
        yield Redis(*found)


@pytest.fixture(params=["redis", "kafka"])
def queue(request, monkeypatch):
    return Kafka(monkeypatch) if request.param == "kafka" else request.getfixturevalue("server")


def learned(path):
    """The rows of a file, sorted, and its positions."""
    with Durable.open(path) as durable:
        rows = np.column_stack([durable.coreset_.points, durable.coreset_.targets])
        assert len(rows) == durable.n_seen_
        return sorted(rows.tolist()), durable.positions


def expected(n_rows):
    return sorted([row["a"], row["b"], row["y"]] for row in ROWS[:n_rows])


def wait_for(client, name, n_rows):
    end = time.monotonic() + 60
    while client.get(f"/models/{name}").json()["n_seen"] < n_rows and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("parts", list(PARTS))
@pytest.mark.covering
def test_models_of_a_service_learn_each_message_once(queue, parts, tmp_path):
    """The service is stopped and started between the parts; each part comes in two pieces while it runs."""
    topic, names, n_rows = parts.replace(" ", "-"), ("one", "two"), 0
    sources = tuple(f"{queue.address(topic)}?model={name}" for name in names)
    for part in PARTS[parts]:
        n_rows += len(set(part) & set(GOOD))
        with service.client_of(tmp_path, sources=sources) as client:
            for name in names:
                client.put(f"/models/{name}", json=service.REGRESSION | {"coreset_size": 1_000})
            for piece in (part[: len(part) // 2], part[len(part) // 2 :]):
                queue.send(topic, piece)
                time.sleep(0.02)
            for name in names:
                wait_for(client, name, n_rows)
    for name in names:
        rows, positions = learned(tmp_path / f"{name}.b2o")
        assert rows == expected(n_rows)
        n_wrong = sum(len(part) for part in PARTS[parts]) - n_rows
        assert positions == {queue.address(topic): {"at": queue.end(topic), "skipped": n_wrong}}


@pytest.fixture
def models(tmp_path):
    models = ModelFolder(tmp_path / "models")
    yield models
    models.close()


def read_until(address, models, n_seen):
    reader = QueueReader(Address.parse(address), models)
    reader.start()
    end = time.monotonic() + 20
    while models.get("price").n_seen < n_seen and time.monotonic() < end:
        time.sleep(0.01)
    reader.end()


def test_cuts_of_a_stream_do_not_matter(server, tmp_path):
    server.send("cuts", GOOD)
    found = []
    for place, n_messages in enumerate((1_000, 7)):
        models = ModelFolder(tmp_path / str(place))
        model, _ = models.create("price", service.REGRESSION)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("batch2online.app.serve.queues.MESSAGES", n_messages)
            read_until(f"{server.address('cuts')}?model=price", models, 60)
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
    model, _ = models.create("price", service.REGRESSION)
    for start, stop in ((1, 20), (20, 60)):
        for row in ROWS[start:stop]:
            producer.produce("orders", json.dumps(row))
        producer.flush(10)
        read_until(address, models, stop)
    assert model.n_seen == 60
    (position,) = model.durable.positions.values()
    assert sum(position["at"].values()) == 60


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
