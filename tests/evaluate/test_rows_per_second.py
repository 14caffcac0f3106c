"""Rows a second of a comparison: all rows, in the time that a learner itself takes to predict and to learn."""

import time

import numpy as np
import pytest

from batch2online import evaluate

N, CHUNK = 600, 50
AHEAD = [0.0]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, 2.0] + RNG.normal(size=N)


class Slow:
    """Predicts a constant; each row takes so many seconds, in the time of the test."""

    def __init__(self, learning, predicting):
        self.learning, self.predicting, self.mean = learning, predicting, None

    def partial_fit(self, X, y):
        AHEAD[0] += len(X) * self.learning
        self.mean = y.mean()
        return self

    def predict(self, X):
        AHEAD[0] += len(X) * self.predicting
        return np.full(len(X), self.mean if self.mean is not None else 0.0)


@pytest.mark.parametrize("warmup", [0, CHUNK])
def test_rows_are_divided_by_the_time_of_the_learner_alone(warmup, monkeypatch):
    real = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: real() + AHEAD[0])
    times = {"learns slowly": (40.0, 10.0), "predicts slowly": (5.0, 95.0)}
    models = {name: Slow(*each) for name, each in times.items()}
    result = evaluate.prequential(models, X, Y, loss="squared", seeds=2, chunk=CHUNK, warmup=warmup)
    seconds = {name: N * learning + (N - CHUNK) * predicting for name, (learning, predicting) in times.items()}
    for row in result:  # the first chunk comes before there is a model to ask
        assert row["rows_per_second"] == pytest.approx(N / seconds[row["model"]], rel=1e-4)
    for line in result.summary():
        assert line["rows_per_second"] == pytest.approx(N / seconds[line["model"]], rel=1e-4)
