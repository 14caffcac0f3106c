"""Ten million rows of logistic regression: speed, memory, and how far the final model is from the best of all rows."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from batch2online import OnlineClassifier
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

WIDTH, CHUNK, STEPS = 20, 10_000, 2
TEXT = (
    f"Synthetic rows of {WIDTH} columns in chunks of {CHUNK:,}, made again for each pass, so that none are kept. The "
    "best model of all rows comes from Newton steps over all of them, begun at ours: what `LogisticRegression` on all "
    "rows gives, penalty included, without holding them. Rows a processor second; resident memory of the process."
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
    columns = ["rows", "rows/s", "MB", "loss", "loss / best - 1", "changes", "error_"]
    formats = {"rows/s": ",.0f", "MB": ".0f", "loss": ".6f", "loss / best - 1": ".1e", "error_": ".1e"}
    yield Study("studies", "Ten million rows of logistic regression", TEXT, columns, records, formats=formats)


def made(start: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([7, start])
    X = rng.normal(size=(CHUNK, WIDTH))
    X[:, ::3] = np.abs(X[:, ::3]) ** 1.5
    eta = X @ np.linspace(-0.6, 0.6, WIDTH) - 1.0
    return X, (rng.random(CHUNK) < expit(eta)).astype(np.float64)


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def compared(model: OnlineClassifier, rows: int) -> dict[str, Any]:
    """The mean loss of the model on all rows, and how much that is above the best one's."""
    theta = np.concatenate([model.intercept_, model.coef_[0]])
    own = None
    for _ in range(STEPS):
        loss, gradient, hessian = passed(theta, rows)
        own = loss if own is None else own
        theta = theta - np.linalg.solve(hessian, gradient)
    best = passed(theta, rows)[0]
    changes = sum(event.at > 1_000 for event in model.changes_)
    return {"loss": own, "loss / best - 1": own / best - 1, "changes": changes, "error_": model.error_}


def passed(theta: np.ndarray, rows: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean loss, gradient and Hessian of all rows, with a penalty of half the squared coefficients."""
    penalty = np.concatenate([[0.0], np.ones(WIDTH)])
    loss, gradient, hessian = 0.0, penalty * theta, np.diag(penalty)
    for start in range(0, rows, CHUNK):
        X, y = made(start)
        Z = np.column_stack([np.ones(CHUNK), X])
        eta = Z @ theta
        p = expit(eta)
        loss += float((np.logaddexp(0.0, eta) - y * eta).sum())
        gradient = gradient + Z.T @ (p - y)
        hessian = hessian + (Z * (p * (1 - p))[:, None]).T @ Z
    return loss / rows, gradient, hessian
