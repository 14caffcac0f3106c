"""Rows whose targets come late: they wait in the file under their keys, with the models that have predicted them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.answers import losses_of_answers
from batch2online.input import PreparedRows
from batch2online.storage.database import Database
from batch2online.storage.errors import DuplicateKey, UnknownKey, intact
from batch2online.storage.keys import Key, Keys, shown
from batch2online.storage.questions import Question, Questions


class LateTargets:
    """The keys of rows in a file, and the rows that wait for their targets.

    The key of a learned row has its id; that of a row that waits has ``-1 - number`` of its question. Methods that
    write are called inside a transaction.
    """

    def __init__(self, database: Database) -> None:
        self.path = database.path
        self.keys, self._questions = Keys(database, "row"), Questions(database)
        self._answerers: dict[int, tuple[Any, Any]] = {}
        """Models that predicted pending rows and schemas of these rows, by number, as far as they are in memory."""

    def __len__(self) -> int:
        return len(self._questions)

    def undone(self) -> None:
        """Forget what was noted since the last transaction."""
        self._answerers = {}

    # -- keys -----------------------------------------------------------------------------------------

    def check_new(self, keys: Sequence[Key]) -> None:
        """Refuse keys that the file has."""
        found = self.keys.find(keys)
        waiting, learned = ([key for key in keys if key in found and (found[key] < 0) is is_] for is_ in (True, False))
        if learned:
            raise DuplicateKey(f"{self.path.name} has learned a row with the key {shown(learned)} already.")
        if waiting:
            raise DuplicateKey(
                f"{self.path.name} holds a row that waits for its target under the key {shown(waiting)}: pass the "
                "target to label."
            )

    def places(self, keys: Sequence[Key]) -> tuple[list[int], list[Question]]:
        """Return the ids of learned rows with these keys, and the rows that wait; refuse keys of no row."""
        found = self.keys.find(keys)
        unknown = [key for key in keys if key not in found]
        if unknown:
            raise UnknownKey(f"{self.path.name} has no row with the key {shown(unknown)}.")
        waiting = self._questions.get(-1 - found[key] for key in keys if found[key] < 0)
        return [found[key] for key in keys if found[key] >= 0], waiting

    # -- rows that wait -------------------------------------------------------------------------------

    def ask(self, model: Any, X: Any, keys: Sequence[Key], at: float | None) -> None:
        """Store rows that the model predicts now."""
        points, schema, strings = model._question(X)
        self.check_new(keys)
        answer, first = self._number_of_answerer(model, schema), self._questions.next_number
        rows = zip(keys, strings, np.ascontiguousarray(points), strict=True)
        self._questions.add(
            [Question(first + i, key, at, answer, own, row.tobytes()) for i, (key, own, row) in enumerate(rows)]
        )
        self.keys.add({key: -1 - first - i for i, key in enumerate(keys)})

    def _number_of_answerer(self, model: Any, schema: Any) -> int:
        """Return the number of what answers now for rows of this schema."""
        answerer = model.stream.answerer
        for number, known in self._answerers.items():
            if known[0] is answerer and known[1] == schema:
                return number
        number = self._questions.add_answer(_content(model, schema))
        self._answerers[number] = answerer, schema
        return number

    def take(self, model: Any, keys: Sequence[Key], y: Any, first_id: int) -> PreparedRows:
        """Return rows that wait, with their targets and the losses of their answers; they get ids from here on."""
        questions = self._waiting(keys)
        with intact(self.path):
            width = model.stream.width
            points = np.frombuffer(b"".join(each.content for each in questions), dtype="<f8").reshape(-1, width)
        answers = {number: self._questions.answer(number) for number in {each.answer for each in questions}}
        tables = [
            (content["schema"], [string for each in questions if each.answer == number for string in each.strings])
            for number, content in answers.items()
        ]
        rows: PreparedRows = model._prepare_late(points, tables, y)
        rows = rows._replace(answers=self._losses(model, rows, questions, answers))
        self.drop(questions)
        self.keys.add({key: first_id + i for i, key in enumerate(keys)})
        return rows

    def _waiting(self, keys: Sequence[Key]) -> list[Question]:
        """Return the rows that wait under keys; refuse keys of other rows."""
        found = self.keys.find(keys)
        unknown, learned = [key for key in keys if key not in found], [key for key in keys if found.get(key, -1) >= 0]
        if unknown:
            raise UnknownKey(
                f"No row waits for its target under the key {shown(unknown)}: it was not predicted with this key, has "
                "expired or was forgotten."
            )
        if learned:
            raise DuplicateKey(f"The row with the key {shown(learned)} has its target already.")
        return self._questions.get(-1 - found[key] for key in keys)

    def _losses(
        self, model: Any, rows: PreparedRows, questions: Sequence[Question], answers: dict[int, Any]
    ) -> FloatArray:
        """Return the losses (2, n) of rows, each under the model that predicted it."""
        ((points, targets, _),) = rows.batches
        losses, of = np.empty((2, len(points))), np.array([question.answer for question in questions])
        for number, content in answers.items():
            if number not in self._answerers:
                with intact(self.path):
                    self._answerers[number] = model._restored_answerer(content["answerer"]), content["schema"]
            some = of == number
            problem = rows.problem or model.stream.problem
            losses[:, some] = losses_of_answers(problem, self._answerers[number][0], points[some], targets[some])
        if np.isnan(losses).any():
            raise ValueError(f"loss gave NaN for the row with the key {questions[np.isnan(losses)[0].argmax()].key!r}.")
        return losses

    def older(self, n: int) -> list[Question]:
        """Return the rows that wait, but for the last n that were asked."""
        return self._questions.older(self._questions.next_number - n)

    def asked_before(self, at: float) -> list[Question]:
        """Return the rows that wait and were asked before this time."""
        if math.isnan(at):
            raise ValueError("before must be a number, got nan.")
        return self._questions.asked_before(at)

    def drop(self, questions: Sequence[Question]) -> None:
        """Remove pending rows, their keys, and models that predicted no other pending row."""
        if questions:
            self.keys.remove([question.key for question in questions])
            self._questions.remove(questions)
            kept = set(self._questions.answers())
            self._answerers = {number: each for number, each in self._answerers.items() if number in kept}

    def forget(self, model: Any, ids: Iterable[int]) -> None:
        """Remove the keys of forgotten rows; the models that have answered are replaced by the one without them."""
        self.keys.remove_numbers(ids)
        for number in self._questions.answers():
            schema = self._questions.answer(number)["schema"]
            self._questions.replace_answer(number, _content(model, schema))
            self._answerers[number] = model.stream.answerer, schema


def _content(model: Any, schema: Any) -> dict[str, Any]:
    return {"answerer": model.stream.answerer, "schema": schema}
