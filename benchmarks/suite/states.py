"""Sizes of a state along a stream. It swings between two thinnings, so the largest of a stretch counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online import storage

LOOKS = 8


def largest_states(problem: Any, columns: int, last: int, chunk: int) -> tuple[int, int]:
    """Most bytes of the state, of eight looks from half of ``last / 10`` rows up to all of them, and of ``last``."""
    rng, model = np.random.default_rng(1), problem.learner()
    looks = {
        end: {chunk * round(end * share / chunk) for share in np.linspace(0.5, 1, LOOKS)} for end in (last // 10, last)
    }
    sizes: dict[int, list[int]] = {end: [] for end in looks}
    for seen in range(chunk, last + 1, chunk):
        model.partial_fit(*(part for part in problem.draw(rng, chunk, columns) if part is not None))
        for end, at in looks.items():
            if seen in at:
                sizes[end].append(len(storage.serialise(model._state())))
    return max(sizes[last // 10]), max(sizes[last])
