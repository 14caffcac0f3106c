"""A lower bound of average sensitivity: how well outputs with and without a row can be told apart.

A classifier that says from an output whether the row was there is right with probability at most (1 + TV) / 2. So
twice its accuracy on fresh outputs, less one, bounds the total variation from below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

from batch2online._types import FloatArray
from batch2online.evaluate.deletion import output, without

_PAIRS = 40
"""Outputs of each kind for one deleted row: half to learn from, half to be judged by."""


def accuracy_with_and_without(
    algorithm: Any, X: FloatArray, y: Any, trials: int, rng: np.random.Generator
) -> tuple[int, int]:
    """How many fresh outputs were told apart, of how many, over random deletions."""
    n_rows = max(1, trials // _PAIRS)
    deleted = rng.choice(len(X), size=min(n_rows, len(X)), replace=False)
    results = [_told_apart(algorithm, X, y, int(row), rng) for row in deleted]
    return sum(results), len(results) * _PAIRS


def _told_apart(algorithm: Any, X: FloatArray, y: Any, row: int, rng: np.random.Generator) -> int:
    labels = np.arange(2 * _PAIRS) % 2
    rows = ((X, y), without(X, y, row))
    outputs = _padded([output(algorithm, *rows[label], int(rng.integers(2**31))) for label in labels])
    classifier = ExtraTreesClassifier(100, random_state=int(rng.integers(2**31)))
    classifier.fit(outputs[:_PAIRS], labels[:_PAIRS])
    return int((classifier.predict(outputs[_PAIRS:]) == labels[_PAIRS:]).sum())


def _padded(outputs: list[FloatArray]) -> FloatArray:
    """Return outputs of different lengths (coresets) side by side, filled up with a number of their own."""
    table = np.full((len(outputs), max(len(each) for each in outputs)), -1.0)
    for line, each in zip(table, outputs, strict=True):
        line[: len(each)] = each
    return table
