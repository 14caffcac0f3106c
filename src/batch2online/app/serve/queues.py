"""Rows from a queue: a Redis stream or a Kafka topic, each message a JSON object, each learned exactly once.

The position in the queue is committed with the rows, in the file of the model, so that a process that dies continues
where the model stands. The queue itself keeps no position, and its messages may be learned by several models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from batch2online.app.inputs import DataError
from batch2online.app.serve.bodies import table_of_rows
from batch2online.app.serve.models import ModelFolder, ServedModel
from batch2online.app.serve.problems import RequestError

MESSAGES = 1_000
"""Messages that a service reads and commits at once, at most."""

Message = tuple[bytes, Any]
"""Content of a message, and the position after it."""


class Queue(Protocol):
    """What holds messages."""

    def read(self, position: Any, n: int, seconds: float) -> list[Message]:
        """Return up to n messages after a position, None for the first; wait so long if there are none."""
        ...


@dataclass(frozen=True)
class Address:
    """Where messages are, as ``redis://HOST:PORT/STREAM?model=NAME`` or ``kafka://HOST:PORT/TOPIC?model=NAME``.

    Other options of a Kafka address are settings of librdkafka, such as ``security.protocol=ssl``.
    """

    url: SplitResult
    topic: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        >>> Address.parse("redis://:secret@localhost:6379/orders?model=price").name
        'redis://localhost:6379/orders'
        """
        url = urlsplit(text)
        topic = url.path.strip("/")
        if url.scheme not in _QUEUES or not url.hostname or not topic:
            raise DataError(
                f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}: give redis://HOST/STREAM or kafka://HOST/TOPIC."
            )
        return cls(url, topic, dict(parse_qsl(url.query)))

    @property
    def name(self) -> str:
        """The address without password and options, under which the position is kept."""
        return f"{self.url.scheme}://{self.url.netloc.rpartition('@')[2]}/{self.topic}"

    def connect(self) -> Queue:
        """Return the queue."""
        try:
            return _QUEUES[self.url.scheme](self)
        except ImportError as error:
            raise DataError(f"{error.name} is missing: pip install 'batch2online[queues]'.") from error


class RedisStream:
    """A stream of Redis: entries with a field ``row``. A position is the id of an entry."""

    def __init__(self, address: Address) -> None:
        import redis

        url = address.url
        self._stream = address.topic
        self._client = redis.Redis(url.hostname or "", url.port or 6379, username=url.username, password=url.password)

    def read(self, position: Any, n: int, seconds: float) -> list[Message]:
        """Return entries after a position."""
        found: Any = self._client.xread({self._stream: position or "0"}, n, max(1, int(1000 * seconds)))
        entries = [entry for _, entries in found for entry in entries] if found else []
        return [(fields.get(b"row", b""), number.decode()) for number, fields in entries]


class KafkaTopic:
    """A topic of Kafka. A position is the next offset of each partition; partitions added later need a restart."""

    def __init__(self, address: Address) -> None:
        import confluent_kafka

        self._topic, self._partition = address.topic, confluent_kafka.TopicPartition
        options = {name: value for name, value in address.options.items() if name != "model"}
        fixed = {"bootstrap.servers": address.url.netloc, "group.id": "batch2online", "enable.auto.commit": False}
        self._consumer = confluent_kafka.Consumer({"auto.offset.reset": "earliest"} | options | fixed)
        self._position: Any = None

    def read(self, position: Any, n: int, seconds: float) -> list[Message]:
        """Return messages after a position."""
        position = position or {}
        if self._position != position:
            self._assign(position)
        self._position, found = None, []
        messages: Any = self._consumer.consume(n, seconds)
        for message in messages:
            if message.error():
                raise ConnectionError(str(message.error()))
            position = position | {str(message.partition()): message.offset() + 1}
            found.append((message.value() or b"", position))
        self._position = position
        return found

    def _assign(self, position: dict[str, int]) -> None:
        about = self._consumer.list_topics(self._topic, timeout=10).topics[self._topic]
        if about.error is not None:
            raise ConnectionError(str(about.error))
        first = -2  # librdkafka's OFFSET_BEGINNING
        self._consumer.assign([self._partition(self._topic, p, position.get(str(p), first)) for p in about.partitions])


_QUEUES: dict[str, Callable[[Address], Queue]] = {"redis": RedisStream, "kafka": KafkaTopic}


class QueueReader(Thread):
    """Teach a model the messages of a queue until it is told to end.

    Parameters
    ----------
    address : Address
        Where the messages are; its option ``model`` names the model.
    models : ModelFolder
        Models; that of the address may be created later.
    """

    def __init__(self, address: Address, models: ModelFolder) -> None:
        super().__init__(name=address.name, daemon=True)
        if "model" not in address.options:
            raise DataError(f"{address.name}: name the model that learns, as in {address.name}?model=NAME.")
        self._address, self._models, self._is_over, self._queue = address, models, Event(), address.connect()

    def run(self) -> None:
        """Learn until :meth:`end`; after an error, try again from where the model stands."""
        while not self._is_over.is_set():
            try:
                self._learn_some(self._models.get(self._address.options["model"]))
            except RequestError:  # the model is not there yet
                self._is_over.wait(0.2)
            except Exception as error:  # of the client of the queue, whose classes are not known here, or a full disk
                self._models.get(self._address.options["model"]).errors.append(f"{self.name}: {error}")
                self._is_over.wait(1.0)

    def _learn_some(self, model: ServedModel) -> None:
        known = model.durable.positions.get(self.name) or {}
        messages = self._queue.read(known.get("at"), MESSAGES, 0.5)
        if messages:
            model.submit(lambda: learn_messages(model, self.name, messages)).result()

    def end(self) -> None:
        """Finish what has begun."""
        self._is_over.set()
        self.join()


def learn_messages(model: ServedModel, name: str, messages: Sequence[Message]) -> None:
    """Learn messages with the position after them; skip and count those that are no rows of the model."""
    skipped = (model.durable.positions.get(name) or {}).get("skipped", 0)
    try:
        rows = table_of_rows([content for content, _ in messages])
        source = name, {"at": messages[-1][1], "skipped": skipped}
        model.asked(partial(model.learn, rows, None, source=source))
    except (RequestError, msgspec.MsgspecError) as error:
        if len(messages) > 1:
            for message in messages:
                learn_messages(model, name, [message])
            return
        model.errors.append(f"{name}, message before {messages[0][1]}: {error}")
        model.durable.note(source=(name, {"at": messages[0][1], "skipped": skipped + 1}))
