"""Tables as CSV, with names quoted only where they need it."""

from __future__ import annotations

import csv
import io
from typing import IO, Any

import pyarrow.csv as arrow_csv


def write_csv(table: Any, file: IO[bytes], with_names: bool = True) -> None:
    """Append a table to a file of bytes."""
    if with_names:
        names = io.StringIO()
        csv.writer(names, lineterminator="\n").writerow(table.column_names)
        file.write(names.getvalue().encode())
    arrow_csv.write_csv(table, file, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))
