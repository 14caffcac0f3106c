"""A long stream of logistic regression: speed, memory, and how far the final model is from the best of all rows."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from batch2online import OnlineClassifier
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

IS_TIMED = True
WIDTH, CHUNK = 20, 10_000
TEXT = (
    f"Synthetic rows of {WIDTH} columns in chunks of {CHUNK:,}, generated again for each pass, so that none are "
    'stored. The best model is that of `LogisticRegression(solver="newton-cholesky", tol=1e-10)` on all rows, which '
    "stores them, with the same penalty. Rows per processor second, for it those of a single fit; resident memory of "
    "the process before it."
)


def measure(form: Form) -> Iterator[Study]:
    rows = form.choose(tiny=20_000, quick=1_000_000, full=10_000_000)
    model, records = OnlineClassifier(random_state=0), []
    marks, seconds = {rows // 100, rows // 10, rows}, 0.0
    for start in range(0, rows, CHUNK):
        X, y = made(start)
        began = time.process_time()
        model.partial_fit(X, y)
        seconds += time.process_time() - began
        if start + CHUNK in marks:
            records.append({"rows": start + CHUNK, "rows/s": (start + CHUNK) / seconds, "MB": megabytes()})
    records[-1] |= compared(model, rows)
    columns = ["rows", "rows/s", "MB", "loss", "loss / best - 1", "changes", "error_", "rows/s of one fit"]
    formats = {
        "rows/s": ",.0f",
        "MB": ".0f",
        "loss": ".6f",
        "loss / best - 1": ".1e",
        "error_": ".1e",
        "rows/s of one fit": ",.0f",
    }
    yield Study("A long stream", TEXT, columns, records, formats=formats)


def made(start: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([7, start])
    X = rng.normal(size=(CHUNK, WIDTH))
    X[:, ::3] = np.abs(X[:, ::3]) ** 1.5
    eta = X @ np.linspace(-0.6, 0.6, WIDTH) - 1.0
    return X, (rng.random(CHUNK) < expit(eta)).astype(np.float64)


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def compared(model: OnlineClassifier, rows: int) -> dict[str, Any]:
    """The mean loss of the model on all rows, and how much that is above that of the fit on all rows."""
    X, y = everything(rows)
    began = time.process_time()
    best = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(X, y)
    seconds = time.process_time() - began
    own, least = mean_loss(model, rows), mean_loss(best, rows)
    changes = sum(event.at > 1_000 for event in model.changes_)
    found = {"loss": own, "loss / best - 1": own / least - 1, "changes": changes, "error_": model.error_}
    return found | {"rows/s of one fit": rows / seconds}


def everything(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows in memory."""
    X, y = np.empty((rows, WIDTH)), np.empty(rows)
    for start in range(0, rows, CHUNK):
        X[start : start + CHUNK], y[start : start + CHUNK] = made(start)
    return X, y


def mean_loss(model: Any, rows: int) -> float:
    """The mean loss of all rows, in chunks."""
    loss, theta, intercept = 0.0, model.coef_[0], model.intercept_[0]
    for start in range(0, rows, CHUNK):
        X, y = made(start)
        eta = X @ theta + intercept
        loss += float((np.logaddexp(0.0, eta) - y * eta).sum())
    return loss / rows
