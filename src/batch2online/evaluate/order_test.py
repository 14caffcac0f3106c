"""Whether rows come in random order, asked of the rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online.drift.order_monitor import Monitor
from batch2online.drift.order_verdict import OrderVerdict
from batch2online.numerics.threads import one_thread
from batch2online.rows import Rows, block_rows, ones
from batch2online.sampling import seed_from
from batch2online.validation import check_rows, check_targets


def order_test(X: Any, y: Any = None, *, random_state: Any = 0) -> OrderVerdict:
    r"""Test whether rows come in random order; of rows that do, at most one stream in a thousand is called otherwise.

    The rows are scored under a model of the first 600 of them (and from row 4,800 on, of later ones), and each score is
    ranked among those before it. In random order, ranks are independent and uniform. Bets against that multiply an
    e-value; the chance that it ever reaches :math:`10^e` is at most :math:`10^{-e}`, however many rows come and however
    often one looks.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The rows, in the order in which they come.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Targets, or labels of any kind.
    random_state : None, int or generator
        Breaks ties.

    Returns
    -------
    OrderVerdict
        ``evidence`` (logarithm to base 10 of the e-value), ``alarm`` (row or None), ``score``, ``sentence()``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> order_test(X).sentence()
    'order looks random'
    >>> X[2500:] += 0.5
    >>> verdict = order_test(X)
    >>> 2500 < verdict.alarm < 2800, 'coordinate' in verdict.score
    (True, True)
    """
    points, targets = check_rows(X), check_targets(_numbers(y), len(X))
    seed, monitor = seed_from(random_state), Monitor.new(points.shape[1], targets.shape[1])
    step = block_rows(points.shape[1])
    with one_thread():
        for start in range(0, len(points), step):
            part = slice(start, min(start + step, len(points)))
            ids = np.arange(part.start, part.stop)
            monitor = monitor.after(Rows(points[part], targets[part], ones(len(ids)), ids), seed)
    return monitor.verdict()


def _numbers(y: Any) -> Any:
    """Return targets as numbers: labels by their place among all labels, which the order of rows does not change."""
    if y is None:
        return None
    values = np.asarray(y)
    return values if values.dtype.kind in "biuf" else np.unique(values, return_inverse=True)[1].reshape(values.shape)
