"""The coreset of one machine, computed on a cluster: :mod:`batch2online.distributed` with Dask as its scheduler."""

try:
    import dask  # noqa: F401  # the library, not this module
except ImportError as error:
    raise ImportError("batch2online.dask needs Dask: pip install 'batch2online[dask]'.") from error

from batch2online.distributed.dask import ClusterError, fit, partial_fit, predict
from batch2online.distributed.files import fit_files
from batch2online.distributed.shards import PartitionError

__all__ = ["ClusterError", "PartitionError", "fit", "fit_files", "partial_fit", "predict"]
