"""Array types used throughout."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]
ByteArray = NDArray[np.uint8]
RealArray = NDArray[np.floating]
"""Numbers in single or double precision."""

Seed = int | np.random.Generator | np.random.RandomState | None
"""Value of a parameter ``random_state``."""
