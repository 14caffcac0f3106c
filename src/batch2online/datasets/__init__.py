"""Real data sets, and synthetic streams of known difficulty."""

from batch2online.datasets.arrays import (
    CLASSIFICATION,
    REGRESSION,
    ROWS,
    load_classification,
    load_regression,
    load_rows,
)
from batch2online.datasets.synthetic import generate
from batch2online.datasets.tables import MissingPackageError, NamedTable, load_table

__all__ = [
    "CLASSIFICATION",
    "REGRESSION",
    "ROWS",
    "MissingPackageError",
    "NamedTable",
    "generate",
    "load_classification",
    "load_regression",
    "load_rows",
    "load_table",
]
