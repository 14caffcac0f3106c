"""Physical limits: what no method that looks at every row once, and does its arithmetic, can be faster than."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def read(X: np.ndarray, chunk: int) -> None:
    """Every number is read once and hardly anything done with it."""
    for rows in _chunks(X, chunk):
        flat = rows.reshape(-1)
        np.dot(flat, flat)


def gram(X: np.ndarray, chunk: int) -> None:
    """``X.T @ X``, chunk by chunk."""
    for rows in _chunks(X, chunk):
        rows.T @ rows


def distances(X: np.ndarray, k: int, chunk: int) -> None:
    """The nearest of k centers of every row."""
    centers = X[:k].copy()
    norms = np.square(centers).sum(axis=1)
    for rows in _chunks(X, chunk):
        squared = rows @ centers.T
        squared *= -2
        squared += norms
        squared.argmin(axis=1)


def _chunks(X: np.ndarray, chunk: int) -> Iterator[np.ndarray]:
    return (X[start : start + chunk] for start in range(0, len(X), chunk))
