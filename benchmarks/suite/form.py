"""How much is measured: ``tiny`` to see that everything runs, ``quick`` in minutes, ``full`` in hours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Form:
    """``seeds``, ``first_seed`` and ``sets``, where given, take the place of what a study would choose."""

    name: str
    repeats: int
    seeds: int | None = None
    first_seed: int = 0
    sets: tuple[str, ...] = ()

    def choose(self, *, tiny: T, quick: T, full: T) -> T:
        return {"tiny": tiny, "quick": quick, "full": full}[self.name]

    def seeds_of(self, full: int) -> list[int]:
        """Seeds of the streams of a study: one, or in full so many."""
        count = self.seeds or self.choose(tiny=1, quick=1, full=full)
        return list(range(self.first_seed, self.first_seed + count))

    def sets_of(self, *full: str, tiny: str) -> tuple[str, ...]:
        """Names of the data sets of a study."""
        return self.sets or self.choose(tiny=(tiny,), quick=full, full=full)

    @property
    def chunk(self) -> int:
        """Rows that a study hands over at a time."""
        return self.choose(tiny=100, quick=1_000, full=1_000)


FORMS = {form.name: form for form in (Form("tiny", 1), Form("quick", 5), Form("full", 5))}
