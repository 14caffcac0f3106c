"""Settings of one of our learners against refits on all rows: loss and changes, on the same streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from batch2online import evaluate
from benchmarks.suite.form import Form
from benchmarks.suite.study import Kept

COLUMNS = ["/ refit", "worst", "/ hindsight", "changes", "in all"]
TEXT = (
    "Random order, {seeds} seeds from {first} on, chunks of 1,000, each scored under the model before it, loss from "
    "row 1,000 on. Mean over seeds, and the worst of them; changes after that row and in all, in the worst stream."
)


def against_refits(
    settings: dict[str, Any], refit: Any, X: np.ndarray, y: np.ndarray | None, *, loss: str, form: Form, first: int
) -> Iterator[dict[str, Any]]:
    """One record a setting. The loss is summed from row ``first`` on."""
    kept = {name: Kept(model) for name, model in settings.items()}
    models = {**kept, "refit": refit}
    result = evaluate.prequential(
        models, X, y, loss=loss, seeds=form.seeds_of(5), chunk=form.chunk, warmup=min(first, len(X) // 2)
    )
    refitted = [run.loss for run in result if run.model == "refit"]
    for name, makers in kept.items():
        own = [run for run in result if run.model == name]
        ratios = [run.loss / other for run, other in zip(own, refitted, strict=True)]
        figures = [np.mean(ratios), max(ratios), np.mean([run.ratio for run in own])]
        changes = [makers.most_changes(first), makers.most_changes()]
        yield {"setting": name, **dict(zip(COLUMNS, [*map(float, figures), *changes], strict=True))}
