"""Synthetic streams of known difficulty. Each is a pure function of its size and its seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from batch2online._types import FloatArray

ROWS = 100_000
Generated = tuple[FloatArray, FloatArray | None]


def generate(name: str, n_rows: int = ROWS, seed: int = 0) -> Generated:
    """Return rows and targets (or None) of a generator by its name.

    >>> X, y = generate("low_rank", 1000)
    >>> X.shape, y is None
    ((1000, 40), True)
    """
    if name not in GENERATORS:
        raise ValueError(f"Unknown generator {name!r}: choose one of {', '.join(GENERATORS)}.")
    if n_rows < 1:
        raise ValueError(f"n_rows must be at least 1, got {n_rows}.")
    return GENERATORS[name](n_rows, np.random.default_rng(seed))


def imbalanced_clusters(n_rows: int, rng: np.random.Generator) -> Generated:
    """Generate eight Gaussian clusters with sizes from 1 to 100. Uniform samples miss the small ones."""
    shares = np.geomspace(1, 0.01, 8)
    centers = 6 * rng.standard_normal((8, 5))
    labels = rng.choice(8, size=n_rows, p=shares / shares.sum())
    return centers[labels] + rng.standard_normal((n_rows, 5)), None


def heavy_tails(n_rows: int, rng: np.random.Generator) -> Generated:
    """Generate linear targets of ten features; features and noise have infinite fourth moments."""
    X = rng.standard_t(3, size=(n_rows, 10))
    return X, X @ np.linspace(1, 0.1, 10) + rng.standard_t(3, size=n_rows)


def low_rank(n_rows: int, rng: np.random.Generator) -> Generated:
    """Generate ten directions of decreasing variance in forty columns, plus noise."""
    basis = np.linalg.qr(rng.standard_normal((40, 10)))[0].T
    strengths = np.geomspace(5, 1, 10)
    return (rng.standard_normal((n_rows, 10)) * strengths) @ basis + 0.3 * rng.standard_normal((n_rows, 40)), None


def drift(n_rows: int, rng: np.random.Generator) -> Generated:
    """Generate linear targets with rotating coefficients: no single model is good, hindsight included."""
    X = rng.standard_normal((n_rows, 5))
    angle = np.linspace(0, np.pi, n_rows)
    coefficients = np.stack([np.cos(angle), np.sin(angle), *([np.full(n_rows, 0.5)] * 3)], axis=1)
    return X, np.einsum("ij,ij->i", X, coefficients) + 0.3 * rng.standard_normal(n_rows)


GENERATORS: dict[str, Callable[[int, np.random.Generator], Generated]] = {
    "imbalanced_clusters": imbalanced_clusters,
    "low_rank": low_rank,
    "heavy_tails": heavy_tails,
    "drift": drift,
}
TASKS = {
    "imbalanced_clusters": "clustering, lowrank",
    "low_rank": "clustering, lowrank",
    "heavy_tails": "regression",
    "drift": "regression",
}
