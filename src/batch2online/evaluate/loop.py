"""One pass over one stream: predict, score, learn, compare models."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from batch2online._types import FloatArray, IntArray
from batch2online.evaluate.adapters import Adapter, NotOfferedError, fresh
from batch2online.evaluate.losses import Loss, changed, loss_of
from batch2online.evaluate.result import Curve, Outcome
from batch2online.validation import check_rows

_CURVE = 100
_PROBE = 256


@dataclass(frozen=True)
class Arrivals:
    """Rows in order of arrival, their losses in hindsight, and how they are dealt out."""

    X: FloatArray
    y: FloatArray | None
    hindsight: FloatArray
    chunk: int
    warmup: int

    def pieces(self) -> list[slice]:
        n = len(self.X)
        return [slice(start, min(start + self.chunk, n)) for start in range(0, n, self.chunk)]

    def piece(self, rows: slice) -> tuple[FloatArray, FloatArray | None]:
        """Return copies: a learner may keep or overwrite its rows."""
        return self.X[rows].copy(), None if self.y is None else self.y[rows].copy()

    @property
    def probe(self) -> FloatArray:
        """Rows spread over the stream, on which the answers of successive models are compared."""
        return probe_of(self.X)


def probe_of(X: FloatArray) -> FloatArray:
    """Up to 256 rows spread over the table."""
    return np.asarray(X[np.linspace(0, len(X) - 1, min(_PROBE, len(X))).astype(int)])


def ask(learner: Adapter, loss: Loss, X: FloatArray) -> Any:
    """Return the learner's answer, or None while it has no model yet."""
    if not learner.has_model:
        return None
    try:
        return loss.answer(learner, X)
    except (NotOfferedError, NotFittedError):
        return None


@dataclass
class Watch:
    """Counts the changes of a model as they are seen from outside, chunk by chunk, and how far it moved.

    All learners are counted alike: the model after a scored chunk against that before it. The first model does not
    count. A learner that counts its own changes is not asked again while that count stands still.
    """

    loss: Loss
    probe: FloatArray
    churn: float = 0.0
    changes: int = 0
    _answer: Any = None
    _own: int | None = None

    @property
    def has_answer(self) -> bool:
        return self._answer is not None

    def observe(self, learner: Adapter, is_scored: bool) -> None:
        own = learner.own_changes
        if self.has_answer and own is not None and own == self._own:
            return
        answer = ask(learner, self.loss, self.probe.copy())
        if answer is None:
            return
        if is_scored and self.has_answer and self.loss.differ(self._answer, answer):
            self.changes += 1
            self.churn += self.loss.movement(self._answer, answer, self.probe)
        self._answer, self._own = answer, own


@dataclass
class Clock:
    """Time spent in the learner alone."""

    seconds: float = 0.0
    _started: float = field(default=0.0, repr=False)

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started


def run(name: str, seed: int, model: Any, loss: Loss, stream: Arrivals) -> tuple[Outcome, Curve]:
    """Deal the stream out to a fresh model. Rows are scored under the answer given before they were handed over."""
    learner, watch, clock = Adapter(model), Watch(loss, stream.probe), Clock()
    losses, without_model, changes = np.empty(len(stream.X)), np.zeros(len(stream.X), dtype=np.bool_), []
    for rows in stream.pieces():
        asked, _ = stream.piece(rows)
        with clock:
            answer = ask(learner, loss, asked)
        if answer is None:
            without_model[rows] = True
        else:
            losses[rows] = loss.losses(answer, stream.X[rows], None if stream.y is None else stream.y[rows])
        with clock:
            learner.learn(*stream.piece(rows))
        watch.observe(learner, is_scored=rows.stop > stream.warmup)
        changes.append(watch.changes)
    if not watch.has_answer:
        loss.answer(learner, stream.probe)  # raises the error that explains why there never was one
    if without_model.any():
        few = slice(1 + int(np.flatnonzero(without_model)[-1]))
        earlier = loss.before_model(stream.X[few], None if stream.y is None else stream.y[few])
        losses[without_model] = earlier[without_model[few]]
    return _summary(name, seed, stream, losses, clock, watch), curve_of(name, seed, stream, losses, np.array(changes))


def _summary(name: str, seed: int, stream: Arrivals, losses: FloatArray, clock: Clock, watch: Watch) -> Outcome:
    return Outcome(
        model=name,
        seed=seed,
        loss=math.fsum(losses[stream.warmup :]),
        optimum=math.fsum(stream.hindsight[stream.warmup :]),
        changes=watch.changes,
        churn=watch.churn,
        rows_per_second=len(losses) / max(clock.seconds, 1e-9),
    )


def curve_of(name: str, seed: int, stream: Arrivals, losses: FloatArray, changes: IntArray) -> Curve:
    """Return sums of row losses from the end of the warm-up on, with the changes counted after each chunk."""
    ends = thinned(len(losses), stream.chunk)
    ends = ends[ends > stream.warmup]
    total, best = (np.cumsum(values[stream.warmup :]) for values in (losses, stream.hindsight))
    scored = ends - stream.warmup - 1
    return Curve(name, seed, ends, total[scored], best[scored], changes[-(-ends // stream.chunk) - 1])


def thinned(n: int, chunk: int) -> IntArray:
    """Return the ends of chunks at which a curve is kept: a hundred evenly spread, a hundred by logarithm."""
    wanted = np.concatenate([np.linspace(1, n, _CURVE), np.geomspace(1, n, _CURVE)])
    return np.unique(np.minimum(n, np.ceil(wanted / chunk).astype(np.int64) * chunk))


def fed(model: Any, X: FloatArray, y: FloatArray | None, ends: Iterable[int]) -> Iterator[Any]:
    """Yield an estimator of this package after each of these row counts; its results do not depend on chunks."""
    start = 0
    for end in ends:
        yield model.partial_fit(X[start:end], *(() if y is None else (y[start:end],)))
        start = end


def peak_memory(model: Any, loss: Loss, stream: Arrivals) -> int:
    """Most bytes that the learner held at once, above what there was; a pass of its own, since tracing is slow."""
    learner = Adapter(model)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for rows in stream.pieces():
            ask(learner, loss, stream.X[rows])
            learner.learn(*stream.piece(rows))
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def peeks(model: Any, X: Any, y: Any = None, *, loss: Any, chunk: int = 1, seed: int = 0) -> bool:
    """Whether ``predict`` changes the model of a learner, which then learns from rows before it receives them.

    Its predictions on fixed probe rows are compared before and after each call. The forward algorithm passes: its
    prediction depends on the row, but the call leaves no trace.

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
