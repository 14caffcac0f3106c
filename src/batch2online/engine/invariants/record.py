"""What rows have cost: sums of rows that came, losses in falling order, ids that ascend."""

from __future__ import annotations

import math

import numpy as np

from batch2online.engine.unscored import Unscored
from batch2online.record import LARGEST, RECENT, Record, Spread
from batch2online.schema import check_of, require


@check_of(Spread)
def check_spread(spread: Spread) -> None:
    require(0 <= spread.weight < math.inf and not spread.squares < 0, "squares of weighted rows are not negative.")
    require((spread.mean is None) == (spread.weight == 0), "a mean is one of rows.")
    require(spread.mean is None or (spread.mean.ndim == 1 and np.isfinite(spread.mean).all()), "a mean is finite.")


@check_of(Record)
def check_record(record: Record) -> None:
    require(0 <= record.span <= RECENT and record.rows >= 0, "rows are counted.")
    require(0 <= record.weight < math.inf, "a weight is finite.")
    largest, ids = record.largest, record.largest_ids
    require(largest.ndim == 1 and largest.shape == ids.shape and len(ids) <= min(LARGEST, record.rows), "few are kept.")
    require((largest > 0).all() and (np.diff(largest) <= 0).all(), "losses are positive and fall.")
    require(len(np.unique(ids)) == len(ids), "a row is kept once.")
    recent = record.recent_ids
    require(recent.ndim == 1 and record.recent.shape == (3, len(recent)), "the last rows have their losses.")
    require(len(recent) <= min(record.span, record.rows) and (np.diff(recent) > 0).all(), "the last rows ascend.")


@check_of(Unscored)
def check_unscored(unscored: Unscored) -> None:
    require(unscored.rows >= 0 and 0 <= unscored.weight < math.inf, "rows that were not scored are counted.")
    require(all(start < stop for start, stop in unscored.intervals), "intervals of ids are not empty.")
