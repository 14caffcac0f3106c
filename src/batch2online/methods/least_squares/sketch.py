"""Leverage scores: the coreset of linear regression (the paper's section 8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from batch2online._types import FloatArray
from batch2online.engine.builder import CoresetBuilder
from batch2online.methods.least_squares.few_rows import FewRows
from batch2online.methods.least_squares.moments import Moments
from batch2online.rows import Rows
from batch2online.schema import storable, stores
from batch2online.sketches.antitone import AntitoneSketch, Statistics
from batch2online.sketches.base import SketchSettings
from batch2online.sketches.summed import Summed
from batch2online.tables.strings import MISSING
from batch2online.theory.bounds import leverage_sensitivity, running_minimum_sensitivity


@storable
@dataclass(frozen=True)
class LeverageStatistics(Statistics):
    """Moments of the rows ``[1 | a | b]`` and the leverage scores they give."""

    has_cheap_bounds: ClassVar[bool] = True
    has_coarse_bounds: ClassVar[bool] = True
    moments: Moments | FewRows
    with_targets: bool
    columns: tuple[int, ...] | None = None

    def grown(self, rows: Rows) -> LeverageStatistics:
        return replace(self, moments=self.moments.add(self.read(rows)))

    def add(self, rows: Rows) -> tuple[LeverageStatistics, FloatArray]:
        new = self.grown(rows)
        return new, new.coarse_bounds(rows)

    def coarse_bounds(self, rows: Rows) -> FloatArray:
        return self.moments.whole.coarse_bounds(self.read(rows))

    @property
    def usual_coarse_bound(self) -> float:
        reference = self.moments.whole.reference
        return 0.0 if reference is None else reference.usual_coarse_bound

    def bounds(self, rows: Rows) -> FloatArray:
        return self.moments.whole.bounds(self.read(rows))

    def scaled(self, factor: float) -> LeverageStatistics:
        return replace(self, moments=self.moments.scaled(factor))

    def merged(self, other: LeverageStatistics) -> LeverageStatistics:
        return replace(self, moments=self.moments.whole.merged(other.moments.whole))

    def sharpened(self) -> LeverageStatistics:
        return replace(self, moments=self.moments.whole.sharpened())

    def scores(self, rows: Rows) -> FloatArray:
        return self.moments.whole.scores(self.read(rows), with_targets=self.with_targets)

    def scores_of_inputs(self, rows: Rows) -> FloatArray:
        """Return the leverage scores of the inputs alone."""
        return self.moments.whole.scores(self.read(rows), with_targets=False)

    def read(self, rows: Rows) -> Rows:
        """Return the columns of a table that hold numbers, with zeros for missing values; all of an array."""
        if self.columns is None:
            return rows
        points = rows.points[:, self.columns]
        points[points == MISSING] = 0.0
        return replace(rows, points=points)


@storable
@stores(statistics=Summed, intercept=bool, score_targets=bool, columns=tuple[int, ...] | None)
class LeverageSketch(AntitoneSketch):
    """Moments of the rows, and candidates by their leverage; see :class:`Leverage`.

    ``columns`` are the places of the columns of a table that hold numbers; None for all columns of an array.
    """

    takes_any_rows: ClassVar[bool] = True

    def __init__(
        self, settings: SketchSettings, intercept: bool, score_targets: bool, columns: tuple[int, ...] | None
    ) -> None:
        self.intercept, self.score_targets, self.columns = intercept, score_targets, columns
        super().__init__(settings)

    def _new_statistics(self) -> tuple[Statistics, float, int]:
        width, n_targets = self.settings.shape
        width = width if self.columns is None else len(self.columns)
        columns = width + self.intercept + (n_targets if self.score_targets else 0)
        moments = FewRows.none(width, n_targets, self.intercept)
        return Summed(LeverageStatistics(moments, self.score_targets, self.columns)), columns, columns

    @property
    def moments(self) -> Moments:
        """Moments of all rows."""
        moments: Moments = self.kept_moments.whole
        return moments

    @property
    def kept_moments(self) -> Moments | FewRows:
        """The same as they are kept: fewer rows than columns as they are."""
        moments: Moments | FewRows = self.statistics.total.moments
        return moments

    def sensitivity(self, n: int) -> float:
        settings, total = self.settings, self.settings.size / self.constant
        if self.depends_on_order:
            return running_minimum_sensitivity(n, self.constant_at(n), total, settings.epsilon, self._n_checks(n))
        return leverage_sensitivity(n, self.constant, total, settings.epsilon)

    def parameters(self) -> dict[str, object]:
        return {"intercept": self.intercept, "score_targets": self.score_targets}


@storable
@stores(intercept=bool, score_targets=bool, columns=tuple[int, ...] | None)
class Leverage(CoresetBuilder):
    r"""Rows are kept in proportion to their leverage :math:`\tau_i = m_i^T (M^T M)^{-1} m_i`.

    M holds the rows ``[1 | a | b]``: the constant column if ``intercept``, and the targets if any are
    given, so that :math:`\tau_i` is the leverage of ``a_i`` plus the share of its squared residual in the
    optimum. Scores sum to the number of columns at most and never rise as rows are added.

    Departs from the paper, which scores ``a`` alone (``score_targets=False``): one outlying residual can
    then ruin the model that is solved on the coreset.

    Parameters
    ----------
    intercept : bool, default False
        Count a constant column.
    score_targets : bool, default True
        Score the rows of ``[a | b]``, or of ``a`` alone.
    epsilon, coreset_size, random_state, first_id, keep_history
        As for every coreset.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3))
    >>> coreset = Leverage(coreset_size=500, random_state=0).add(rows).coreset()
    >>> gram = (coreset.points * coreset.weights[:, None]).T @ coreset.points
    >>> bool(np.abs(gram / 20_000 - np.eye(3)).max() < 0.15)
    True
    """

    can_adapt = True
    advice = (
        "Use fewer columns, for example those of sklearn.random_projection.SparseRandomProjection; or "
        "BatchToOnline(estimator) with coreset=coresets.Uniform, which keeps rows alone."
    )

    columns: tuple[int, ...] | None = None
    """Places of the columns of a table that hold numbers; None for all columns of an array."""

    def __init__(self, *, intercept: bool = False, score_targets: bool = True, **settings: Any) -> None:
        super().__init__(**settings)
        self.intercept = bool(intercept)
        self.score_targets = bool(score_targets)

    def _statistics_size(self, width: int, n_targets: int) -> float:
        columns = (width if self.columns is None else len(self.columns)) + n_targets + self.intercept
        return 16.0 * columns**2

    def _new_sketch(self, settings: SketchSettings) -> LeverageSketch:
        return LeverageSketch(settings, self.intercept, self.score_targets, self.columns)
