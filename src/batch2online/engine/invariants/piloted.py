"""Coresets whose rows are scored by the models in force."""

from __future__ import annotations

import math

import numpy as np

from batch2online.engine.invariants.rows import is_finite
from batch2online.methods.any_estimator.sketch import FixedScores, Piloted
from batch2online.schema import check_of, require
from batch2online.sketches.pilot_scores import Gauge


@check_of(Gauge)
def check_gauge(gauge: Gauge) -> None:
    p = gauge.frame.n_columns
    require(gauge.frame.intercept and gauge.whitening.shape in ((0, 0), (p, p)), "scores fit the rows.")
    require(gauge.classes.ndim == 1 and (np.diff(gauge.classes) > 0).all(), "classes ascend.")
    require(gauge.means.shape == gauge.totals.shape == (2,), "there are means of leverage and of gradients.")
    require(is_finite(gauge.classes, gauge.whitening, gauge.means, gauge.totals), "scores are finite.")
    require((gauge.means >= 0).all() and (gauge.totals >= 0).all(), "means are not negative.")
    require(0 < gauge.weight < math.inf and 1 <= gauge.factor < math.inf, "rows weigh something.")


@check_of(FixedScores)
def check_fixed_scores(statistics: FixedScores) -> None:
    require(statistics.rows >= 0 <= statistics.total < math.inf and statistics.size > 0, "scores are not negative.")


@check_of(
    Piloted, {"labels": bool, "leverage": bool, "gauge": Gauge | None, "largest_size": int | None, "growths": int}
)
def check_piloted(construction: Piloted) -> None:
    if construction.shape is None:
        return
    width, n_targets = construction.shape
    require(construction.growths >= 0, "counts are not negative.")
    statistics, gauge = construction.statistics, construction.gauge
    sizes = (statistics.rows, statistics.size)
    require(sizes == (construction.n_rows, construction.expected_size), "counts agree.")
    require(construction.constant == construction.expected_size, "sizes agree.")
    require(n_targets == 1 or not construction.labels, "a label is one target.")
    if gauge is not None:
        own = len(gauge.classes) if construction.labels else n_targets
        require(gauge.frame.n_columns == 1 + width + own, "scores fit the rows.")
        require(construction.labels or not len(gauge.classes), "only labels have classes.")
    for part in construction.parts:
        require(part.rows.targets.shape[1] == n_targets + 1, "rows have their scores.")
        require((part.rows.targets[:, -1] > 0).all() and is_finite(part.rows.targets[:, -1]), "scores are positive.")
    held = sum(map(len, construction.parts))
    require(not construction.is_complete or held == construction.n_rows, "all rows are kept.")
