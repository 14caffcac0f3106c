"""Prequential evaluation: every learner on the same streams, against the best model in hindsight."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TextIO, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from batch2online._types import FloatArray
from batch2online.evaluate.adapters import fresh
from batch2online.evaluate.loop import Arrivals, peak_memory, run
from batch2online.evaluate.losses import Loss, loss_of
from batch2online.evaluate.orders import Order, order_of
from batch2online.evaluate.result import Curve, Outcome, Result
from batch2online.validation import check_rows

Item = TypeVar("Item")
_WIDTH = 30


def run_all(tasks: Sequence[Callable[[], Item]], jobs: int, label: str | None) -> list[Item]:
    """Return the results of tasks that are spread over processes, one thread each; a label shows a progress bar."""
    finished = Parallel(n_jobs=jobs, return_as="generator")(delayed(_on_one_thread)(task) for task in tasks)
    return list(ProgressBar(finished, len(tasks), label) if label else finished)


def _on_one_thread(task: Callable[[], Item]) -> Item:
    """Rates can be compared, and small chunks do not wait for threads."""
    with threadpool_limits(1):
        return task()


class ProgressBar(Generic[Item]):
    """Progress bar: passes items on and shows their number and the time left.

    On a terminal one line is redrawn; elsewhere a line is written at the end only.
    """

    def __init__(self, items: Iterable[Item], total: int, label: str, stream: TextIO | None = None) -> None:
        self.items, self.total, self.label = items, max(total, 1), label
        self.stream = sys.stderr if stream is None else stream

    def __iter__(self) -> Iterator[Item]:
        started = time.perf_counter()
        for done, item in enumerate(self.items, start=1):
            yield item
            self._show(done, time.perf_counter() - started)

    def _show(self, done: int, seconds: float) -> None:
        is_last = done == self.total
        if not (is_last or self.stream.isatty()):
            return
        filled = _WIDTH * done // self.total
        left = f"{seconds:.1f} s" if is_last else f"{seconds * (self.total - done) / done:.0f} s left"
        line = f"{self.label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{self.total}, {left}"
        start = "\r" if self.stream.isatty() else ""
        self.stream.write(f"{start}{line:<78}{chr(10) if is_last else ''}")
        self.stream.flush()


def prequential(
    models: Mapping[str, object],
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: object,
    order: Order | str | ArrayLike = "random",
    seeds: int | Iterable[int] = 5,
    chunk: int = 1,
    warmup: int = 0,
    memory: bool = False,
    jobs: int = 1,
    progress: bool = False,
) -> Result:
    r"""Loss, regret and model changes of online learners on one data set.

    Row t is scored under the model :math:`\theta_t` computed from the rows before it (before its chunk):
    loss :math:`\sum_t \ell(\theta_t, x_t)`, optimum :math:`\min_\theta \sum_t \ell(\theta, x_t)`, computed once.

    Parameters
    ----------
    models : dict of names to learners
        Anything with ``partial_fit`` or ``learn_one``: estimators of this package, scikit-learn, River, your own; or a
        class or function that makes one. They are copied, never touched; ``random_state`` or ``seed`` is set.
    X : (n, d) array
        The rows.
    y : (n,) or (n, k) array
        The targets, for regression.
    loss : {"squared", "absolute", "clustering", "kmedian", "lowrank", "pca"}, ("kmeans", z), Loss or function
        A function takes targets and predictions and gives a loss for each row; its hindsight is unknown, unless it is
        given as ``Predictions(function, best=estimator)``, the fit of an estimator to all rows.
    order : {"random", "given", "sorted", "drifting", "adversarial", "blocks"}, Order or array of row numbers
        A random order is ``numpy.random.default_rng(seed).permutation(n)``.
    seeds : int or iterable of int
        How many streams, or their seeds.
    chunk : int
        Rows handed over at a time; all of them are scored under the model before the chunk.
    warmup : int
        Rows at the start that are learned but not scored, neither here nor in hindsight.
    memory : bool
        Also measure the peak memory of each learner, in a further pass.
    jobs : int
        Processes over which the runs are spread; each uses one thread.
    progress : bool
        Show a bar on standard error.

    Returns
    -------
    Result
        ``rows``, ``curves``, ``to_frame()``, ``plot()``, ``to_json()``.

    Examples
    --------
    >>> from batch2online import OnlineRegression, datasets
    >>> from sklearn.linear_model import SGDRegressor
    >>> X, y = datasets.load_regression("diabetes")
    >>> models = {"ours": OnlineRegression(), "SGD": SGDRegressor()}
    >>> result = prequential(models, X, y, loss="squared", seeds=2, chunk=10)
    >>> [(run.model, run.seed, run.changes > 20) for run in result.rows]
    [('ours', 0, False), ('SGD', 0, True), ('ours', 1, False), ('SGD', 1, True)]
    """
    X, y = check_rows(X), _checked_targets(y, X)
    bound = _bound_losses(models, loss_of(loss))
    with threadpool_limits(1):
        hindsight = {each: each.hindsight(X, y) for each in dict.fromkeys(bound.values())}
    order, seeds = order_of(order), _seeds(seeds)
    _check_counts(chunk, warmup, len(X))
    tasks = [
        partial(_run_one, name, model, seed, bound[name], X, y, hindsight, order, chunk, warmup, memory)
        for seed in seeds
        for name, model in models.items()
    ]
    pairs = run_all(tasks, jobs, "prequential" if progress else None)
    settings = {"loss": repr(loss), "order": repr(order), "chunk": chunk, "warmup": warmup}
    settings |= {"rows": len(X), "columns": X.shape[1], "seeds": seeds}
    return Result(tuple(run for run, _ in pairs), tuple(curve for _, curve in pairs), settings)


def _run_one(
    name: str,
    model: object,
    seed: int,
    loss: Loss,
    X: FloatArray,
    y: FloatArray | None,
    hindsight: dict[Loss, FloatArray],
    order: Order,
    chunk: int,
    warmup: int,
    memory: bool,
) -> tuple[Outcome, Curve]:
    hardness = next(iter(hindsight.values()))  # one order for all learners of a seed
    rows = order.permutation(X, hardness, np.random.default_rng(seed))
    stream = Arrivals(X[rows], None if y is None else y[rows], hindsight[loss][rows], chunk, warmup)
    record, curve = run(name, seed, fresh(model, seed), loss, stream)
    if memory:
        record = replace(record, peak_memory=peak_memory(fresh(model, seed), loss, stream))
    return record, curve


def _bound_losses(models: Mapping[str, object], loss: Loss) -> dict[str, Loss]:
    if not models:
        raise ValueError("models is empty: name at least one learner.")
    return {name: loss.bound_to(fresh(model, 0)) for name, model in models.items()}


def _checked_targets(y: ArrayLike | None, X: FloatArray) -> FloatArray | None:
    if y is None:
        return None
    y = np.asarray(y)
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows and y has {len(y)}: found inconsistent numbers of samples.")
    return np.asarray(y, dtype=np.float64) if y.dtype.kind in "iub" else y


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    chosen = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not chosen:
        raise ValueError("seeds is empty: ask for at least one stream.")
    return chosen


def _check_counts(chunk: int, warmup: int, n: int) -> None:
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}.")
    if not 0 <= warmup < n:
        raise ValueError(f"warmup must leave some of the {n} rows to be scored, got {warmup}.")
