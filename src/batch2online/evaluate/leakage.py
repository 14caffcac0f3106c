"""Check that a learner does not learn from rows when it is only asked about them."""

from __future__ import annotations

from typing import Any

from batch2online.evaluate.adapters import Adapter, fresh
from batch2online.evaluate.loop import Arrivals, ask, probe_of
from batch2online.evaluate.losses import changed, loss_of
from batch2online.validation import check_rows


def peeks(model: Any, X: Any, y: Any = None, *, loss: Any, chunk: int = 1, seed: int = 0) -> bool:
    """Whether asking a learner about rows moves its model: it learns from rows before it has been handed them.

    Its answers on fixed probe rows are compared before and after each question. The forward algorithm passes: its
    prediction for a row depends on that row, as any prediction may, but the question leaves no trace.

    >>> from sklearn.linear_model import SGDRegressor
    >>> from batch2online import datasets
    >>> X, y = datasets.load_regression("diabetes")
    >>> peeks(SGDRegressor(), X, y, loss="squared", chunk=10)
    False
    """
    X = check_rows(X)
    stream, loss = Arrivals(X, y, X[:, 0], chunk, warmup=0), loss_of(loss)
    learner, probe = Adapter(fresh(model, seed)), probe_of(X)
    for rows in stream.pieces():
        before = ask(learner, loss, probe.copy())
        ask(learner, loss, stream.piece(rows)[0])
        if before is not None and changed(before, ask(learner, loss, probe.copy())):
            return True
        learner.learn(*stream.piece(rows))
    return False
