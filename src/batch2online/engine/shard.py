"""The engine of a shard: rows that have ids but no order.

A shard scores no row and looks at no row count. It only adds: exact sums, and the rows that may be in the coreset.
Shards can be merged in any order and by any tree; what comes out is a function of the rows and the seed, to the last
bit, where the construction has exact sums. A model is solved when one is asked for.
"""

from __future__ import annotations

from typing import Any

from batch2online.drift.order_verdict import OrderVerdict
from batch2online.engine.online import Online
from batch2online.numerics.threads import one_thread
from batch2online.results import Regret
from batch2online.rows import Rows
from batch2online.sketches.base import Coreset
from batch2online.validation import LARGEST_ID


class Shard(Online):
    """An engine that learns without order. What is read of it is read of the ordinary engine that it stands for."""

    _known_whole: tuple[int, Online] | None = None

    @classmethod
    def of(cls, engine: Online) -> Shard:
        """Return the shard of an engine: of a new one, or of one that goes on without order."""
        engine._check_all_rows_count("A shard")
        shard = object.__new__(cls)
        shard.__dict__.update(engine.copy().__dict__)
        if engine.n_seen:
            shard.construction.sum_on()
        else:
            shard.construction.sum_exactly()
        for name in ("model", "is_solved", "monitor"):
            shard.__dict__.pop(name)
        return shard

    def copy(self) -> Shard:
        """Return an independent shard in the same state."""
        twin = super().copy()
        assert isinstance(twin, Shard)
        twin._known_whole = None
        return twin

    def rows_to_cut(self) -> int:
        """Return how many rows may wait: up to the end of the block."""
        construction = self.construction
        return int(min(construction.rows_to_block_end(), LARGEST_ID + 1 - construction.next_id))

    def _process(self, rows: Rows, owned: bool = False) -> None:
        self.construction.absorb(rows, owned)
        self.n_learned += len(rows)

    @one_thread()
    def merged(self, other: Online) -> Shard:
        """Return a shard that has also seen what another engine has; nothing is solved."""
        new, theirs = self.copy(), other.copy()
        for each in (new, theirs):
            each.construction.flush(each._process)
        new.construction.join(theirs.construction)
        new.n_learned += theirs.n_learned
        return new

    @one_thread()
    def whole(self) -> Online:
        """Return the ordinary engine of the same rows, with a model solved on all of them."""
        if self._known_whole is not None and self._known_whole[0] == self.n_seen:
            return self._known_whole[1]
        shard = self.copy()
        shard.construction.flush(shard._process)
        engine = object.__new__(Online)
        engine.__dict__.update(vars(shard))
        engine.__dict__.pop("_known_whole", None)
        engine.model, engine.is_solved = self.problem.initial(None, self.width, self.n_targets), False
        engine.forget_order()
        engine._refresh("merged")
        self._known_whole = (self.n_seen, engine)
        return engine

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: where sums are exact, no row that waits, and none that present scores rule out."""
        return super(Shard, self.compact() if self.construction.adds_up else self).__getstate__()

    def compact(self) -> Shard:
        """Return the same in which no row waits, and none is kept that present scores rule out."""
        small = self.copy()
        small.construction.flush(small._process)
        small.construction.thin()
        return small

    # -- reading --------------------------------------------------------------------------------------

    @property
    def model(self) -> Any:
        """The model of all rows."""
        return self.whole().model

    @property
    def is_solved(self) -> bool:  # type: ignore[override]
        """A model is solved when it is asked for."""
        return self.n_seen > 0

    @property
    def present_model(self) -> Any:
        """The model of all rows."""
        return self.whole().present_model

    def caught_up(self) -> Online:
        """Return the ordinary engine, in which no row waits."""
        return self.whole()

    def refreshed(self, kind: str, **details: Any) -> Any:
        """Return the ordinary engine: its model is solved afresh."""
        return self.whole()

    def coreset(self) -> Coreset:
        """Return the coreset of all rows seen."""
        return self.whole().coreset()

    def regret(self) -> Regret:
        """Return the hindsight optimum; there is no loss without an order."""
        return self.whole().regret()

    def order(self) -> OrderVerdict:
        """Return that no order was watched."""
        return self.whole().order()
