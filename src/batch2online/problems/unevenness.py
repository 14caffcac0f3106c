r"""How much noisier a fresh model is than its degrees of freedom tell.

A model solved on n rows of leverages :math:`\tau_i` and losses :math:`l_i` costs others like them about
:math:`\sum_i \tau_i l_i` more than the best one, to first order and whatever the law of the losses. Leverages sum to
the p degrees of freedom, so that is p mean losses where leverage and loss have nothing to do with each other, and more
where rows that are far out cost more. The sum is estimated on the coreset.
"""

from __future__ import annotations

import numpy as np

from batch2online._types import FloatArray


def unevenness_of(leverages: FloatArray, losses: FloatArray, weights: FloatArray, alike: float) -> float:
    """Return the factor, at least 1, given what the sum would be for rows alike.

    >>> unevenness_of(np.array([0.1, 0.3]), np.array([1.0, 4.0]), np.array([2.0, 1.0]), alike=0.7)
    2.0
    """
    if not alike > 0:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        factor = float(weights @ (leverages * losses)) / alike
    return factor if factor > 1 else 1.0
