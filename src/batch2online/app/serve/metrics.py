"""Figures for Prometheus; the only label is the name of the model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from batch2online.app.serve.models import ModelFolder, ServedModel

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """What ``GET /metrics`` returns, read from the models when it is asked for."""

    def __init__(self, models: ModelFolder) -> None:
        self._models, self._registry = models, CollectorRegistry()
        self._durations = Histogram(
            "batch2online_refresh_duration_seconds",
            "Duration of a call that changed the model.",
            ["model"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._registry.register(self)

    @contextmanager
    def learning(self, model: ServedModel) -> Iterator[None]:
        """Observe the duration of a call if it changes the model."""
        start, version = time.perf_counter(), model.version
        yield
        if model.version != version:
            self._durations.labels(model.name).observe(time.perf_counter() - start)

    def collect(self) -> Iterator[Metric]:
        """Yield the current figures of all models."""
        rows = CounterMetricFamily("batch2online_rows_learned", "Rows learned.", labels=["model"])
        changes = CounterMetricFamily("batch2online_model_changes", "Changes of the model.", labels=["model"])
        ratio = GaugeMetricFamily("batch2online_loss_ratio", "Loss relative to hindsight.", labels=["model"])
        order = GaugeMetricFamily(
            "batch2online_order_evidence", "Evidence (log10) against a random order of rows.", labels=["model"]
        )
        lag = GaugeMetricFamily("batch2online_consumer_lag_rows", "Pending calls.", labels=["model"])
        for model in self._models:
            labels = [model.name]
            rows.add_metric(labels, model.n_seen)
            changes.add_metric(labels, model.n_changes)
            lag.add_metric(labels, model.n_waiting)
            if model.version:
                ratio.add_metric(labels, model.regret().ratio)
                evidence = model.durable.model.order_.evidence
                order.add_metric(labels, evidence if evidence is not None else math.nan)
        yield from (rows, changes, ratio, order, lag)

    def exposition(self) -> tuple[bytes, str]:
        """Return the text that Prometheus reads, and its type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
