"""Rows whose targets come late: they wait in the file under their keys, with the models that have predicted them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from batch2online._types import FloatArray
from batch2online.answers import losses_of_answers
from batch2online.input import PreparedRows
from batch2online.storage.database import Database
from batch2online.storage.errors import DuplicateKey, UnknownKey, intact
from batch2online.storage.keys import Key, Keys, shown
from batch2online.storage.tree import parts_of, state_of


class Question(NamedTuple):
    """A pending row: its number and key, when it was predicted, the model that did, its strings and its values."""

    number: int
    key: Key
    at: float | None
    answer: int
    strings: list[str]
    content: bytes


class Answer(NamedTuple):
    """A model that has predicted rows, or a warm-up, and the schema of these rows."""

    model: Any
    schema: Any


class LateTargets:
    """The keys of rows in a file, and the pending rows, which have no targets yet.

    The key of a learned row has its id; that of a pending row has ``-1 - number`` of its question. A model that has
    answered is stored once, however many rows wait, and goes with the last of them. Methods that write are called
    inside a transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database, self.keys = database, Keys(database, "row")
        self._answers: dict[int, Answer] = {}
        """Answers by number, as far as they are in memory."""

    def __len__(self) -> int:
        return int(self._database.meta.get("waiting", 0))

    def undone(self) -> None:
        """Forget what was noted since the last transaction."""
        self._answers = {}

    # -- keys -----------------------------------------------------------------------------------------

    def check_new(self, keys: Sequence[Key]) -> None:
        """Refuse keys that the file has."""
        name, found = self._database.path.name, self.keys.find(keys)
        waiting, learned = ([key for key in keys if key in found and (found[key] < 0) is is_] for is_ in (True, False))
        if learned:
            raise DuplicateKey(f"{name} has learned a row with the key {shown(learned)} already.")
        if waiting:
            which = f"a row that waits for its target under the key {shown(waiting)}"
            raise DuplicateKey(f"{name} holds {which}: pass the target to label.")

    def places(self, keys: Sequence[Key]) -> tuple[list[int], list[Question]]:
        """Return the ids of learned rows with these keys, and pending rows; refuse keys of no row."""
        found = self.keys.find(keys)
        unknown = [key for key in keys if key not in found]
        if unknown:
            raise UnknownKey(f"{self._database.path.name} has no row with the key {shown(unknown)}.")
        waiting = [self._question(-1 - found[key]) for key in keys if found[key] < 0]
        return [found[key] for key in keys if found[key] >= 0], waiting

    # -- pending rows ----------------------------------------------------------------------------------

    def ask(self, model: Any, X: Any, keys: Sequence[Key], at: float | None) -> None:
        """Store rows that the model predicts now."""
        points, schema, strings = model.question(X)
        self.check_new(keys)
        answer, first = self._number_of(Answer(model.stream.answerer, schema)), self._n_asked()
        for i, (key, own, row) in enumerate(zip(keys, strings, np.ascontiguousarray(points), strict=True)):
            text = json.dumps([key, at, answer, own])
            self._database.put("question", first + i, text, row.tobytes(), answer=answer, at=at)
        self._database.meta |= {"questions": first + len(keys), "waiting": len(self) + len(keys)}
        self.keys.add(keys, -1 - first - np.arange(len(keys)))

    def _n_asked(self) -> int:
        return int(self._database.meta.get("questions", 0))

    def _number_of(self, answer: Answer) -> int:
        """Return the number of what answers now; write it, unless it is what answered last.

        The number depends on the file alone: it is the same whichever models this process holds.
        """
        last = self._database.numbers("answer")[-1:]
        known = self._answers.get(last[0]) if last else None
        if known is not None and known.model is answer.model and known.schema == answer.schema:
            return int(last[0])
        packed = _packed(answer)
        if last and self._database.get("answer", last[0])[1] == packed:
            number = int(last[0])
        else:
            number = int(self._database.meta.get("answers", 0))
            self._database.put("answer", number, "", packed)
            self._database.meta["answers"] = number + 1
        self._answers[number] = answer
        return number

    def take(self, model: Any, keys: Sequence[Key], y: Any, first_id: int) -> PreparedRows:
        """Return pending rows, with their targets and the losses of their answers; they get ids from here on."""
        questions = self._waiting(keys)
        answers = {number: self._answer(model, number) for number in {each.answer for each in questions}}
        with intact(self._database.path):
            width = model.stream.width
            points = np.frombuffer(b"".join(each.content for each in questions), dtype="<f8").reshape(-1, width)
        strings = {number: list[str]() for number in answers}
        for question in questions:
            strings[question.answer] += question.strings
        tables = [(answer.schema, strings[number]) for number, answer in answers.items()]
        rows: PreparedRows = model.prepare_late(points, tables, y)
        rows = rows._replace(answers=_losses(model, rows, questions, answers))
        self.drop(questions)
        self.keys.add(keys, first_id + np.arange(len(keys)))
        return rows

    def _waiting(self, keys: Sequence[Key]) -> list[Question]:
        """Return the pending rows under keys; refuse keys of other rows."""
        found = self.keys.find(keys)
        unknown, learned = [key for key in keys if key not in found], [key for key in keys if found.get(key, -1) >= 0]
        if unknown:
            raise UnknownKey(
                f"No row waits for its target under the key {shown(unknown)}: it was not predicted with this key, has "
                "expired or was forgotten."
            )
        if learned:
            raise DuplicateKey(f"The row with the key {shown(learned)} has its target already.")
        return [self._question(-1 - found[key]) for key in keys]

    def _question(self, number: int) -> Question:
        text, content = self._database.get("question", number)
        with intact(self._database.path):
            key, at, answer, strings = json.loads(text)
            return Question(number, key, at, answer, strings, content)

    def _answer(self, model: Any, number: int) -> Answer:
        if number not in self._answers:
            _, packed = self._database.get("answer", number)
            with intact(self._database.path):
                answerer, schema = _unpacked(packed)
                self._answers[number] = Answer(model.restored_answerer(answerer), schema)
        return self._answers[number]

    def drop_older(self, n: int) -> None:
        """Remove the pending rows, but for the last n that were asked."""
        self.drop(self._where("number < ?", self._n_asked() - n))

    def asked_before(self, at: float) -> list[Question]:
        """Return the pending rows that were asked before this time."""
        if math.isnan(at):
            raise ValueError("before must be a number, got nan.")
        return self._where("at < ?", at)

    def _where(self, condition: str, value: float) -> list[Question]:
        numbers = self._database.select(f"SELECT number FROM question WHERE {condition}", value) if len(self) else []
        return [self._question(number) for (number,) in numbers]

    def drop(self, questions: Sequence[Question]) -> None:
        """Remove pending rows, their keys, and models that predicted no other one."""
        if not questions:
            return
        run = self._database.run
        self.keys.remove([question.key for question in questions])
        for question in questions:
            run("DELETE FROM question WHERE number = ?", question.number)
        for answer in {question.answer for question in questions}:
            if not run("SELECT 1 FROM question WHERE answer = ? LIMIT 1", answer):
                run("DELETE FROM answer WHERE number = ?", answer)
                self._answers.pop(answer, None)
        self._database.meta["waiting"] = len(self) - len(questions)

    def forget(self, model: Any, ids: Iterable[int]) -> None:
        """Remove the keys of forgotten rows; the models that have answered are replaced by the one without them."""
        self.keys.remove_numbers(ids)
        for number in self._database.numbers("answer"):
            self._answers[number] = answer = Answer(model.stream.answerer, self._answer(model, number).schema)
            self._database.put("answer", number, "", _packed(answer))


def _losses(model: Any, rows: PreparedRows, questions: Sequence[Question], answers: dict[int, Answer]) -> FloatArray:
    """Return the losses (2, n) of rows, each under the model that predicted it."""
    ((points, targets, _),) = rows.batches
    losses, of = np.empty((2, len(points))), np.array([question.answer for question in questions])
    problem = rows.problem or model.stream.problem
    for number, answer in answers.items():
        some = of == number
        losses[:, some] = losses_of_answers(problem, answer.model, points[some], targets[some])
    if np.isnan(losses).any():
        raise ValueError(f"loss gave NaN for the row with the key {questions[np.isnan(losses)[0].argmax()].key!r}.")
    return losses


def _packed(answer: Answer) -> bytes:
    parts = parts_of(list(answer))
    return json.dumps([len(part) for part in parts]).encode() + b"\n" + b"".join(parts)


def _unpacked(packed: bytes) -> Any:
    head, body = packed.split(b"\n", 1)
    ends = np.cumsum([0, *json.loads(head)]).tolist()
    return state_of([body[start:stop] for start, stop in pairwise(ends)])
