"""The engine as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online._types import FloatArray
from batch2online.drift.half_life_selection import MOST_DOUBTS, ROWS_PER_DECISION, HalfLifeSelection
from batch2online.drift.order_monitor import Monitor
from batch2online.drift.window import SlidingWindow
from batch2online.methods.clustering.problem import Centers, KZClustering
from batch2online.methods.clustering.sketch import Clustering
from batch2online.methods.least_squares.problem import LeastSquares, LinearModel
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.linear_losses.problem import GeneralizedLinear, LinearPredictor
from batch2online.methods.linear_losses.sketch import Anchored
from batch2online.methods.low_rank.problem import LowRank, Subspace
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.record import Record, Unscored
from batch2online.refresh import Policy
from batch2online.results import KEPT, ChangeEvent, Costs, Counts, counted
from batch2online.rows import Queue, Rows, check_ascending, check_width
from batch2online.schema import check_of, require
from batch2online.sketches.base import Construction
from batch2online.stream import RefreshState, Stream, StreamState
from batch2online.warm_up import LabelsSoFar, MeanSoFar, WarmUp

_OF_A_PROCESS = ("room", "lock", "recorder", "on_change", "_cache")
"""Attributes of a stream that no file holds."""


@check_of(Stream, {"learner": StreamState | SlidingWindow | HalfLifeSelection, "queue": Queue}, optional=_OF_A_PROCESS)
def check_stream(stream: Stream) -> None:
    sketch = stream.construction
    shape = stream.queue.width, stream.queue.columns - stream.queue.width
    require(shape == sketch.shape and stream.queue.block == sketch.block, "rows that wait are like those before.")
    check_width([stream.queue.rows(0)], *shape, sketch.largest)
    require(stream.ordered, "a file holds rows in their order.")
    require(len(stream.queue) < stream.rows_to_cut(), "as many rows wait as there is room for.")


@check_of(
    StreamState,
    {
        "problem": Any,
        "policy": Policy,
        "sketch": Construction,
        "shape": tuple[int, int],
        "refresh": RefreshState,
        "model": Any,
        "has_model": bool,
        "warm_up": WarmUp | None,
        "n_learned": int,
        "loss": float,
        "secondary_loss": float,
        "unscored": Unscored,
        "record": Record | None,
        "monitor": Monitor | None,
        "changes": tuple[ChangeEvent, ...],
        "change_counts": Counts,
        "timings": Costs,
        "max_step": int | None,
        "ordered": bool,
    },
    optional=("timings",),
)
def check_state(state: StreamState) -> None:
    sketch, refresh = state.sketch, state.refresh
    require(state.shape == sketch.shape, "all parts are as wide as the rows.")
    require(not len(sketch.queue), "rows wait in the stream alone.")
    require(sketch.n_rows <= state.n_learned, "the sketch has seen what was learned.")
    require(state.policy.start is not None and refresh.next_check > state.n_learned, "the next check is to come.")
    require(0 <= refresh.n_kept <= state.n_learned, "no more refits than rows.")
    require(state.max_step is None or state.max_step >= 1, "checks are at least a row apart.")
    counts = dict(state.change_counts)
    require(all(count > 0 for count in counts.values()), "changes are counted.")
    require(len(counts) == len(state.change_counts), "changes of a kind are counted once.")
    held = dict(counted((), *state.changes))
    require(all(held[kind] <= counts.get(kind, 0) for kind in held), "all changes are counted.")
    require(len(state.changes) == min(KEPT, sum(counts.values())), "the newest changes are held.")
    then = refresh.last_fit
    if then is not None:
        require(then[0] > 0 and 0 < then[1] < math.inf and then[2] >= 0 and then[3] >= 0, "a solve had rows.")
        require(state.max_step is None and sketch.decay is None, "all rows count.")
    require(0 <= state.unscored.rows <= state.n_learned, "rows that were not scored have come.")
    _check_record(state)
    monitor = state.monitor
    if monitor is not None:
        require((monitor.width, monitor.n_targets) == sketch.shape, "all rows are watched.")
        require(monitor.seen == state.n_learned, "the monitor has seen what was learned.")
    _check_model(state.model, state)
    _check_warm_up(state)
    _check_benefit(state)


@check_of(SlidingWindow)
def check_sliding_window(learner: SlidingWindow) -> None:
    window, state = learner.window, learner.current
    require(min(window.size, window.looks) >= 1, "a window has a size.")
    require(state.max_step == window.longest_step and state.sketch.decay is None, "checks are those of the window.")
    require(sum(map(len, window.parts)) == state.sketch.n_rows, "a window holds its rows.")
    check_width(window.parts, *state.shape, np.inf)
    check_ascending(window.parts)
    shapes = [(2, len(part)) for part in window.parts]
    require([losses.shape for losses in window.losses] == shapes, "rows of a window have their losses.")


@check_of(HalfLifeSelection)
def check_selection(learner: HalfLifeSelection) -> None:
    """Check that candidates have learned the same rows, differ, and have what they have cost."""
    require(learner.states, "there are candidates.")
    first = _learned_by(learner.current)
    require(all(_learned_by(state) == first for state in learner.states), "candidates have learned the same rows.")
    require(all(state.ordered for state in learner.states), "rows have an order.")
    scores, k = learner.scores, len(learner.states)
    require(len(set(learner.half_lives.tolist())) == k == len(scores.noted), "candidates differ.")
    shapes = scores.waiting.shape[:2], scores.sums.shape, scores.rows.shape, scores.spreads.shape
    require(
        shapes == ((2, k), (3, k), (3,), (2, k, k)) and scores.waiting.shape[2] < ROWS_PER_DECISION,
        "candidates are compared.",
    )
    require(-1 <= scores.left < k and 0 <= scores.doubts <= MOST_DOUBTS, "decisions are of these candidates.")
    numbers = scores.waiting, scores.sums, scores.rows
    require(not any(np.isnan(values).any() for values in numbers), "losses are numbers.")
    for state, reference in zip(learner.states, scores.noted, strict=True):
        if reference is not None:
            _check_model(reference, state)


def _learned_by(state: StreamState) -> tuple[Any, ...]:
    sketch = state.sketch
    return state.n_learned, sketch.n_rows, sketch.next_id, type(sketch), sketch.shape, sketch.seed


def _check_record(state: StreamState) -> None:
    """Check that rows that were scored have come, and that their spread is that of as many columns."""
    record = state.record
    if record is None:
        return
    require(record.rows <= state.n_learned, "rows that were scored have come.")
    mean = None if record.spread is None else record.spread.mean
    if mean is not None:
        problem: Any = state.problem
        values = None if problem is None else problem.spread_of(Rows.empty(state.shape[0], state.shape[1]))
        require(values is not None and values.shape[1:] == mean.shape, "a spread is that of the rows.")


def _check_benefit(state: StreamState) -> None:
    """Check that what solves have gained was measured on rows that came, under models of this problem."""
    pace = state.refresh.benefit
    if pace is None:
        return
    require(state.has_model and 0 <= pace.at <= state.n_learned, "the last solve was at a row that has come.")
    require(pace.size >= 0 <= pace.former_size and pace.magnitude >= 0, "sizes are not negative.")
    for sums in (pace.gains, pace.first, pace.recent):
        require(sums.rows >= 0 <= sums.weight and sums.squares >= 0, "sums are those of rows.")
    require(max(pace.gains.rows, pace.first.rows) <= state.n_learned, "sums are those of rows that have come.")
    if pace.former is not None:
        _check_model(pace.former, state)


def _check_warm_up(state: StreamState) -> None:
    """Check that what scores rows until the first model is that of the problem, and as wide as the rows."""
    warm_up = getattr(state, "warm_up", None)
    require(warm_up is None or not state.has_model, "the warm-up ends with the first model.")
    if isinstance(warm_up, MeanSoFar) and warm_up.first is not None:
        width = state.shape[1] if warm_up.of_targets else state.shape[0]
        require(warm_up.first.shape == (width,), "a mean is as wide as the rows.")
    if isinstance(warm_up, LabelsSoFar):
        require(state.shape[1] == 1, "a label is one target.")
    if state.problem is not None and warm_up is not None:  # that of a wrapped estimator is made later
        require(warm_up.is_like(state.problem.warm_up()), "the warm-up is that of the problem.")


def targets_of(engine: Stream) -> Iterator[FloatArray]:
    """Iterate over the targets of all rows that an engine holds, wherever they are."""
    construction, history = engine.construction, engine.construction.history
    yield engine.queue.rows(0).targets
    if isinstance(engine.model, Rows):
        yield engine.model.targets
    parts = getattr(construction, "parts", ())
    yield from (part.rows.targets[:, : engine.n_targets] for part in parts if len(part))
    yield from (rows.targets for rows in history or ())


def _check_model(model: Any, state: StreamState) -> None:
    """Check that the model, the problem and the construction are made for each other."""
    problem: Any = state.problem
    construction: Any = state.sketch
    width = state.shape[0]
    if problem is None:
        require(model is None or isinstance(model, Rows), "a model is given by its rows.")
        shape = () if model is None else (model.points.shape[1], model.targets.shape[1])
        require(shape in ((), (width, state.shape[1])) and (model is None or len(model)), "they are as wide.")
        require(model is not None or not state.has_model or model is not state.model, "there is a model.")
    elif isinstance(problem, LeastSquares):
        require(type(construction) is Leverage and type(model) is LinearModel, "all parts are those of regression.")
        require(state.shape[1] > 0, "regression has targets.")
        require(model.coefficients.shape == (state.shape[1], width), "a model has a coefficient for each column.")
    elif isinstance(problem, GeneralizedLinear):
        require(type(construction) is Anchored and type(model) is LinearPredictor, "all parts are those of a loss.")
        require(construction.loss == problem.loss, "settings agree.")
        shape = (problem.loss.n_outputs(len(model.classes)), width)
        require(model.coefficients.shape == shape, "a model has a coefficient for each column.")
        known = construction.anchors.classes if construction.anchors else ()
        require(set(model.classes) <= set(known) or not construction.n_rows, "a model knows classes of rows.")
    elif isinstance(problem, LowRank):
        require(type(construction) is RidgeLeverage and type(model) is Subspace, "all parts are those of low rank.")
        settings = (construction.rank, construction.intercept)
        require(settings == (problem.rank, problem.center), "problem and construction have the same settings.")
        require(model.components.shape == (problem.rank, width), "a subspace has its rank.")
    elif isinstance(problem, KZClustering):
        require(type(construction) is Clustering and type(model) is Centers, "all parts are those of clustering.")
        require((construction.k, construction.z) == (problem.k, problem.z), "settings agree.")
        require(model.points.shape == (problem.k, width), "there are k centers.")
