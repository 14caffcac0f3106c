"""Weights of classes: those of scikit-learn while all rows are kept, and nearly so afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

import batch2online
from batch2online import OnlineClassifier

WEIGHTS = {"balanced": "balanced", "given": {0: 3.0, 1: 0.5, 2: 2.0}}
N = 9_000
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4))
LATENT = X @ [1.0, -1.0, 0.5, 0.0] + RNG.logistic(size=N)


def labels(n_classes):
    """Classes of unequal sizes: the last one has a row in twenty."""
    return np.digitize(LATENT, np.quantile(LATENT, [0.95] if n_classes == 2 else [0.5, 0.8, 0.95]))


def theirs(kind, rows, y, sample_weight=None):
    return LogisticRegression(class_weight=kind, tol=1e-9, max_iter=10_000).fit(rows, y, sample_weight)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_models_are_those_of_scikit_learn_while_all_rows_are_kept(kind, n_classes):
    y, weights = labels(n_classes)[:1_500], RNG.uniform(0.5, 2, 1_500)
    ours = OnlineClassifier(class_weight=WEIGHTS[kind], random_state=0)
    for start in range(0, 1_500, 400):
        part = slice(start, start + 400)
        ours.partial_fit(X[:1_500][part], y[part], weights[part])
    ours.fit(X[:1_500], y, weights)
    np.testing.assert_allclose(ours.coef_, theirs(WEIGHTS[kind], X[:1_500], y, weights).coef_, atol=1e-5)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_models_cost_what_theirs_do_when_few_rows_are_kept(kind, n_classes):
    """Also after a class of the last third alone: weights at the end are those of the exact counts."""
    y = labels(n_classes)
    order = np.concatenate([np.flatnonzero(y < n_classes - 1)[:4_000], RNG.permutation(N)])
    rows, y = X[order], y[order]
    ours = OnlineClassifier(class_weight=WEIGHTS[kind], coreset_size=1_000, random_state=0).fit(rows, y)
    given = WEIGHTS[kind]
    weights = compute_sample_weight(
        given if kind == "balanced" else {c: given.get(c, 1.0) for c in range(n_classes)}, y
    )
    costs = [
        -(weights * np.log(model.predict_proba(rows)[np.arange(len(y)), y])).sum()
        for model in (ours, theirs(given, rows, y), OnlineClassifier(coreset_size=1_000, random_state=0).fit(rows, y))
    ]
    assert abs(costs[0] / costs[1] - 1) < 4e-3
    assert costs[2] / costs[1] - 1 > 2e-2, "a model without weights is not told apart"


def test_balanced_classes_survive_chunks_files_and_merging(tmp_path):
    y = np.array(["none", "some", "many", "most"])[labels(4)]
    whole = OnlineClassifier(class_weight="balanced", coreset_size=800, random_state=0)
    whole.partial_fit(X, y)
    pieces = OnlineClassifier(class_weight="balanced", coreset_size=800, random_state=0)
    for start in range(0, N, 777):
        pieces.partial_fit(X[start : start + 777], y[start : start + 777])
        if start == 777 * 4:
            pieces.save(tmp_path / "model")
            pieces = batch2online.load(tmp_path / "model")
    assert np.array_equal(whole.coef_, pieces.coef_)
    assert whole.get_params()["class_weight"] == pieces.get_params()["class_weight"] == "balanced"
    one = OnlineClassifier(class_weight="balanced", coreset_size=800, random_state=0).partial_fit(X[:5_000], y[:5_000])
    two = OnlineClassifier(class_weight="balanced", coreset_size=800, random_state=0, first_id=5_000)
    merged = one.merge(two.partial_fit(X[5_000:], y[5_000:]))
    best = theirs("balanced", X, y)
    weights, place = compute_sample_weight("balanced", y), np.searchsorted(best.classes_, y)
    costs = [-(weights * np.log(m.predict_proba(X)[np.arange(N), place])).sum() for m in (merged, best)]
    assert abs(costs[0] / costs[1] - 1) < 4e-3


def test_the_loss_of_balanced_classes_is_measured_with_their_weights():
    y = labels(2)
    fitted = OnlineClassifier(class_weight="balanced", random_state=0).partial_fit(X, y)
    assert fitted.regret_.ratio == pytest.approx(1, abs=0.1)  # weights were those of the models in force
    plain = OnlineClassifier(random_state=0).partial_fit(X, y)
    assert fitted.regret_.loss > 2 * plain.regret_.loss


def test_other_weights_are_refused():
    with pytest.raises(ValueError, match='class_weight must be "balanced"'):
        OnlineClassifier(class_weight="unbalanced").fit(X[:100], labels(2)[:100])
