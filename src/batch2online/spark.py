"""The coreset of one machine, computed on a cluster: :mod:`batch2online.distributed` with Spark as its scheduler."""

try:
    import pyarrow  # noqa: F401  # Spark hands over rows in its format
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError("batch2online.spark needs Spark: pip install 'batch2online[spark]'.") from error

from batch2online.distributed.shards import PartitionError
from batch2online.distributed.spark import fit, partial_fit, predict

__all__ = ["PartitionError", "fit", "partial_fit", "predict"]
