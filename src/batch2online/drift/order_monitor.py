"""Monitor of the order of rows: evidence against random order, which the guarantees assume, as a test martingale.

Scores of rows under a frozen reference model are ranked among those before them; bets against uniform ranks
(:mod:`~batch2online.drift.betting`) gain capital if rows are not exchangeable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import groupby, pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from batch2online import sampling
from batch2online._types import ByteArray, FloatArray, IntArray, WordArray
from batch2online.drift.betting import BINS, BLOCK, BettingCapital, ranked
from batch2online.drift.reference_model import THINNINGS, ReferenceModel, WatchedBlocks, names_of
from batch2online.observer import Observer, Scored
from batch2online.rows import Rows
from batch2online.schema import replace, shape, storable

_REMEDY = ", so the guarantee does not apply: shuffle the rows of a file, or set a half-life for a stream"

_BEYOND = 100
"""Evidence beyond this is not printed in digits."""


@dataclass(frozen=True)
class OrderVerdict:
    """Whether rows look as if they came in random order.

    Attributes
    ----------
    evidence : float
        Logarithm to base 10 of the largest e-value so far. In random order, the chance that it ever reaches e is at
        most ``10**-e``.
    alarm : int or None
        Rows seen when the evidence first reached 3; None while it has not.
    score : str or None
        The score with the largest evidence; None while there is no alarm.
    rows : int
        Rows seen.
    ranked : int
        Rows that were ranked: the first ones only fit the reference model.
    scores : dict
        The evidence of each score.
    curve_rows, curve : arrays
        Row counts, and the evidence at each of them; it may fall again.
    within : str or None
        What the guarantee is limited to where old rows are forgotten: "a half-life" or "the window".
    """

    evidence: float
    alarm: int | None
    score: str | None
    rows: int
    ranked: int
    scores: dict[str, float]
    curve_rows: IntArray = field(repr=False)
    curve: FloatArray = field(repr=False)
    within: str | None = None

    @property
    def looks_random(self) -> bool:
        """Whether there was no alarm."""
        return self.alarm is None

    @property
    def e_value(self) -> str:
        """The e-value as a short string."""
        return f"1e{self.evidence:.0f}" if self.evidence < _BEYOND else f"beyond 1e{_BEYOND}"

    def sentence(self) -> str:
        """Return the verdict in words."""
        if self.alarm is not None:
            so = (
                _REMEDY
                if self.within is None
                else f": the guarantee holds for rows that are alike within {self.within}"
            )
            return f"not in random order (evidence {self.e_value} from row {self.alarm:,}){so}"
        return "order looks random" if self.ranked else "too few rows to tell whether their order is random"


MOST_BYTES, MOST_PACKED_BYTES = 2**17, 2**21
"""Bytes of pending scores at which they are packed, and of packed ones at which bets are made on the first of them."""

MOST_PARTS = 2**4
"""Parts of scores at which they are packed."""

_TOGETHER = 2**10
"""Approximate number of rows that are packed together, at most: bets on them are made in one call."""


class IdRun(NamedTuple):
    """Rows with consecutive ids: number of the first since the fit of the reference model, its id, and the count."""

    number: int
    first_id: int
    n: int

    def is_followed_by(self, other: IdRun) -> bool:
        """Return whether both can be merged: consecutive, with the same share of watched blocks."""
        number, first_id = self.number + self.n, self.first_id + self.n
        return other.number == number and other.first_id == first_id and number not in THINNINGS


@dataclass(frozen=True)
class PendingScores:
    """Scores of watched rows on which no bets were made yet.

    Attributes
    ----------
    reference, is_first : ReferenceModel, bool
        The model that scores the rows, and whether they are its first rows.
    values : array (m, n)
        Values of the rows under the model, or the bins of their scores as bytes.
    runs : tuple of IdRun
        All rows among which these are the watched ones.
    origin, seed, total : int
        Row count at which numbers begin, the seed, and bytes of values pending so far.
    """

    reference: ReferenceModel
    is_first: bool
    values: Any
    runs: tuple[IdRun, ...]
    origin: int
    seed: int
    total: int

    @property
    def is_packed(self) -> bool:
        """Whether values are bins."""
        return bool(self.values.dtype == np.uint8)

    def bins(self) -> ByteArray:
        """Return the bins of the scores of these rows, (K, n)."""
        return self.values if self.is_packed else self.reference.bins(self.values)

    def uniforms(self) -> FloatArray:
        """Return the uniforms of rows, which break ties."""
        return sampling.uniforms_of(np.concatenate([_words(self.seed, run) for run in self.runs]))

    def ends(self) -> IntArray:
        """Return the row counts after the blocks of these rows."""
        blocks = np.unique(np.concatenate([WatchedBlocks(run.number, run.n).blocks() for run in self.runs]))
        return self.origin + BLOCK + blocks


def _words(seed: int, run: IdRun) -> WordArray:
    """Return the random draws of watched rows: drawn with those between them, which is fastest."""
    words = sampling.words(seed, sampling.ORDER, range(run.first_id, run.first_id + run.n))
    watched: WordArray = WatchedBlocks(run.number, run.n).of_values(words)
    return watched


def runs_of(number: int, ids: IntArray) -> tuple[IdRun, ...]:
    """Return the runs of consecutive ids; the first row has this number.

    >>> runs_of(100, np.array([3, 4, 5, 9]))
    (IdRun(number=100, first_id=3, n=3), IdRun(number=103, first_id=9, n=1))
    """
    if int(ids[-1] - ids[0]) == len(ids) - 1:
        return (IdRun(number, int(ids[0]), len(ids)),)
    cuts = [0, *(np.flatnonzero(np.diff(ids) != 1) + 1).tolist(), len(ids)]
    return tuple(IdRun(number + start, int(ids[start]), stop - start) for start, stop in pairwise(cuts))


def is_large(parts: tuple[PendingScores, ...]) -> bool:
    """Return whether pending scores should be packed; the last ones are not."""
    are_many = len(parts) > MOST_PARTS and not parts[-MOST_PARTS].is_packed
    return are_many or (bool(parts) and parts[-1].total > MOST_BYTES)


def packed(parts: tuple[PendingScores, ...]) -> tuple[PendingScores, ...]:
    """Return the pending scores as bins, in batches of one reference model."""
    groups = groupby(parts, key=lambda part: (part.is_packed, id(part.reference), part.seed))
    batches = (own for (is_packed, _, _), group in groups for own in (_each(group) if is_packed else _batches(group)))
    return tuple(map(_as_one, batches))


def _each(parts: Iterable[PendingScores]) -> list[list[PendingScores]]:
    return [[part] for part in parts]


def _batches(parts: Iterable[PendingScores]) -> list[list[PendingScores]]:
    """Return the parts in batches of enough rows each, except for the last."""
    batches: list[list[PendingScores]] = [[]]
    rows = 0
    for part in parts:
        batches[-1].append(part)
        rows += part.values.shape[1]
        if rows >= _TOGETHER:
            batches.append([])
            rows = 0
    return [batch for batch in batches if batch]


def _as_one(parts: list[PendingScores]) -> PendingScores:
    if parts[0].is_packed:
        return parts[0]
    bins = parts[0].reference.bins(np.concatenate([part.values for part in parts], axis=1))
    return replace(parts[0], values=bins, runs=_joined([run for part in parts for run in part.runs]), total=0)


def _joined(runs: list[IdRun]) -> tuple[IdRun, ...]:
    """Return the rows in as few runs as possible."""
    result = runs[:1]
    for run in runs[1:]:
        last = result[-1]
        if last.is_followed_by(run):
            result[-1] = last._replace(n=last.n + run.n)
        else:
            result.append(run)
    return tuple(result)


FREEZES = ((0, 600), (3600, 4800))
"""Row counts between which rows are collected for a reference model, which is current from the last of them on."""

_REFERENCES_AT = tuple(last for _, last in FREEZES)
_CUTS = (*(at for window in FREEZES for at in window), *(_REFERENCES_AT[-1] + at for at in THINNINGS))
"""Row counts at which the monitor changes how it treats rows."""

LEVEL = 1e-3
"""Maximum probability of a false alarm, ever."""

_AT_ONCE = 160 * BLOCK
_CURVE = 1.05


@storable
@dataclass(frozen=True)
class OrderMonitor(Observer):
    """Monitor of the order of rows.

    Parameters
    ----------
    width, n_targets : int
        Columns of the rows, and of their targets.
    rows, skipped : int
        Rows observed, and rows before those.
    kept : tuple of Rows
        Rows for the next reference model.
    reference : ReferenceModel or None
        The current reference model.
    counts : array (K, bins)
        Counts of each bin since then.
    buffered, uniforms : bytes (K, m), array (m,)
        Bins and uniforms of the rows of the last, incomplete block.
    capital : BettingCapital
    best : array (K,)
        The largest logarithm of each capital so far.
    alarm : int or None
        Rows seen when the first alarm was raised.
    curve_rows, curve : arrays
        Row counts that grow by a twentieth, and the logarithm of the largest capital there.
    pending : tuple of PendingScores
        Rows on which no bets were made yet.
    """

    width: int
    n_targets: int
    rows: int
    skipped: int
    kept: tuple[Rows, ...]
    reference: ReferenceModel | None
    counts: Annotated[IntArray, shape("k", BINS)]
    buffered: Annotated[ByteArray, shape("k", "m")]
    uniforms: Annotated[FloatArray, shape("m")]
    capital: BettingCapital
    best: Annotated[FloatArray, shape("k")]
    alarm: int | None
    curve_rows: Annotated[IntArray, shape("curve")]
    curve: Annotated[FloatArray, shape("curve")]
    pending: tuple[PendingScores, ...] = ()

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields of a file, after all bets."""
        monitor = self.with_bets()
        return {field.name: getattr(monitor, field.name) for field in fields(self) if field.name != "pending"}

    @classmethod
    def new(cls, width: int, n_targets: int, skipped: int = 0) -> OrderMonitor:
        """Return a monitor of rows of this shape, after ``skipped`` rows that it does not observe."""
        k = len(names_of(width, n_targets))
        return cls(
            width=width,
            n_targets=n_targets,
            rows=0,
            skipped=skipped,
            kept=(),
            reference=None,
            counts=np.zeros((k, BINS), dtype=np.int64),
            buffered=np.empty((k, 0), dtype=np.uint8),
            uniforms=np.empty(0),
            capital=BettingCapital.of(k),
            best=np.zeros(k),
            alarm=None,
            curve_rows=np.empty(0, dtype=np.int64),
            curve=np.empty(0),
        )

    def after(self, scored: Scored) -> OrderMonitor:
        """Return the monitor after these rows, without bets."""
        return self.observe(scored.problem.as_numbers(scored.rows), scored.seed)

    def settled(self) -> OrderMonitor:
        """Return the monitor with all bets made."""
        return self.with_bets()

    def emptied(self, skipped: int = 0) -> OrderMonitor:
        return self.new(self.width, self.n_targets, skipped)

    @property
    def is_alarmed(self) -> bool:
        return self.alarm is not None

    def observe(self, rows: Rows, seed: int) -> OrderMonitor:
        """Return the monitor after these rows, without bets."""
        monitor, start = self, 0
        while start < len(rows):
            cut = next((at for at in _CUTS if at > monitor.rows), self.rows + len(rows))
            stop = min(len(rows), cut - self.rows)
            monitor = monitor.observe_part(rows if stop - start == len(rows) else rows[start:stop], seed)
            start = stop
        return monitor.with_packed_scores() if is_large(monitor.pending) else monitor

    def with_packed_scores(self) -> OrderMonitor:
        """Return the monitor with packed scores, and with bets made on the first ones if they are too large even so."""
        pending = packed(self.pending)
        excess, first = sum(part.values.nbytes for part in pending) - MOST_PACKED_BYTES, 0
        while excess > 0:
            excess -= pending[first].values.nbytes
            first += 1
        return replace(self._with_bets_on(pending[:first]) if first else self, pending=pending[first:])

    def observe_part(self, rows: Rows, seed: int) -> OrderMonitor:
        """Return the monitor after rows up to the next fit of a reference model."""
        seen = self.rows + len(rows)
        changed: dict[str, Any] = {"rows": seen}
        if self.reference is not None:
            changed["pending"] = self._pending(self.reference, rows, seed)
        if any(first <= self.rows < last for first, last in FREEZES):
            own = Rows(rows.points.copy(), rows.targets.copy(), rows.weights.copy(), rows.ids.copy())
            changed["kept"] = (*self.kept, own)
            if seen in _REFERENCES_AT:
                changed |= {"reference": ReferenceModel.of(Rows.concatenate(list(changed["kept"]))), "kept": ()}
        return replace(self, **changed)

    def _pending(self, reference: ReferenceModel, rows: Rows, seed: int) -> tuple[PendingScores, ...]:
        """Return the pending scores with those of the watched ones of these rows."""
        freeze = frozen_at(self.rows)
        number = self.rows - freeze
        watched = WatchedBlocks(number, len(rows))
        if not len(watched):
            return self.pending
        with np.errstate(all="ignore"):
            values = reference.values(rows.points, rows.targets, watched)
        total = values.nbytes + (self.pending[-1].total if self.pending else 0)
        runs, origin = runs_of(number, rows.ids), freeze + self.skipped
        return (*self.pending, PendingScores(reference, number == 0, values, runs, origin, seed, total))

    def with_bets(self) -> OrderMonitor:
        """Return the monitor with bets made on all pending scores; the result is the same whenever that happens."""
        monitor = replace(self._with_bets_on(self.pending), pending=()) if self.pending else self
        return monitor.with_new_ranks() if self.rows in _REFERENCES_AT else monitor

    def _with_bets_on(self, parts: Iterable[PendingScores]) -> OrderMonitor:
        monitor = self
        for part in parts:
            monitor = (monitor.with_new_ranks() if part.is_first else monitor).bet(part)
        return monitor

    def with_new_ranks(self) -> OrderMonitor:
        """Return the monitor that ranks further rows among themselves alone."""
        return replace(self, counts=0 * self.counts, buffered=self.buffered[:, :0], uniforms=self.uniforms[:0])

    def bet(self, part: PendingScores) -> OrderMonitor:
        """Return the monitor after bets on rows that one reference model has scored; the first may complete a block."""
        bins = np.concatenate([self.buffered, part.bins()], axis=1)
        uniforms = np.concatenate([self.uniforms, part.uniforms()])
        whole, ends = len(uniforms) // BLOCK * BLOCK, part.ends()
        new = self
        for start in range(0, whole, _AT_ONCE):
            stop = min(start + _AT_ONCE, whole)
            new = new.with_blocks(bins[:, start:stop], uniforms[start:stop], ends[start // BLOCK : stop // BLOCK])
        return replace(new, buffered=bins[:, whole:].copy(), uniforms=uniforms[whole:].copy())

    def with_blocks(self, bins: ByteArray, uniforms: FloatArray, ends: IntArray) -> OrderMonitor:
        """Return the monitor after whole blocks, which end at these row counts."""
        cells, counts = ranked(bins.reshape(len(bins), -1, BLOCK), uniforms.reshape(-1, BLOCK), self.counts)
        capital, logarithms = self.capital.after(cells)
        largest = logarithms.max(axis=1)
        alarm = self.alarm
        if alarm is None and largest.max() >= self.threshold:
            alarm = int(ends[(largest >= self.threshold).argmax()])
        curve_rows, curve = self._continued(ends, largest)
        best = np.maximum(self.best, logarithms.max(axis=0))
        return replace(self, counts=counts, capital=capital, best=best, alarm=alarm, curve_rows=curve_rows, curve=curve)

    def _continued(self, ends: IntArray, largest: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the curve with the points that are due at these row counts."""
        rows, values = list(self.curve_rows), list(self.curve)
        due = rows[-1] * _CURVE if rows else 0
        while due <= ends[-1]:
            at = int(np.searchsorted(ends, due))
            rows.append(ends[at])
            values.append(largest[at])
            due = int(ends[at]) * _CURVE
        return np.array(rows, dtype=np.int64), np.array(values)

    def merge(self, other: OrderMonitor) -> OrderMonitor:
        """Return the monitor of this stream after the rows of another one were merged into it.

        It continues with its own ranks. The evidence of each counts half, so that the probability of a false alarm
        stays the same.
        """
        self, other = self.with_bets(), other.with_bets()
        if not other.capital.blocks:
            return replace(self, skipped=self.skipped + other.seen)
        best = np.maximum(self.best, other.best) - math.log(2)
        alarm = self.alarm or other.alarm if best.max() >= self.threshold else None
        capital = replace(self.capital, logarithm=self.capital.logarithm - math.log(2))
        return replace(self, best=best, alarm=alarm, capital=capital, skipped=self.skipped + other.seen)

    @property
    def seen(self) -> int:
        """Rows of the stream, with those that were skipped."""
        return self.skipped + self.rows

    def verdict(self) -> OrderVerdict:
        """Return the verdict on the order of the rows so far."""
        if self.pending:
            return self.with_bets().verdict()
        evidence = (self.best - math.log(len(self.best))) / math.log(10)
        names = names_of(self.width, self.n_targets)
        return OrderVerdict(
            evidence=float(evidence.max()),
            alarm=self.alarm,
            score=None if self.alarm is None else names[int(evidence.argmax())],
            rows=self.seen,
            ranked=BLOCK * self.capital.blocks,
            scores=dict(zip(names, evidence.tolist(), strict=True)),
            curve_rows=self.curve_rows,
            curve=(self.curve - math.log(len(self.best))) / math.log(10),
        )

    @property
    def threshold(self) -> float:
        """Logarithm of the capital at which one of the scores raises an alarm."""
        return math.log(len(self.best) / LEVEL)


def frozen_at(rows: int) -> int:
    """Return the row count at which the current reference model was made."""
    return max(last for last in _REFERENCES_AT if last <= rows)
