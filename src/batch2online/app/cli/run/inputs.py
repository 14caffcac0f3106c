"""The input of a run: files, standard input, a query, or a built-in data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batch2online.app.cli.run.dataset import open_dataset
from batch2online.app.cli.run.stream import About, PreparedStream, open_stream
from batch2online.app.cli.tasks.base import Task
from batch2online.app.inputs import DataError, open_sources, paths_of
from batch2online.app.inputs.preparation import Preparation


@dataclass(frozen=True)
class Input:
    """Prepared rows, what errors call them, and what is known of them."""

    name: str
    stream: PreparedStream
    about: About


def open_input(
    paths: Sequence[str],
    dataset: str | None,
    task: Task,
    waiting: Mapping[str, Any] | None = None,
    known: Preparation | None = None,
) -> Input:
    """Return the prepared rows of files or of a named data set; ``known`` says how, if that is decided already."""
    if bool(paths) == (dataset is not None):
        raise DataError("Name one input: a FILE (- for standard input) or --dataset NAME.")
    if dataset is not None:
        source, about = open_dataset(dataset, task)
        return Input(dataset, open_stream(source, dataset, task, known, about), about)
    layout = task.settings.layout(**(waiting or {}), kinds={} if known is None else known.column_kinds)
    opened = open_sources(paths_of(paths), layout)
    return Input(opened.name, open_stream(opened, opened.name, task, known), About())
