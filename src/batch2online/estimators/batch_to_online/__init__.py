"""Any batch algorithm online."""

from batch2online.estimators.batch_to_online.estimator import BatchToOnline

__all__ = ["BatchToOnline"]
