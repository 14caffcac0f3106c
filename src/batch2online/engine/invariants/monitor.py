"""The monitor of the order: counts that are those of the rows watched, shares of a capital, a model of its width."""

from __future__ import annotations

import numpy as np

from batch2online.drift.betting import BLOCK, CELLS, GAMBLERS, Capital
from batch2online.drift.order_monitor import FREEZES, Monitor
from batch2online.drift.ranks import BINS
from batch2online.drift.reference_model import COLUMNS, GRID, ReferenceModel, names_of
from batch2online.drift.sampling_plan import n_watched
from batch2online.engine.invariants.rows import check_width, is_finite
from batch2online.schema import check_of, require

_NEARLY = 1e-6


@check_of(Capital)
def check_capital(capital: Capital) -> None:
    k = len(capital.logarithm) if capital.logarithm.ndim == 1 else -1
    require(capital.blocks >= 0 and capital.shares.shape == (k, GAMBLERS), "gamblers have shares.")
    require(capital.past.ndim == 3 and capital.past.shape[1:] == (k, CELLS), "gamblers remember ranks.")
    require(is_finite(capital.shares, capital.logarithm, capital.past), "a capital is finite.")
    require((capital.shares >= 0).all() and (capital.past >= 0).all(), "nobody owes anything.")
    require((np.abs(capital.shares.sum(axis=1) - 1) < _NEARLY).all(), "shares sum to one.")


@check_of(ReferenceModel)
def check_reference_model(model: ReferenceModel) -> None:
    d, k = len(model.mean) if model.mean.ndim == 1 else -1, len(model.middles) if model.middles.ndim == 1 else -1
    require(model.scale.shape == (d,) and 1 <= d <= COLUMNS, "each column has a scale.")
    require(model.directions.ndim == 2 and len(model.directions) == d, "directions are as wide as rows.")
    along = 1 if len(model.targets) else min(3, d)
    require(model.targets.ndim == 1 and model.directions.shape[1] == along, "there are as many as there are scores.")
    require(model.ranges.shape == (k,) and model.tables.shape == (k, GRID), "each score has its bins.")
    require((model.tables < BINS).all() and (np.diff(model.tables.astype(int), axis=1) >= 0).all(), "bins ascend.")
    columns = model.columns
    require(columns is None or (columns.shape == (d,) and (np.diff(columns) > 0).all() and columns[0] >= 0), "columns.")


@check_of(Monitor)
def check_monitor(monitor: Monitor) -> None:
    require(monitor.width >= 1 and min(monitor.n_targets, monitor.rows, monitor.skipped) >= 0, "rows have columns.")
    k = len(names_of(monitor.width, monitor.n_targets))
    require(monitor.capital.logarithm.shape == monitor.best.shape == (k,), "each score has a capital.")
    require(not np.isnan(monitor.best).any(), "a capital is a number.")
    require(monitor.alarm is None or 0 < monitor.alarm <= monitor.seen, "an alarm has its row.")
    rows, values = monitor.curve_rows, monitor.curve
    require(rows.ndim == 1 and rows.shape == values.shape and is_finite(values), "a curve has its points.")
    require((np.diff(rows, prepend=0) > 0).all(), "the rows of a curve ascend.")
    _check_ranks(monitor, k)
    _check_kept(monitor)


def _check_ranks(monitor: Monitor, k: int) -> None:
    """Check that all rows since the last reference model are counted or wait."""
    model, waiting = monitor.reference, len(monitor.uniforms) if monitor.uniforms.ndim == 1 else BLOCK
    frozen = max((last for _, last in FREEZES if last <= monitor.rows), default=None)
    require((model is None) == (frozen is None), "the first rows make a reference model.")
    ranked = 0 if frozen is None else n_watched(monitor.rows - frozen)
    require(monitor.waiting.shape == (k, waiting) and waiting == ranked % BLOCK, "rows of a block wait.")
    require((monitor.waiting < BINS).all() and is_finite(monitor.uniforms), "they have bins.")
    require(((monitor.uniforms > 0) & (monitor.uniforms < 1)).all(), "uniforms are between 0 and 1.")
    require(monitor.counts.shape == (k, BINS) and (monitor.counts >= 0).all(), "bins are counted.")
    require((monitor.counts.sum(axis=1) == ranked - waiting).all(), "all rows are counted.")
    if model is not None:
        require(len(model.middles) == k and len(model.targets) == monitor.n_targets, "the model has the scores.")
        looked_at = model.columns is not None or len(model.mean) == monitor.width
        require(looked_at and (model.columns is None or model.columns[-1] < monitor.width), "the model is as wide.")


def _check_kept(monitor: Monitor) -> None:
    """Check that rows are kept for the next reference model, as many as have come."""
    expected = sum(monitor.rows - first for first, last in FREEZES if first <= monitor.rows < last)
    require(sum(map(len, monitor.kept)) == expected, "rows are kept for the next reference model.")
    check_width(monitor.kept, monitor.width, monitor.n_targets, np.inf)
