"""The coreset of one machine, computed on a cluster: :mod:`batch2online.distributed` with Dask as its scheduler."""

try:
    import dask  # noqa: F401  # the library, not this module
except ImportError as error:
    raise ImportError("batch2online.dask needs Dask: pip install 'batch2online[dask]'.") from error

from batch2online.distributed.files import fit_files
from batch2online.distributed.fitting import fit, partial_fit
from batch2online.distributed.predicting import predict

__all__ = ["fit", "fit_files", "partial_fit", "predict"]
