"""The engine as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online._types import FloatArray, IntArray
from batch2online.drift.order_monitor import Monitor
from batch2online.engine.contest import JUDGED, MOST_DOUBTS, Contest
from batch2online.engine.online import Online
from batch2online.engine.unscored import Unscored
from batch2online.engine.window import Window
from batch2online.methods.clustering.problem import Centers, KZClustering
from batch2online.methods.clustering.sketch import Clustering
from batch2online.methods.least_squares.problem import LeastSquares, LinearModel
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.linear_losses.problem import GeneralizedLinear, LinearPredictor
from batch2online.methods.linear_losses.sketch import Anchored
from batch2online.methods.low_rank.problem import LowRank, Subspace
from batch2online.methods.low_rank.sketch import RidgeLeverage
from batch2online.record import Record
from batch2online.refresh import Policy
from batch2online.refresh.benefit import Pace
from batch2online.results import KEPT, ChangeEvent, Counts, counted
from batch2online.rows import Rows, check_ascending, check_width
from batch2online.schema import check_of, require
from batch2online.sketches.base import Construction
from batch2online.warm_up import LabelsSoFar, MeanSoFar, WarmUp


@check_of(
    Online,
    {
        "problem": Any,
        "construction": Construction,
        "policy": Policy,
        "model": Any,
        "is_solved": bool,
        "changes": tuple[ChangeEvent, ...],
        "change_counts": Counts,
        "next_refresh": int,
        "idle_solves": int,
        "solved_then": tuple[float, float, float, float] | None,
        "n_learned": int,
        "loss": float,
        "second_loss": float,
        "record": Record | None,
        "unscored": Unscored,
        "last_coreset": tuple[IntArray, FloatArray] | None,
        "width": int,
        "n_targets": int,
        "warm_up": WarmUp | None,
        "monitor": Monitor | None,
        "window": Window | None,
        "contest": Contest | None,
        "pace": Pace | None,
        "budget": float | None,
    },
    optional=(
        "change_counts",
        "idle_solves",
        "solved_then",
        "warm_up",
        "monitor",
        "window",
        "contest",
        "pace",
        "budget",
        "record",
        "unscored",
    ),
)
def check_engine(engine: Online) -> None:
    construction = engine.construction
    require((engine.width, engine.n_targets) == construction.shape, "all parts are as wide as the rows.")
    _check_following(engine)
    require(engine.policy.start is not None and engine.next_refresh > engine.n_learned, "the next refresh is to come.")
    require(0 <= engine.idle_solves <= engine.n_learned, "no more solves than rows.")
    counts = dict(engine.change_counts)
    require(all(count > 0 for count in counts.values()), "changes are counted.")
    require(len(counts) == len(engine.change_counts), "changes of a kind are counted once.")
    held = dict(counted((), *engine.changes))
    require(all(held[kind] <= counts.get(kind, 0) for kind in held), "all changes are counted.")
    require(len(engine.changes) == min(KEPT, engine.n_changes), "the newest changes are held.")
    then = engine.solved_then
    if then is not None:
        require(then[0] > 0 and 0 < then[1] < math.inf and then[2] >= 0 and then[3] >= 0, "a solve had rows.")
        require(engine.window is None and construction.decay is None, "all rows count.")
    unscored = engine.unscored.rows
    require(0 <= unscored <= engine.n_learned, "rows that were not scored have come.")
    _check_record(engine)
    require(len(construction.queue) < engine.rows_to_cut(), "as many rows wait as there is room for.")
    monitor = engine.monitor
    if monitor is not None:
        require((monitor.width, monitor.n_targets) == construction.shape, "all rows are watched.")
        require(monitor.seen == engine.n_learned, "the monitor has seen what was learned.")
    _check_model(engine.model, engine)
    _check_warm_up(engine)
    _check_pace(engine)


def _check_record(engine: Online) -> None:
    """Check that rows that were scored have come, and that their spread is that of as many columns."""
    record = engine.record
    if record is None:
        return
    require(record.rows <= engine.n_learned, "rows that were scored have come.")
    mean = None if record.spread is None else record.spread.mean
    if mean is not None:
        problem: Any = engine.problem
        values = None if problem is None else problem.spread_of(Rows.empty(engine.width, engine.n_targets))
        require(values is not None and values.shape[1:] == mean.shape, "a spread is that of the rows.")


def _check_pace(engine: Online) -> None:
    """Check that what solves have gained was measured on rows that came, under models of this problem."""
    pace = engine.pace
    if pace is None:
        return
    require(engine.is_solved and 0 <= pace.at <= engine.n_learned, "the last solve was at a row that has come.")
    require(pace.size >= 0 <= pace.former_size and pace.magnitude >= 0, "sizes are not negative.")
    for sums in (pace.gains, pace.first, pace.recent):
        require(sums.rows >= 0 <= sums.weight and sums.squares >= 0, "sums are those of rows.")
    require(max(pace.gains.rows, pace.first.rows) <= engine.n_learned, "sums are those of rows that have come.")
    if pace.former is not None:
        _check_model(pace.former, engine)


def _check_following(engine: Online) -> None:
    """Check that the construction has seen what was learned, or what the window holds, and rivals the same rows."""
    construction, window = engine.construction, engine.window
    if window is None:
        require(engine.n_learned == construction.n_rows, "the construction has seen what was learned.")
    else:
        held = sum(map(len, window.parts))
        require(min(window.size, window.looks) >= 1, "a window has a size.")
        require(held == construction.n_rows <= engine.n_learned, "a window holds its rows.")
        check_width(window.parts, engine.width, engine.n_targets, np.inf)
        check_ascending(window.parts)
        shapes = [(2, len(part)) for part in window.parts]
        require([losses.shape for losses in window.losses] == shapes, "rows of a window have their losses.")
    for rival in engine.rivals:
        require(type(rival) is Online and rival.contest is None, "rivals are engines.")
        own = (engine.n_learned, construction.next_id, type(construction), construction.shape, construction.seed)
        other = rival.construction
        theirs = (rival.n_learned, other.next_id, type(other), other.shape, other.seed)
        require(own == theirs and not len(other.queue), "rivals have learned the same rows.")
    if engine.contest is not None:
        _check_contest(engine)


def _check_contest(engine: Online) -> None:
    """Check that what half-lives have cost is there for each of them, and that no two are the same."""
    contest: Any = engine.contest
    k = len(engine.rivals) + 1
    require(len({each.half_life for each in (engine, *engine.rivals)}) == k == len(contest.noted), "rivals differ.")
    shapes = contest.waiting.shape[:2], contest.sums.shape, contest.rows.shape, contest.spreads.shape
    require(shapes == ((2, k), (3, k), (3,), (2, k, k)) and contest.waiting.shape[2] < JUDGED, "rivals are compared.")
    require(-1 <= contest.left < k and 0 <= contest.doubts <= MOST_DOUBTS, "decisions are of these rivals.")
    numbers = contest.waiting, contest.sums, contest.rows
    require(not any(np.isnan(values).any() for values in numbers), "losses are numbers.")
    for each, noted in zip((engine, *engine.rivals), contest.noted, strict=True):
        if noted is not None:
            _check_model(noted, each)


def _check_warm_up(engine: Online) -> None:
    """Check that what scores rows until the first model is that of the problem, and as wide as the rows."""
    warm_up = getattr(engine, "warm_up", None)
    require(warm_up is None or not engine.is_solved, "the warm-up ends with the first model.")
    if isinstance(warm_up, MeanSoFar) and warm_up.first is not None:
        width = engine.n_targets if warm_up.of_targets else engine.width
        require(warm_up.first.shape == (width,), "a mean is as wide as the rows.")
    if isinstance(warm_up, LabelsSoFar):
        require(engine.n_targets == 1, "a label is one target.")
    if engine.problem is not None and warm_up is not None:  # that of a wrapped estimator is made later
        require(warm_up.is_like(engine.problem.warm_up()), "the warm-up is that of the problem.")


def targets_of(engine: Online) -> Iterator[FloatArray]:
    """Iterate over the targets of all rows that an engine holds, wherever they are."""
    construction, history = engine.construction, engine.construction.history
    yield construction.queue.rows(0).targets
    if isinstance(engine.model, Rows):
        yield engine.model.targets
    parts = getattr(construction, "parts", ())
    yield from (part.rows.targets[:, : engine.n_targets] for part in parts if len(part))
    yield from (rows.targets for rows in history or ())


def _check_model(model: Any, engine: Online) -> None:
    """Check that the model, the problem and the construction are made for each other."""
    problem: Any = engine.problem
    construction: Any = engine.construction
    width = engine.width
    if problem is None:
        require(model is None or isinstance(model, Rows), "a model is given by its rows.")
        shape = () if model is None else (model.points.shape[1], model.targets.shape[1])
        require(shape in ((), (width, engine.n_targets)) and (model is None or len(model)), "they are as wide.")
        require(model is not None or not engine.is_solved or model is not engine.model, "there is a model.")
    elif isinstance(problem, LeastSquares):
        require(type(construction) is Leverage and type(model) is LinearModel, "all parts are those of regression.")
        require(engine.n_targets > 0, "regression has targets.")
        require(model.coefficients.shape == (engine.n_targets, width), "a model has a coefficient for each column.")
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
