"""Rows that were predicted and wait for their targets, and the models that have answered.

A model that has answered is stored once, however many rows wait, and goes with the last of them. Methods that write are
called inside a transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.storage.database import Database, checksum
from batch2online.storage.errors import StoreCorrupted, intact
from batch2online.storage.row_keys import Key
from batch2online.storage.tree import parts_of, state_of


class Question(NamedTuple):
    """A pending row: number, key, time of prediction, model that predicted it, strings and values."""

    number: int
    key: Key
    at: float | None
    answer: int
    strings: str
    content: bytes

    @property
    def crc(self) -> int:
        """The checksum of the row."""
        described = json.dumps([self.key, self.at, self.answer, self.strings])
        return checksum(f"question {self.number}", described, self.content)


class Questions:
    """The pending rows of a file: predicted with a key, target not known yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def n_asked(self) -> int:
        """Number of the next question."""
        return self._count("questions")

    def __len__(self) -> int:
        return self._count("waiting")

    def _count(self, name: str) -> int:
        found = self._database.meta.get(name, 0)
        if type(found) is not int or found < 0:
            raise StoreCorrupted(f"{self._database.path} is damaged: its number of {name} rows is {str(found)[:40]}.")
        return found

    # -- models that predicted ----------------------------------------------------------------------------

    def add_answer(self, content: dict[str, Any]) -> int:
        """Store what answers, if it is not there yet; return its number."""
        meta, packed = self._database.meta, _packed(content)
        if "answers" not in meta:
            self._database.create_table("answer")
            self._database.create_table("question")
            meta |= {"answers": 0, "questions": 0, "waiting": 0}
        digest = hashlib.sha256(packed).digest()
        known = self._database.select("SELECT number FROM answer WHERE sha256 = ?", (digest,))
        if known:
            return int(known[0][0])
        number = self._count("answers")
        self._database.run("INSERT INTO answer VALUES (?, 0, ?, ?)", (number, digest, packed))
        meta["answers"] = number + 1
        return number

    def answers(self) -> list[int]:
        """Return the numbers of the models that predicted pending rows."""
        if "answers" not in self._database.meta:
            return []
        return [number for (number,) in self._database.select("SELECT number FROM answer ORDER BY number")]

    def answer(self, number: int) -> dict[str, Any]:
        """Return a model that predicted pending rows."""
        found = self._database.select("SELECT sha256, content FROM answer WHERE number = ?", (number,))
        if not found or hashlib.sha256(found[0][1]).digest() != found[0][0]:
            raise StoreCorrupted(f"{self._database.path} is damaged: a model that has answered is missing or changed.")
        with intact(self._database.path):
            content: dict[str, Any] = _unpacked(found[0][1])
            if content.keys() != {"answerer", "schema"}:
                raise StoreCorrupted(f"{self._database.path} is damaged: an answer has {sorted(content)[:5]}.")
            return content

    def replace_answer(self, number: int, content: dict[str, Any]) -> None:
        """Replace a stored model."""
        packed = _packed(content)
        values = (hashlib.sha256(packed).digest(), packed, number)
        self._database.run("UPDATE answer SET sha256 = ?, content = ? WHERE number = ?", values)

    # -- rows -----------------------------------------------------------------------------------------

    def add(
        self, keys: Sequence[Key], points: FloatArray, strings: Sequence[list[str]], answer: int, at: float | None
    ) -> range:
        """Store pending rows; return their numbers."""
        numbers = range(self.n_asked, self.n_asked + len(keys))
        rows = zip(numbers, keys, strings, np.ascontiguousarray(points), strict=True)
        found = (Question(n, key, at, answer, json.dumps(own), row.tobytes()) for n, key, own, row in rows)
        statement = "INSERT INTO question VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._database.run_many(statement, ((*question, question.crc) for question in found))
        self._database.run("UPDATE answer SET waiting = waiting + ? WHERE number = ?", (len(keys), answer))
        self._database.meta |= {"questions": numbers.stop, "waiting": len(self) + len(keys)}
        return numbers

    def get(self, numbers: Sequence[int]) -> list[Question]:
        """Return pending rows, in this order."""
        found = self._intact(self._database.select_many("SELECT * FROM question WHERE number IN (?)", numbers))
        by_number = {question.number: question for question in found}
        if len(by_number) < len(numbers):
            raise StoreCorrupted(f"{self._database.path} is damaged: pending rows are missing.")
        return [by_number[number] for number in numbers]

    def older(self, number: int) -> list[Question]:
        """Return the rows asked before this number."""
        if not len(self):
            return []
        return self._intact(self._database.select("SELECT * FROM question WHERE number < ?", (number,)))

    def asked_before(self, at: float) -> list[Question]:
        """Return the rows asked before this time."""
        if not len(self):
            return []
        return self._intact(self._database.select("SELECT * FROM question WHERE at < ?", (at,)))

    def _intact(self, stored: Iterable[Any]) -> list[Question]:
        found = []
        with intact(self._database.path):
            for *values, crc in stored:
                question = Question(*values)
                if question.crc != crc:
                    raise StoreCorrupted(
                        f"{self._database.path} is damaged: a row that waits for its target does not match its "
                        "checksum."
                    )
                found.append(question)
        return found

    def remove(self, questions: Sequence[Question]) -> None:
        """Remove rows, and models that predicted no other pending row."""
        self._database.run_many("DELETE FROM question WHERE number = ?", ((each.number,) for each in questions))
        done = Counter(question.answer for question in questions)
        self._database.run_many(
            "UPDATE answer SET waiting = waiting - ? WHERE number = ?", ((n, number) for number, n in done.items())
        )
        self._database.run_many("DELETE FROM answer WHERE number = ? AND waiting <= 0", ((number,) for number in done))
        self._database.meta["waiting"] = len(self) - len(questions)


def points_of(questions: Sequence[Question], width: int) -> FloatArray:
    """Return the values of rows (n, width)."""
    content = b"".join(question.content for question in questions)
    with intact("a row that waits for its target"):
        return np.frombuffer(content, dtype="<f8").reshape(len(questions), width)


def _packed(content: dict[str, Any]) -> bytes:
    parts = parts_of(content)
    return json.dumps([len(part) for part in parts]).encode() + b"\n" + b"".join(parts)


def _unpacked(packed: bytes) -> Any:
    head, body = packed.split(b"\n", 1)
    ends = np.cumsum([0, *json.loads(head)]).tolist()
    return state_of([body[start:stop] for start, stop in pairwise(ends)])
