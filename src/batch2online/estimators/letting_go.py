"""What estimators share that let old rows go: a window, or half-lives that compete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from batch2online.engine.contest import FEW_HALF_LIVES, HALF_LIVES, TWO_HALF_LIVES, Contest
from batch2online.engine.online import Online
from batch2online.engine.window import CHEAP_LOOKS, Window
from batch2online.methods.clustering.problem import KZClustering
from batch2online.methods.linear_losses.problem import GeneralizedLinear
from batch2online.problem import DependsOn


class LettingGo:
    """The parameters ``window`` and ``half_life="auto"`` of an estimator, where it has them."""

    half_life: Any
    window: Any

    def _let_go(self, engine: Online) -> None:
        """Make a new engine keep a window of rows, or several half-lives."""
        half_life, window = getattr(self, "half_life", None), Window.of(getattr(self, "window", None))
        if window is not None and half_life is not None:
            raise ValueError("half_life and window are two ways to let old rows go: choose one.")
        history = engine.construction.history
        if window is not None and history is not None and not history.is_in_memory:
            raise ValueError('The rows of a window are kept in memory: choose history="memory" or "coreset".')
        engine.window = replace(window, looks=CHEAP_LOOKS) if window is not None and _is_cheap(engine) else window
        if half_life == "auto":
            engine.contest = Contest.of([_rival(self, engine, each) for each in _half_lives(engine)])


def _is_cheap(engine: Online) -> bool:
    """Whether models are solved from moments."""
    return engine.problem.models_depend_on is DependsOn.ALL_ROWS and not isinstance(engine.problem, KZClustering)


def _half_lives(engine: Online) -> tuple[int, ...]:
    """Return half-lives that may compete: the more, the less a solution takes."""
    problem = engine.problem
    if _is_cheap(engine):
        return HALF_LIVES
    is_clustering = isinstance(problem, KZClustering) and not engine.construction.keep_history
    return TWO_HALF_LIVES if is_clustering or isinstance(problem, GeneralizedLinear) else FEW_HALF_LIVES


def _rival(estimator: Any, engine: Online, half_life: int) -> Online:
    """Return an engine like this one, of another half-life."""
    twin = estimator._fresh()
    twin.half_life, twin.n_features_in_ = half_life, estimator.n_features_in_
    twin.keep_history = False  # one copy of the rows is enough
    rival: Online = twin._new_engine(engine.n_targets)
    rival.construction.seed = engine.construction.seed
    rival.construction.flat_targets = engine.construction.flat_targets
    rival.problem, rival.monitor = engine.problem, None
    return rival
