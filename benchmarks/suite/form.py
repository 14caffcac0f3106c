"""How much is measured: ``tiny`` to see that everything runs, ``quick`` in minutes, ``full`` in half an hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Form:
    name: str
    repeats: int

    def choose(self, *, tiny: T, quick: T, full: T) -> T:
        return {"tiny": tiny, "quick": quick, "full": full}[self.name]


FORMS = {form.name: form for form in (Form("tiny", 1), Form("quick", 3), Form("full", 5))}
