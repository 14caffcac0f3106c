"""What stands in for predictions until a learner has a model, for losses of which nothing but a function is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from batch2online.warm_up import MeanSoFar


@dataclass(frozen=True)
class AnswersSoFar:
    """The mean of the targets before each row, or the most frequent of the labels before it.

    >>> AnswersSoFar().before(np.array(["a", "b", "b", "a"]))[0].tolist()
    ['a', 'a', 'a', 'b']
    """

    mean: MeanSoFar = field(default_factory=lambda: MeanSoFar(of_targets=True))
    counts: tuple[tuple[Any, int], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was seen: the first row is its own answer, and costs nothing."""
        return not self.counts and self.mean.first is None

    def before(self, y: Any) -> tuple[Any, Self]:
        """Return an answer for each target, from those before it, and what knows these as well."""
        if y.dtype.kind == "f":
            away, mean = self.mean.residuals(y.reshape(len(y), -1), np.ones(len(y)))
            return y - away.reshape(y.shape), type(self)(mean, self.counts)
        counts, answers = dict(self.counts), []
        for label in y.tolist():
            answers.append(max(counts, key=lambda known: counts[known]) if counts else label)
            counts[label] = counts.get(label, 0) + 1
        return np.array(answers), type(self)(self.mean, tuple(counts.items()))
