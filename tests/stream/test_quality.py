"""Quality beside a baseline: the mean so far, the shares of classes so far; over windows of rows; and in words."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import recall_score, roc_auc_score

import batch2online
from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.quality import MOST_WINDOWS, ClassBaseline, ClassScores, Windows
from batch2online.rows import Rows

RNG = np.random.default_rng(7)
N = 1_500
X = RNG.normal(size=(N, 3))
Y = 20 + X @ [1.0, 2.0, 3.0] + RNG.normal(size=N)
YES = 22 + RNG.logistic(size=N) < Y
LABELS = np.where(YES, "yes", "no")


def labelled(codes, errors=None, log_losses=None):
    codes = np.asarray(codes, dtype=float)
    rows = Rows(np.empty((len(codes), 0)), codes[:, None], np.ones(len(codes)), np.arange(len(codes)))
    return rows, None if errors is None else ClassScores(np.asarray(errors, dtype=float), log_losses)


def make(kind):
    if kind == "wrapped regression":
        return BatchToOnline(Ridge(), random_state=0), Y
    if kind == "wrapped classes":
        return BatchToOnline(LogisticRegression(), random_state=0), LABELS
    if kind == "classes":
        return OnlineClassifier(random_state=0), LABELS
    if kind == "several classes":
        return OnlineClassifier(random_state=0), np.digitize(Y, [17.0, 22.0])
    if kind == "clusters":
        return OnlineClustering(3, random_state=0), None
    return OnlineRegression(random_state=0, loss="absolute" if kind == "absolute" else "squared"), Y


KINDS = ["regression", "absolute", "wrapped regression", "classes", "several classes", "wrapped classes", "clusters"]


def learned(kind, *cuts):
    model, y = make(kind)
    for start, stop in zip((0, *cuts), (*cuts, N), strict=True):
        model.partial_fit(X[start:stop], None if y is None else y[start:stop])
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_quality_does_not_depend_on_chunks_and_is_in_files(kind, tmp_path):
    whole, parts = learned(kind), learned(kind, 1, 100, 777)
    for name in ("metrics_", "baseline_metrics_", "window_metrics_"):
        assert getattr(whole, name) == getattr(parts, name)
    whole.save(tmp_path / "model.b2o")
    trust = {"trusted": True} if "wrapped" in kind else {}
    again = batch2online.load(tmp_path / "model.b2o", **trust)
    assert again.window_metrics_ == whole.window_metrics_
    assert again.metrics_ == whole.metrics_
    assert str(again.headline()) == str(whole.headline())


@pytest.mark.parametrize("kind", ["regression", "wrapped regression"])
def test_the_baseline_of_regression_is_the_mean_so_far(kind):
    model = learned(kind)
    means = np.concatenate([Y[:1], np.cumsum(Y)[:-1] / np.arange(1, N)])
    assert model.baseline_metrics_["RMSE"] == pytest.approx(math.sqrt(np.square(Y - means).mean()), rel=1e-9)
    assert model.baseline_metrics_["MAE"] == pytest.approx(np.abs(Y - means).mean(), rel=1e-9)
    assert 0.9 < model.metrics_["R2"] < 1
    assert model.headline().verdict.startswith(
        f"explains {100 * model.metrics_['R2']:.0f} % of the variance; typically"
    )
    assert f"(mean so far: {model.baseline_metrics_['RMSE']:.4g})" in model.headline().measures


@pytest.mark.parametrize("kind", ["classes", "wrapped classes"])
def test_area_and_recall_are_those_of_the_predictions_before_each_row(kind):
    model, y = make(kind)
    start, said = 1_000, []
    model.partial_fit(X[:start], y[:start])
    before = model.stream.performance().baseline
    for row in range(start, N):
        said.append(model.predict_proba(X[row : row + 1])[0, 1])
        model.partial_fit(X[row : row + 1], y[row : row + 1])
    after, truth = model.stream.performance().baseline, YES[start:]
    since = ClassBaseline(True, after.codes, after.weights - before.weights, after.errors - before.errors,
                          after.scores - before.scores)  # fmt: skip
    area, error = since.auc
    places = [model.stream.problem.label_of(code) for code in after.codes]
    expected = roc_auc_score(truth if places == ["no", "yes"] else ~truth, np.array(said) * (places == ["no", "yes"]) +
                             (1 - np.array(said)) * (places != ["no", "yes"]))  # fmt: skip
    assert abs(area - expected) <= error + 1e-12
    assert error < 0.02
    rare, recall = since.rarest
    chosen = np.where(np.array(said) > 0.5, "yes", "no")
    assert recall == pytest.approx(recall_score(LABELS[start:], chosen, pos_label=model.stream.problem.label_of(rare)))
    share = max(YES.mean(), 1 - YES.mean())
    assert model.baseline_metrics_["accuracy"] == pytest.approx(share, abs=0.01)
    assert model.baseline_metrics_["log loss"] == pytest.approx(
        -share * math.log(share) - (1 - share) * math.log(1 - share), abs=0.02
    )
    assert model.headline().verdict.startswith("better than guessing, wrong on ")
    assert {"AUC", "recall of rarest (yes)"} <= set(model.metrics_)


def test_a_third_class_ends_the_area_and_keeps_the_rest():
    (losses, wrong), first = ClassBaseline().plus(*labelled([1, 1, 0], [0, 1, 0], np.array([0.1, 0.9, 0.2])))
    assert wrong.tolist() == [0, 0, 1]
    assert losses == pytest.approx(-np.log(np.array([2.5, 2.5, 1.5]) / 4.5))  # by the shares of the first rows
    assert first.scores.sum() == 3
    (losses, _), second = first.plus(*labelled([2], [1], np.array([3.0])))
    assert losses == pytest.approx([-math.log(0.5 / 4.5)])
    assert second.auc is None
    assert second.scores.shape == (3, 0)
    assert second.errors.tolist() == [0, 1, 1]
    assert second.rarest == (0.0, 1.0)


def test_classes_of_two_streams_are_merged():
    one = ClassBaseline().plus(*labelled([1, 1], [0, 1], np.array([0.1, 0.9])))[1]
    other = ClassBaseline().plus(*labelled([0, 1], [0, 1], np.array([0.3, 2.0])))[1]
    both = one.merge(other)
    assert both.weights.tolist() == [1, 3]
    assert both.errors.tolist() == [0, 2]
    assert both.scores.sum() == 4
    assert both.auc is not None


def test_certain_rows_are_in_the_last_bins():
    sure = ClassBaseline().plus(*labelled([0, 1], [0, 1], np.array([0.0, np.inf])))[1]
    assert sure.scores[0, -1] == 1
    assert sure.scores[1, 0] == 1
    assert sure.auc == (0.5, 0.5)  # both have the largest logit of class 0


@pytest.mark.parametrize("kind", ["regression", "classes", "wrapped regression"])
def test_two_streams_are_scored_together(kind):
    one, y = make(kind)
    other = make(kind)[0].set_params(first_id=900)
    one.partial_fit(X[:900], y[:900])
    other.partial_fit(X[900:], y[900:])
    rows = [one.window_metrics_, other.window_metrics_]
    one.merge(other)
    assert sum(each["rows"] for each in one.window_metrics_) == N
    assert len(one.window_metrics_) <= MOST_WINDOWS
    assert one.window_metrics_[-1]["stop"] == N
    assert rows[0][0]["rows"] <= one.window_metrics_[0]["rows"]
    if kind != "classes":
        assert one.stream.performance().baseline.mean.prediction == pytest.approx(Y.mean(), rel=1e-12)


def test_windows_hold_all_rows_in_order_whatever_the_segments():
    values = RNG.integers(0, 9, size=(6, 9_000)).astype(float)
    whole, parts = Windows().plus(values[1], values[2:]), Windows()
    for start in range(0, 9_000, 301):
        some = values[:, start : start + 301]
        parts = parts.plus(some[1], some[2:])
    assert np.array_equal(whole.sums, parts.sums)
    assert whole.width == parts.width == 512
    ends = np.cumsum(whole.sums[0]).astype(int)
    assert whole.sums[2].tolist() == [values[2, a:b].sum() for a, b in zip((0, *ends[:-1]), ends, strict=True)]


def test_windows_of_quality_are_those_of_their_rows():
    model, said = OnlineRegression(random_state=0), [Y[0]]
    model.partial_fit(X[:1], Y[:1])
    for row in range(1, 640):
        said.append(model.predict(X[row : row + 1])[0])
        model.partial_fit(X[row : row + 1], Y[row : row + 1])
    windows = model.window_metrics_
    assert [window["stop"] for window in windows] == list(range(64, 641, 64))
    for window in windows:
        rows = slice(window["stop"] - 64, window["stop"])
        own = math.sqrt(np.square(Y[rows] - np.array(said)[rows]).mean())
        assert window["metrics"]["RMSE"] == pytest.approx(own, rel=1e-9)


def test_clusters_are_seen_beside_seeds_alone():
    rows = X + 8 * RNG.integers(0, 3, size=(N, 1))
    model = OnlineClustering(3, random_state=0).partial_fit(rows)
    assert model.metrics_["mean distance"] < model.baseline_metrics_["mean distance"] < 5
    assert "below those of k-means++ seeds alone, on the coreset" in model.headline().verdict
    assert OnlineLowRank(2, random_state=0).partial_fit(X).headline().verdict.startswith("keeps ")


def test_weighted_losses_of_balanced_classes_have_no_baseline():
    model = OnlineClassifier(class_weight="balanced", random_state=0).partial_fit(X, LABELS)
    plain = OnlineClassifier(random_state=0).partial_fit(X, LABELS)
    assert list(model.baseline_metrics_) == ["accuracy"]
    assert model.metrics_["AUC"] == pytest.approx(plain.metrics_["AUC"], abs=0.01)


def test_what_cannot_be_predicted_is_no_better_than_guessing():
    labels = np.where(RNG.random(N) < 0.02, "yes", "no")
    verdict = OnlineClassifier(random_state=0).partial_fit(X, labels).headline().verdict
    assert "better than guessing, " not in verdict or verdict.startswith("no better")
    noise = OnlineRegression(random_state=0).partial_fit(X, RNG.normal(size=N)).headline().verdict
    assert noise.partition(";")[0] in ("no better than predicting the mean", "worse than predicting the mean")
