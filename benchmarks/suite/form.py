"""How much is measured: ``tiny`` to see that everything runs, ``quick`` in minutes, ``full`` in hours."""

from __future__ import annotations

import shlex
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

    def command(self, only: str = "") -> str:
        """What measures the same again.

        >>> Form("full", 5, seeds=2).command("studies/peers")
        'python -m benchmarks.suite --full --only studies/peers --seeds 2'
        """
        words = ["python -m benchmarks.suite", *([] if self.name == "quick" else [f"--{self.name}"])]
        words += [f"--only {only}"] if only else []
        words += [f"--seeds {self.seeds}"] if self.seeds else []
        words += [f"--first-seed {self.first_seed}"] if self.first_seed else []
        words += [f"--sets {' '.join(map(shlex.quote, self.sets))}"] if self.sets else []
        return " ".join(words)

    def seeds_of(self, full: int) -> list[int]:
        """Seeds of the streams of a study: so many in full, at most three in the quick form."""
        count = self.seeds or self.choose(tiny=1, quick=min(3, full), full=full)
        return list(range(self.first_seed, self.first_seed + count))

    def sets_of(self, *full: str, tiny: str) -> tuple[str, ...]:
        """Names of the data sets of a study."""
        return self.sets or self.choose(tiny=(tiny,), quick=full, full=full)

    @property
    def chunk(self) -> int:
        """Rows that a study hands over at a time."""
        return self.choose(tiny=100, quick=1_000, full=1_000)


FORMS = {form.name: form for form in (Form("tiny", 1), Form("quick", 5), Form("full", 5))}
