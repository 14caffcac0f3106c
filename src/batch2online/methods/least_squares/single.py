r"""Bounds of scores in single precision, at half the price: what rounding may take away is added.

The score of a row z is at most :math:`|w|^2`, :math:`w = D^T z` with a triangular D. Single precision gives
:math:`\hat w` with :math:`|\hat w - w| \le \gamma\,|D|^T |z|`, and :math:`z = D^{-T} w`. So the error is at most
:math:`\delta |w|`, :math:`\delta = \gamma \| |D|^T |D^{-T}| \|_F`, and :math:`|w| \le |\hat w| / (1 - \delta)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas

from batch2online._types import FloatArray
from batch2online.numerics.scratch import scratch
from batch2online.numerics.triangular import inverse

_UNIT = 2.0**-24
_MOST = 0.1
"""Share that rounding may take away, at most; more where columns all but depend on each other."""


@dataclass(frozen=True)
class SinglePrecision:
    """The rows of D are ``scales`` times those of ``directions``, which are single and of order one."""

    scales: FloatArray
    directions: Any
    factor: float

    @classmethod
    def of(cls, directions: FloatArray) -> SinglePrecision | None:
        """Return the same form as an upper triangular D in double precision; None where too many digits are lost."""
        p, scales = len(directions), np.abs(directions).max(axis=1, initial=0.0)
        if np.tril(directions, -1).any():
            return None
        unit = directions / np.where(scales > 0, scales, 1.0)[:, None]
        gamma = 1.01 * (p + 3) * _UNIT
        lost = gamma * float(np.linalg.norm(np.abs(inverse(unit)) @ np.abs(unit)))
        if not lost <= _MOST:
            return None
        return cls(scales, np.asfortranarray(unit, dtype=np.float32), (1 + 2 * gamma) / (1 - lost) ** 2)

    def bounds(self, n: int, parts: Iterable[tuple[Any, FloatArray]]) -> FloatArray:
        """Return upper bounds of the scores of n rows z, given as columns and what stands there."""
        z = scratch.room("single precision", (n, len(self.scales)), np.float32)
        with np.errstate(all="ignore"):
            for columns, values in parts:
                if isinstance(columns, slice):
                    np.multiply(values, self.scales[columns], out=z[:, columns], casting="same_kind")
                else:  # few
                    z[:, columns] = values * self.scales[columns]
            white = blas.strmm(1.0, self.directions, z.T, trans_a=1, overwrite_b=1).T
            np.multiply(white, white, out=white)
            found = white @ np.full(len(self.scales), self.factor, dtype=np.float32)
        found[np.isnan(found)] = np.inf  # numbers that single precision does not have
        return np.asarray(found, dtype=np.float64)
