"""Real data sets, and synthetic streams of a known difficulty."""

from batch2online.datasets.real import REGRESSION, ROWS, MissingPackageError, load_regression, load_rows
from batch2online.datasets.synthetic import generate
from batch2online.datasets.tables import NamedTable, load_table

__all__ = [
    "REGRESSION",
    "ROWS",
    "MissingPackageError",
    "NamedTable",
    "generate",
    "load_regression",
    "load_rows",
    "load_table",
]
