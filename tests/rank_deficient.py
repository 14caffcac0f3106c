"""Streams of rows without full rank, the hardest for scores: by how much does rounding raise one that should fall?

``python rank_deficient.py 10000`` from the folder ``tests`` says it of so many streams, with ``src`` on the path.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from batch2online.methods.least_squares.moments import Moments
from batch2online.rows import Rows


def hostile_stream(seed):
    """Few distinct rows, a dependent column, one that jumps to zero, means of 10,000 spreads, any units."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 120)), int(rng.integers(3, 6))
    points = rng.normal(size=(n, d)) + rng.choice([0.0, 10.0, 1e4], p=[0.1, 0.2, 0.7])
    if rng.random() < 0.9:
        points[: rng.integers(0, n // 4), 0] = 0.0
    points = points[rng.integers(1 + n // 4, size=n)]
    points[:, -1] = points[:, 0] - 2 * points[:, d // 2]
    units = 10.0 ** rng.integers(-60, 60, size=d)
    return (points * units)[:14], bool(rng.random() < 0.8), int(rng.integers(1, 4))


def largest_rise(points, intercept, step):
    """Return the largest share by which a score rises as rows are added."""
    moments, earlier, largest = Moments.empty(points.shape[1], 0, intercept), np.empty(0), 0.0
    for start, stop in pairwise([0, *range(step, len(points), step), len(points)]):
        moments = moments.add(_rows(points[start:stop], start))
        now = moments.scores(_rows(points[:stop], 0))
        positive = earlier > 0
        largest = max(largest, float((now[:start][positive] / earlier[positive] - 1).max(initial=0.0)))
        earlier = now
    return largest


def _rows(points, start):
    n = len(points)
    return Rows(points, np.empty((n, 0)), np.ones(n), np.arange(start, start + n))


if __name__ == "__main__":
    rises = np.array([largest_rise(*hostile_stream(seed)) for seed in range(int(sys.argv[1]))])
    print(f"{len(rises):,} streams; above 1e-6: {(rises > 1e-6).sum()}, above 1e-4: {(rises > 1e-4).sum()}")
    print(f"the largest: {np.sort(rises)[::-1][:5]}, at {np.argsort(-rises)[:5]}")
