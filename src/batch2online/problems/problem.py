"""What a batch problem is to the engine."""

from __future__ import annotations

from typing import Any, Protocol

from batch2online._types import FloatArray


class Problem(Protocol):
    """A batch problem: what a model is, what it costs, and how to solve for one."""

    def first_refresh(self, width: int, n_targets: int) -> int:
        """Rows after which the problem can be posed."""

    def initial(self, first: FloatArray, n_targets: int) -> Any:
        """The simplest model, in force until the first refresh, given the first row (zero while there is none)."""

    def losses(self, model: Any, points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The loss of each row, and the same without the square, as the paper writes it."""

    def solve(self, construction: Any, current: Any) -> Any:
        """The batch algorithm, run on the coreset."""

    def cost(self, model: Any, construction: Any) -> float:
        """Total loss on all rows seen: exact, or measured on the coreset."""

    def lower_bound(self, construction: Any) -> float:
        """A bound that no model's cost is below; 0 where nothing better is known."""

    def optimum(self, construction: Any, model: Any) -> float:
        """The hindsight optimum on all rows seen, or the best that is known."""

    def difference(self, old: Any, new: Any, construction: Any) -> dict[str, Any]:
        """How far the model has moved, as fields of a :class:`ChangeEvent`: ``magnitude`` at least."""

    def same(self, old: Any, new: Any) -> bool:
        """Whether two models are identical."""
