"""What the quality of a model is seen beside: a baseline on the same rows, and the same sums over windows of rows.

The baseline is the simplest prediction from earlier rows: their mean, or their most frequent class and the shares of
classes. It is scored as the model is, on each row before that is learned, with memory that does not grow with the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, Self

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.rows import Rows, all_ones
from batch2online.schema import replace, shape, storable
from batch2online.warm_up import WarmUp

MOST_WINDOWS, FIRST_WIDTH = 32, 64
"""Number of windows that are stored, and rows of each at first; where there are more, neighbours are added up."""

N_BINS, _PER_UNIT = 386, 16
"""Bins of logits, and how many of them one unit has: from -12 to 12, with one bin beyond either end."""


class ClassScores(NamedTuple):
    """Errors (0 or 1) of rows of a classifier, and ``-ln p`` of their true classes; None where p is not known."""

    errors: FloatArray
    log_losses: FloatArray | None


class Baseline(ABC):
    """Scores rows by the simplest prediction from earlier ones; a value, as a warm-up is."""

    @abstractmethod
    def plus(self, rows: Rows, scores: ClassScores | None) -> tuple[tuple[FloatArray, FloatArray], Self]:
        """Return loss and secondary loss of each row, and the baseline after these rows."""

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """Return the baseline after the rows of both."""


@storable
@dataclass(frozen=True)
class MeanBaseline(Baseline):
    """Predict the mean of the targets so far, under the loss of a warm-up."""

    mean: WarmUp

    def plus(self, rows: Rows, scores: ClassScores | None) -> tuple[tuple[FloatArray, FloatArray], Self]:
        scored, mean = self.mean.score(rows.points, rows.targets, rows.weights)
        return scored, replace(self, mean=mean)

    def merge(self, other: Self) -> Self:
        return replace(self, mean=self.mean.merge(other.mean))


@storable
@dataclass(frozen=True)
class ClassBaseline(Baseline):
    """Predict the most frequent class and the shares of classes before each segment of rows, the first by its own.

    Half a row is added to each known class, and to all others together.

    Attributes
    ----------
    codes : array (k,)
        Codes of the classes, ascending.
    weights, errors : arrays (k,)
        Weight of the rows of each class, and of those among them that the model got wrong.
    scores : array (k, N_BINS) or (k, 0)
        Weights of rows by class and logit of the true class, while there are at most two classes.
    is_log : bool
        Whether the loss is logarithmic; otherwise it is 1 for a wrong class.
    """

    is_log: bool = True
    codes: Annotated[FloatArray, shape("k")] = field(default_factory=lambda: np.empty(0))
    weights: Annotated[FloatArray, shape("k")] = field(default_factory=lambda: np.empty(0))
    errors: Annotated[FloatArray, shape("k")] = field(default_factory=lambda: np.empty(0))
    scores: Annotated[FloatArray, shape("k", "b")] = field(default_factory=lambda: np.empty((0, N_BINS)))

    def plus(self, rows: Rows, scores: ClassScores | None) -> tuple[tuple[FloatArray, FloatArray], Self]:
        known, weights = self.with_codes(rows.targets[:, 0]), rows.weights
        places, k = np.searchsorted(known.codes, rows.targets[:, 0]), len(known.codes)
        counts = np.bincount(places, weights, k)
        before = known.weights if len(self.codes) else counts
        n_known = np.count_nonzero(before)
        shares = (before + 0.5) / (before.sum() + 0.5 * (n_known + 1))
        is_wrong = (places != before.argmax()).astype(np.float64)
        losses = -np.log(shares)[places] if self.is_log else is_wrong
        if scores is None:
            return (losses, is_wrong), replace(known, weights=known.weights + counts)
        errors = known.errors + np.bincount(places, weights * scores.errors, k)
        bins = known.binned(places, weights, scores.log_losses)
        return (losses, is_wrong), replace(known, weights=known.weights + counts, errors=errors, scores=bins)

    def with_codes(self, codes: FloatArray) -> Self:
        """Return the baseline that knows these classes too, with no rows of new ones."""
        places = np.searchsorted(self.codes, codes).clip(max=max(0, len(self.codes) - 1))
        if len(self.codes) and (self.codes[places] == codes).all():
            return self
        known = np.union1d(self.codes, codes)
        places = np.searchsorted(known, self.codes)
        weights, errors = np.zeros((2, len(known)))
        weights[places], errors[places] = self.weights, self.errors
        scores = np.zeros((len(known), self.scores.shape[1] if len(known) <= 2 else 0))
        if scores.shape[1]:
            scores[places] = self.scores
        return replace(self, codes=known, weights=weights, errors=errors, scores=scores)

    def binned(self, places: IntArray, weights: FloatArray, log_losses: FloatArray | None) -> FloatArray:
        """Return the weights by class and logit of the true class, with further rows."""
        if log_losses is None or not self.scores.shape[1]:
            return self.scores[:, :0]
        with np.errstate(divide="ignore"):  # certain rows have infinite logits
            logits = -log_losses - np.log(-np.expm1(-log_losses))
        bins = np.floor(logits * _PER_UNIT).clip(-N_BINS // 2, N_BINS // 2 - 1).astype(np.int64) + N_BINS // 2
        added = np.bincount(places * N_BINS + bins, weights, self.scores.size)
        return np.asarray(self.scores + added.reshape(self.scores.shape))

    def merge(self, other: Self) -> Self:
        mine, theirs = self.with_codes(other.codes), other.with_codes(self.codes)
        width = min(mine.scores.shape[1], theirs.scores.shape[1])
        scores = mine.scores[:, :width] + theirs.scores[:, :width]
        weights, errors = mine.weights + theirs.weights, mine.errors + theirs.errors
        return replace(mine, weights=weights, errors=errors, scores=scores)

    @property
    def rarest(self) -> tuple[float, float] | None:
        """Code and recall of the class with the least weight; None before there are two classes."""
        if len(self.codes) < 2:
            return None
        rare = int(self.weights.argmin())
        return float(self.codes[rare]), 1 - float(self.errors[rare] / self.weights[rare])

    @property
    def most_frequent(self) -> float:
        """Code of the class with the largest weight."""
        return float(self.codes[self.weights.argmax()])

    @property
    def auc(self) -> tuple[float, float] | None:
        """Area under the ROC curve of two classes, and its largest possible error, as logits are counted in bins.

        Each row has the probability that it was given before it was learned. None where that is not known.
        """
        if self.scores.shape != (2, N_BINS) or not self.scores.any(axis=1).all():
            return None
        negative, positive = self.scores[0, ::-1] / self.scores[0].sum(), self.scores[1] / self.scores[1].sum()
        same_bin = float(positive @ negative)
        return float(positive @ (np.cumsum(negative) - negative)) + same_bin / 2, same_bin / 2


@storable
@dataclass(frozen=True)
class Windows:
    """Sums over consecutive windows of all rows, at most 32 of them, of equal numbers of rows but for the last.

    Attributes
    ----------
    width : int
        Rows of a window.
    sums : array (6, m)
        Numbers of rows, and their weights, losses, secondary losses, and both losses of the baseline.

    >>> each = np.ones(64 * 33)
    >>> windows = Windows().plus(each, (each, each, each, each))
    >>> windows.width, windows.sums[0, [0, 1, -1]].tolist()
    (128, [128.0, 128.0, 64.0])
    """

    width: int = FIRST_WIDTH
    sums: Annotated[FloatArray, shape(6, "m")] = field(default_factory=lambda: np.empty((6, 0)))

    def plus(self, weights: FloatArray, losses: Sequence[FloatArray]) -> Windows:
        """Return the windows with further rows: their weights (n,), and the losses (n,) of each, weighted.

        These are loss and secondary loss, then those of the baseline, if there is one.
        """
        n, known = len(weights), self.sums.shape[1]
        last = int(self.sums[0, -1]) if known else self.width
        if last + n <= self.width:
            return self._with_last(weights, losses)
        is_open = last < self.width
        starts = np.arange(-last if is_open else 0, n, self.width)
        sums = np.zeros((6, known - is_open + len(starts)))
        sums[:, :known] = self.sums
        new = sums[:, known - is_open :]
        ends = np.minimum(starts + self.width, n)
        starts[0] = 0
        rows = ends - starts
        new[0] += rows
        new[1] += rows if all_ones(weights) else np.add.reduceat(weights, starts)
        for values, to in zip(losses, new[2:], strict=False):
            to += np.add.reduceat(values, starts)
        return Windows(self.width, sums).within_bounds()

    def _with_last(self, weights: FloatArray, losses: Sequence[FloatArray]) -> Windows:
        """Return the windows with further rows, all of which are in the last window."""
        n, sums = float(len(weights)), self.sums.copy()
        weight = n if all_ones(weights) else np.add.reduce(weights)
        for total, more in zip(sums, (n, weight, *map(np.add.reduce, losses)), strict=False):
            total[-1] += more
        return Windows(self.width, sums)

    def merge(self, other: Windows) -> Windows:
        """Return the windows of this one, then those of another."""
        sums = np.concatenate([self.sums, other.sums], axis=1)
        return Windows(max(self.width, other.width), sums).within_bounds()

    def within_bounds(self) -> Windows:
        """Return the same windows, joined in pairs while they are too many."""
        if self.sums.shape[1] <= MOST_WINDOWS:
            return self
        paired = np.add.reduceat(self.sums, np.arange(0, self.sums.shape[1], 2), axis=1)
        return Windows(2 * self.width, paired).within_bounds()
