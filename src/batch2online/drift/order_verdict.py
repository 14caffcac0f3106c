"""What the monitor says about the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from batch2online._types import FloatArray, IntArray

_REMEDY = "the guarantee does not apply; --order random for a file, --half-life for a stream"

_BEYOND = 100
"""Evidence from here on is not told in digits."""


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
        The score that shows it most clearly, None while there is no alarm.
    rows : int
        Rows seen.
    ranked : int
        Rows that were ranked: the first ones only fix the reference model.
    scores : dict
        The evidence of each score.
    curve_rows, curve : arrays
        Row counts, and the evidence at each of them; it may fall again.
    within : str or None
        What the guarantee is limited to where old rows are let go: "a half-life" or "the window".
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
    def told(self) -> str:
        """The e-value in short; beyond any doubt there is no need for digits."""
        return f"1e{self.evidence:.0f}" if self.evidence < _BEYOND else f"beyond 1e{_BEYOND}"

    def sentence(self) -> str:
        """Return the verdict in words."""
        if self.alarm is not None:
            so = _REMEDY if self.within is None else f"the guarantee holds for rows that are alike within {self.within}"
            return f"not in random order (evidence {self.told} from row {self.alarm:,}): {so}"
        return "order looks random" if self.ranked else "too few rows to tell whether their order is random"
