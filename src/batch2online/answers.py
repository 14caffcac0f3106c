"""Losses of answers that were given before rows could be learned, for targets that come late.

A row whose target comes late was predicted by an earlier model than the one that is current when it is learned. Its
prequential loss is that of the earlier model, the one that predicted the row. These losses enter what is reported,
``regret_`` and ``metrics_``, and nothing else: whether to refit and which rows the coreset samples depend on the losses
under the current model. The model is therefore the same, bit for bit, as without late targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.problem import Problem
from batch2online.rows import Rows, ones
from batch2online.schema import shape, storable
from batch2online.warm_up import WarmUp


@storable
@dataclass(frozen=True)
class Answered:
    """Loss and secondary loss (2, n) of rows under the models that have answered for them, by their ids.

    >>> late = Answered().plus(np.array([4, 7]), np.array([[1.0, 2.0], [0.5, 0.5]]))
    >>> rows = Rows(np.empty((3, 0)), np.empty((3, 0)), np.ones(3), np.arange(4, 7))
    >>> late.over(rows, np.array([9.0, 8.0, 7.0]), np.zeros(3))[0].tolist(), late.since(7).ids.tolist()
    ([1.0, 8.0, 7.0], [7])
    """

    ids: Annotated[IntArray, shape("n")] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scores: Annotated[FloatArray, shape(2, "n")] = field(default_factory=lambda: np.empty((2, 0)))

    def __len__(self) -> int:
        return len(self.ids)

    def plus(self, ids: IntArray, scores: FloatArray) -> Self:
        """Return the answers with these for later rows."""
        return type(self)(np.concatenate([self.ids, ids]), np.concatenate([self.scores, scores], axis=1))

    def since(self, start: int) -> Self:
        """Return the answers for rows with ids from here on."""
        first = int(np.searchsorted(self.ids, start))
        return self if not first else type(self)(self.ids[first:], self.scores[:, first:])

    def over(self, rows: Rows, losses: FloatArray, secondary: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return loss and secondary loss of each row: of its earlier answer, or the given ones if there is none."""
        places = np.searchsorted(rows.ids, self.ids)
        is_here = places < len(rows)
        is_here[is_here] = rows.ids[places[is_here]] == self.ids[is_here]
        if not is_here.any():
            return losses, secondary
        losses, secondary = losses.copy(), secondary.copy()
        losses[places[is_here]], secondary[places[is_here]] = self.scores[:, is_here]
        return losses, secondary


def losses_of_answers(problem: Problem, answerer: Any, points: FloatArray, targets: FloatArray) -> FloatArray:
    """Return loss and secondary loss (2, n) of rows under the model or warm-up that predicted them.

    A warm-up scores each row by itself: none of the others was known when it answered.
    """
    if not isinstance(answerer, WarmUp):
        return np.stack(problem.losses(answerer, points, targets))
    each = [answerer.score(points[i : i + 1], targets[i : i + 1], ones(1))[0] for i in range(len(points))]
    return np.stack([np.concatenate(part) for part in zip(*each, strict=True)])
