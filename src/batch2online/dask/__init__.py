"""The same coreset and the same model on a cluster: Dask schedules, shards merge.

``fit`` and ``partial_fit`` take Dask arrays, Dask DataFrames and lists of delayed chunks, ``fit_files`` files;
``predict`` is lazy. Whatever the partitions, the number of workers and the failures on the way, the result has the same
bits.
"""

try:
    import dask  # noqa: F401  # the library, not this package
except ImportError as error:
    raise ImportError("batch2online.dask needs Dask: pip install 'batch2online[dask]'.") from error

from batch2online.dask.files import fit_files
from batch2online.dask.fitting import fit, partial_fit
from batch2online.dask.predicting import predict

__all__ = ["fit", "fit_files", "partial_fit", "predict"]
