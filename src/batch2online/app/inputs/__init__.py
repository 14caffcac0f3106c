"""Read tables from files, pipes and databases in batches, in bounded memory, with errors that name the line.

Formats are CSV, TSV and JSON lines (also compressed, from standard input, or growing), Parquet and Arrow, and queries
of SQLite and DuckDB. A text file is split into blocks of whole records that pyarrow parses; a block that it refuses is
parsed again by a single thread, which names the row.
"""

from batch2online.app.inputs.batch import Batch, DataError, Remedy
from batch2online.app.inputs.layout import Layout
from batch2online.app.inputs.source import Source, open_source, open_sources, paths_of, source_of

__all__ = [
    "Batch",
    "DataError",
    "Layout",
    "Remedy",
    "Source",
    "open_source",
    "open_sources",
    "paths_of",
    "source_of",
]
