"""Regret over the number of rows, for the three problems and several z, k, d and epsilon, with the theory's bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from batch2online.paper.theorems import measured, slopes
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

TEXT = (
    "Rows in random order, {seeds} seeds, a new model whenever the rows have grown by a tenth. Regret after so many "
    "rows with its standard deviation; its log-log slope and its growth per e-fold over the last decade; the "
    "ε-approximate regret, its largest value over all numbers of rows, and the bound of Theorem 2 with L the largest "
    "loss in hindsight (of the regret itself where ε is auto or exact)."
)
COLUMNS = [
    "problem",
    "d",
    "k",
    "z",
    "ε",
    "rows",
    "kept",
    "regret",
    "slope",
    "per e-fold",
    "ε-regret",
    "largest",
    "bound",
]


def measure(form: Form) -> Iterator[Study]:
    seeds = form.seeds_of(5)
    rows = form.choose(tiny=1_000, quick=100_000, full=1_000_000)
    records = measured(("regret",), quick=form.name == "tiny", rows=rows, seeds=seeds)["regret"]
    lines = [line(found) for found in slopes(records)]
    yield Study("", TEXT.format(seeds=len(seeds)), COLUMNS, lines, formats={"slope": ".2f"}, curves=finite(records))


def line(found: dict[str, Any]) -> dict[str, Any]:
    number = lambda name: "none" if math.isnan(found[name]) else f"{found[name]:,.0f}"  # noqa: E731
    names = {name: f"{found[name]:g}" if found[name] != "" else "" for name in ("d", "k", "z")}
    return {
        "problem": found["problem"],
        **names,
        "ε": f"{found['epsilon']}",
        "rows": f"{found['rows']:,}",
        "kept": number("kept"),
        "regret": f"{number('regret')} ({found['regret_std']:,.0f})",
        "slope": found["slope"],
        "per e-fold": number("per_fold"),
        "ε-regret": number("approximate_regret"),
        "largest": number("largest_approximate_regret"),
        "bound": number("bound"),
    }


def finite(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records that JSON can hold: None for what is not known."""
    return [{name: None if value != value else value for name, value in record.items()} for record in records]
