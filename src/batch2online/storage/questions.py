"""Rows that were predicted and wait for their targets, and the models that have answered.

A model that has answered is stored once, however many rows wait, and goes with the last of them. Methods that write are
called inside a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from batch2online.storage.database import Database
from batch2online.storage.errors import StoreCorrupted, intact
from batch2online.storage.keys import Key
from batch2online.storage.tree import parts_of, state_of


class Question(NamedTuple):
    """A pending row: its number and key, when it was predicted, the model that did, its strings and its values."""

    number: int
    key: Key
    at: float | None
    answer: int
    strings: list[str]
    content: bytes


class Questions:
    """The pending rows of a file: predicted with a key, target not known yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __len__(self) -> int:
        return self._count("waiting")

    def _count(self, name: str) -> int:
        return int(self._database.meta.get(name, 0))

    # -- models that predicted ----------------------------------------------------------------------------

    def add_answer(self, content: dict[str, Any]) -> int:
        """Store what answers, unless it is what answered last; return its number."""
        number, packed = self._count("answers"), _packed(content)
        last = self.answers()[-1:]
        if last and self._database.get("answer", last[0])[1] == packed:
            return last[0]
        self._database.put("answer", number, "", packed)
        self._database.meta["answers"] = number + 1
        return number

    def answers(self) -> list[int]:
        """Return the numbers of the models that predicted pending rows."""
        return self._database.numbers("answer") if len(self) else []

    def answer(self, number: int) -> dict[str, Any]:
        """Return what has answered."""
        _, packed = self._database.get("answer", number)
        with intact(self._database.path):
            content: dict[str, Any] = _unpacked(packed)
            if content.keys() != {"answerer", "schema"}:
                raise StoreCorrupted(f"{self._database.path} is damaged: an answer has {sorted(content)[:5]}.")
            return content

    def replace_answer(self, number: int, content: dict[str, Any]) -> None:
        """Replace a stored model."""
        self._database.put("answer", number, "", _packed(content))

    # -- rows ---------------------------------------------------------------------------------------------

    def add(self, questions: Sequence[Question]) -> None:
        """Store pending rows."""
        for number, key, at, answer, strings, content in questions:
            text = json.dumps([key, at, answer, strings])
            self._database.put("question", number, text, content, answer=answer, at=at)
        self._database.meta["questions"] = self.next_number + len(questions)
        self._database.meta["waiting"] = len(self) + len(questions)

    @property
    def next_number(self) -> int:
        """The number of the next pending row."""
        return self._count("questions")

    def get(self, numbers: Iterable[int]) -> list[Question]:
        """Return pending rows, in this order."""
        return [self._question(number, *self._database.get("question", number)) for number in numbers]

    def older(self, number: int) -> list[Question]:
        """Return the rows asked before this number."""
        return self._where("number < ?", number)

    def asked_before(self, at: float) -> list[Question]:
        """Return the rows asked before this time."""
        return self._where("at < ?", at)

    def _where(self, condition: str, value: float) -> list[Question]:
        query = f"SELECT number, text, content, crc FROM question WHERE {condition}"
        found = self._database.select(query, value) if len(self) else []
        return [self._question(row[0], *self._database.checked("question", *row)) for row in found]

    def _question(self, number: int, text: str, content: bytes) -> Question:
        with intact(self._database.path):
            key, at, answer, strings = json.loads(text)
            return Question(number, key, at, answer, strings, content)

    def remove(self, questions: Sequence[Question]) -> None:
        """Remove rows, and models that predicted no other pending row."""
        run = self._database.run
        for question in questions:
            run("DELETE FROM question WHERE number = ?", question.number)
        for answer in {question.answer for question in questions}:
            if not run("SELECT 1 FROM question WHERE answer = ? LIMIT 1", answer):
                run("DELETE FROM answer WHERE number = ?", answer)
        self._database.meta["waiting"] = len(self) - len(questions)


def _packed(content: dict[str, Any]) -> bytes:
    parts = parts_of(content)
    return json.dumps([len(part) for part in parts]).encode() + b"\n" + b"".join(parts)


def _unpacked(packed: bytes) -> Any:
    head, body = packed.split(b"\n", 1)
    ends = np.cumsum([0, *json.loads(head)]).tolist()
    return state_of([body[start:stop] for start, stop in pairwise(ends)])
