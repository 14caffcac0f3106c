"""Rows that are drawn where they are learned: a partition is a function of its number."""

import dask.array as da
import numpy as np

COLUMNS = 10
CLUSTERS = 10
PARTITION = 250_000
NOISE = 1.0
COEFFICIENTS = np.linspace(-2, 2, COLUMNS)
CENTERS = 8.0 * np.random.default_rng(5).standard_normal((CLUSTERS, COLUMNS))


def regression(number, n):
    """Return rows [x | y] with y = x @ COEFFICIENTS + 1 + noise."""
    rows = np.random.default_rng([1, number]).standard_normal((n, COLUMNS + 1))
    rows[:, -1] = rows[:, :-1] @ COEFFICIENTS + 1.0 + NOISE * rows[:, -1]
    return rows


def clusters(number, n):
    """Return rows around the centers, each cluster twice as large as the next but one."""
    rng = np.random.default_rng([2, number])
    shares = 2.0 ** -(np.arange(CLUSTERS) // 2)
    labels = rng.choice(CLUSTERS, size=n, p=shares / shares.sum())
    return CENTERS[labels] + rng.standard_normal((n, COLUMNS))


DRAW = {"regression": regression, "clusters": clusters}


def partitions(task, start, stop, size=PARTITION):
    """Return the rows from ``start`` to ``stop`` as a Dask array: multiples of the size of a partition."""
    width = COLUMNS + (task == "regression")
    numbers = range(start // size, stop // size)

    def block(block_info=None):
        return DRAW[task](numbers[block_info[None]["chunk-location"][0]], size)

    return da.map_blocks(block, chunks=((size,) * len(numbers), (width,)), dtype=np.float64)
