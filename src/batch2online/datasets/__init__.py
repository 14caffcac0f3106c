"""Real data sets, and synthetic streams of known difficulty."""

from batch2online.datasets.real import (
    CLASSIFICATION,
    POSITIVE,
    REGRESSION,
    ROWS,
    MissingPackageError,
    load_classification,
    load_positive,
    load_regression,
    load_rows,
)
from batch2online.datasets.synthetic import generate
from batch2online.datasets.tables import NamedTable, load_table

__all__ = [
    "CLASSIFICATION",
    "POSITIVE",
    "REGRESSION",
    "ROWS",
    "MissingPackageError",
    "NamedTable",
    "generate",
    "load_classification",
    "load_positive",
    "load_regression",
    "load_rows",
    "load_table",
]
