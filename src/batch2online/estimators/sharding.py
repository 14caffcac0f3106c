"""Shards: estimators of a part of the rows, to be merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from batch2online.engine.online import Online
from batch2online.engine.shard import Shard

WIDEST = 64
"""Columns up to which ``fit`` sums exactly, as shards do: for wider rows that takes most of the time."""


class Sharding:
    """The part of an estimator that learns without order."""

    first_id: Any
    random_state: Any
    _engine: Online
    _fresh: Callable[[], Self]
    __sklearn_is_fitted__: Callable[[], bool]
    _is_shard: bool = False
    _sums_exactly: bool = False
    """Whether rows are about to be learned that ``fit`` was given."""

    @property
    def _adds_up(self) -> bool:
        """Whether shards merge to the same bits whatever rows each of them has, or only for given parts."""
        return True

    def new_shard(self, first_id: int) -> Self:
        """Return an empty estimator for a part of the rows, numbered from ``first_id`` on, to be merged with others.

        A shard learns without order: it predicts no row before it learns it, and solves only when a model is asked for.
        Where the coreset is a function of the set of rows (see :meth:`merge`), shards that are merged in any order and
        by any tree give the same coreset and the same model, bit for bit. Other shards are streams, and what they merge
        to depends on them; see ``docs/cluster.md`` for what holds of which estimator.

        Examples
        --------
        >>> from batch2online import OnlineRegression
        >>> X = np.random.default_rng(0).normal(size=(1_000, 3))
        >>> model = OnlineRegression(random_state=0)
        >>> one, other = model.new_shard(0).partial_fit(X[:300], X[:300, 0]), model.new_shard(300)
        >>> merged = other.partial_fit(X[300:], X[300:, 0]).merge(one)
        >>> bool((merged.coef_ == model.new_shard(0).partial_fit(X, X[:, 0]).coef_).all())
        True
        """
        shard = self._fresh()
        shard.first_id, shard.random_state, shard._is_shard = first_id, self._seed_of_shards(), True
        return shard

    def check_ids(self, ids: Any) -> Self:
        """Raise ValueError unless the rows that a shard learns next have these ids, one after the other.

        A shard counts its rows on from ``first_id``. Where rows carry ids of their own, which a filter after the
        numbering leaves with holes, ``forget`` and the coreset would name other rows: call this with the ids of each
        batch, those of rows of weight zero left out, before the rows are learned.

        Examples
        --------
        >>> from batch2online import OnlineLowRank
        >>> shard = OnlineLowRank(1, random_state=0).new_shard(40)
        >>> shard = shard.check_ids([40, 41]).partial_fit([[1.0, 2.0], [3.0, 4.0]])
        >>> shard.check_ids([42, 44])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: Row 1 has the id 44, expected 43: rows were dropped, repeated or moved after they were numbered...
        """
        given = np.asarray(ids).reshape(-1)
        expected = self._next_id() + np.arange(len(given))
        wrong = np.flatnonzero(given != expected)
        if wrong.size:
            row = int(wrong[0])
            raise ValueError(
                f"Row {row} has the id {given[row]}, expected {expected[row]}: rows were dropped, repeated or moved "
                "after they were numbered. Number the rows after the last filter."
            )
        return self

    def _next_id(self) -> int:
        """Return the id that the next row gets."""
        if not self.__sklearn_is_fitted__():
            return int(self.first_id)
        construction = self._engine.construction
        return int(construction.next_id + len(construction.queue))

    def _seed_of_shards(self) -> int:
        if self.__sklearn_is_fitted__():
            return int(self._engine.construction.seed)
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError(f"Shards share a seed: random_state must be an integer, got {self.random_state!r}.")
        return int(self.random_state)

    def _begun(self, engine: Online) -> Online:
        """Return an engine that has seen no rows as it is, or as that of a shard."""
        if self._is_shard:
            engine._check_all_rows_count("A shard")
            return Shard.of(engine) if engine.construction.needs_no_order else engine
        if self._sums_exactly and engine.width <= WIDEST and engine.window is None and engine.contest is None:
            engine.construction.sum_exactly()
        return engine
