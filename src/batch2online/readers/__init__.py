"""Tables from files and streams, a batch at a time in bounded memory, with errors that name the line.

CSV, TSV and JSON lines (also gzipped, also from standard input), Parquet and Arrow. A text file is cut into
blocks of whole lines and pyarrow parses each block; only when it refuses one are the lines of that block read
one by one, to say which is wrong and why. So a row is a line, and a quoted value must end on its line.
"""

from batch2online.readers.batch import Batch, DataError, Kind, Remedy
from batch2online.readers.source import Source, open_source

__all__ = ["Batch", "DataError", "Kind", "Remedy", "Source", "open_source"]
