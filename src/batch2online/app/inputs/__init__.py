"""Tables from files, pipes and databases, a batch at a time in bounded memory, with errors that name the line.

CSV, TSV and JSON lines (also packed, also from standard input, also as they grow), Parquet and Arrow, queries of
SQLite and DuckDB. A text file is cut into blocks of whole records and pyarrow parses each block; only when it refuses
one are the lines of that block read one by one, to say which is wrong and why.
"""

from batch2online.app.inputs.batch import Batch, DataError, Remedy
from batch2online.app.inputs.layout import Layout
from batch2online.app.inputs.source import Source, open_source, open_sources, paths_of

__all__ = ["Batch", "DataError", "Layout", "Remedy", "Source", "open_source", "open_sources", "paths_of"]
