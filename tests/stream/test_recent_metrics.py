"""Metrics of the last rows: each row counts by its weight, under the model just before it was learned."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, root_mean_squared_error

import batch2online
from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression

N, LAST = 330, 120
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3)) * [1.0, 2.0, 3.0]
Y = 5 + X @ [1.0, 2.0, 3.0] + RNG.normal(size=N) * np.linspace(4, 1, N)
LABELS = np.where(Y + RNG.normal(size=N) > 5, "yes", "no")
WEIGHTS = 10 ** RNG.uniform(-1, 1, size=N)


def errors_of_numbers(y, found, w):
    return {"RMSE": root_mean_squared_error(y, found, sample_weight=w),
            "MAE": mean_absolute_error(y, found, sample_weight=w)}  # fmt: skip


def errors_of_labels(y, found, w):
    answers = np.array(["no", "yes"])[found.argmax(axis=1)]
    return {"accuracy": accuracy_score(y, answers, sample_weight=w), "log loss": log_loss(y, found, sample_weight=w)}


def errors_of_distances(_, found, w):
    return {"RMS distance": np.sqrt(np.average(found**2, weights=w)), "mean distance": np.average(found, weights=w)}


def number(model, row):
    return model.predict(row)


def nearest(model, row):
    return model.transform(row).min(axis=1)


def distance(model, row):
    return np.sqrt(np.square(model.inverse_transform(model.transform(row)) - row).sum(axis=1))


CASES = {
    "squared": (lambda **s: OnlineRegression(**s), Y, number, errors_of_numbers),
    "wrapped": (lambda **s: BatchToOnline(LinearRegression(), **s), Y, number, errors_of_numbers),
    "labels": (lambda **s: OnlineClassifier(**s), LABELS, lambda m, row: m.predict_proba(row), errors_of_labels),
    "clusters": (lambda **s: OnlineClustering(3, **s), None, nearest, errors_of_distances),
    "subspace": (lambda **s: OnlineLowRank(1, **s), None, distance, errors_of_distances),
}  # fmt: skip


@pytest.mark.parametrize("forgetting", [{"window": LAST}, {"half_life": LAST}], ids=["window", "half-life"])
@pytest.mark.parametrize("case", list(CASES))
def test_recent_rows_count_by_their_weights(case, forgetting, tmp_path):
    make, y, answer, errors = CASES[case]
    model, found = make(random_state=0, **forgetting), []
    for i in range(N):
        if i >= N - LAST:
            found.append(answer(model, X[i : i + 1])[0])
        model.partial_fit(X[i : i + 1], None if y is None else y[i : i + 1], sample_weight=WEIGHTS[i : i + 1])
    expected = errors(None if y is None else y[-LAST:], np.array(found), WEIGHTS[-LAST:])
    recent = model.recent_metrics_
    assert recent
    assert recent == pytest.approx({name: expected[name] for name in recent}, rel=1e-9)
    assert dict(model.headline().recent).keys() <= recent.keys()
    assert model.headline().recent_rows == LAST
    model.save(tmp_path / "model.b2o")
    assert batch2online.load(tmp_path / "model.b2o", trusted=True).recent_metrics_ == recent
    together = make(random_state=0, **forgetting).partial_fit(X, y, sample_weight=WEIGHTS)
    assert together.recent_metrics_ == pytest.approx(recent, rel=1e-6)


@pytest.mark.parametrize("forgetting", [{"window": LAST}, {"half_life": LAST}], ids=["window", "half-life"])
@pytest.mark.parametrize("first", [0, 1])
def test_recent_rows_of_shards_are_those_of_the_largest_ids(first, forgetting):
    half = N // 2
    shards = [
        OnlineRegression(random_state=0, first_id=part.start, **forgetting).partial_fit(X[part], Y[part], WEIGHTS[part])
        for part in (slice(0, half), slice(half, N))
    ]
    expected = [shard.recent_metrics_ for shard in shards]
    merged = shards[first].merge(shards[1 - first])
    assert expected[0] != expected[1]
    assert merged.recent_metrics_ == pytest.approx(expected[1], rel=1e-12)
    assert merged.headline().recent_rows == LAST
