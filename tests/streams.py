"""Streams that are hard in one way each: functions of a row count and a generator, giving ``(X, y)``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Stream = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]

COEFFICIENTS = np.array([1.0, -2.0, 0.5, 3.0, 0.0])


def gaussian(n, rng):
    X = rng.normal(size=(n, 5))
    return X, X @ COEFFICIENTS + 1.0 + rng.normal(size=n)


def heavy_tailed(n, rng):
    X = rng.standard_t(2, size=(n, 5))
    return X, X @ COEFFICIENTS + 1.0 + rng.standard_t(2, size=n)


def duplicated_rows(n, rng):
    X, y = gaussian(n, rng)
    origin = rng.integers(max(1, n // 20), size=n)
    return X[origin], y[origin]


def nearly_collinear(n, rng):
    X, y = gaussian(n, rng)
    X[:, 4] = X[:, 0] + X[:, 1] + 1e-9 * X[:, 4]
    return X, y


def constant_column(n, rng):
    X, y = gaussian(n, rng)
    X[:, 2] = 7.3
    return X, y


def extreme_scales(n, rng):
    X, y = gaussian(n, rng)
    return X * np.array([1e-150, 1e-75, 1.0, 1e75, 1e150]), y


def large_means(n, rng):
    X, y = gaussian(n, rng)
    return X + 1e6, y + 1e6


def timestamps(n, rng):
    seconds = 1.7e9 + np.cumsum(rng.exponential(60.0, size=n))
    hour = seconds / 3600 % 24
    X = np.column_stack([seconds, hour, rng.normal(size=(n, 2))])
    return X, 1e-6 * (seconds - 1.7e9) + np.sin(hour) + X[:, 2] + rng.normal(size=n)


def late_feature(n, rng):
    X, y = gaussian(n, rng)
    X[: n // 2, 3] = 0.0
    return X, y


def one_giant_row(n, rng):
    X, y = gaussian(n, rng)
    X[2 * n // 3] *= 1e9
    y[2 * n // 3] *= 1e9
    return X, y


def one_hot(n, rng):
    level = rng.integers(4, size=n)
    X = np.column_stack([np.eye(4)[level], rng.normal(size=n)])
    return X, X @ COEFFICIENTS + rng.normal(size=n)


def noise_free(n, rng):
    X, _ = gaussian(n, rng)
    return X, X @ COEFFICIENTS + 1.0


def multi_output(n, rng):
    X, y = gaussian(n, rng)
    return X, np.column_stack([y, X @ COEFFICIENTS[::-1] + rng.normal(size=n)])


STREAMS: dict[str, Stream] = {
    make.__name__: make
    for make in (
        gaussian,
        heavy_tailed,
        duplicated_rows,
        nearly_collinear,
        constant_column,
        extreme_scales,
        large_means,
        timestamps,
        late_feature,
        one_giant_row,
        one_hot,
        noise_free,
        multi_output,
    )
}


def stream(name: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return STREAMS[name](n, np.random.default_rng(seed))
