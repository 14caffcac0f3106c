"""The verdict of a classifier: differences within two standard errors of those from guessing count as none."""

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from batch2online import BatchToOnline


class Echo(ClassifierMixin, BaseEstimator):
    """Answers what stands in the first column, with a probability of 0.6."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X):
        return np.where(np.arange(2) == X[:, :1], 0.6, 0.4)


def echoed(n, share, wrong):
    """A stream of two classes in which so many rows are answered wrongly."""
    rng = np.random.default_rng(n)
    y = (rng.random(n) < share).astype(int)
    given = y.copy()
    given[rng.choice(n, wrong, replace=False)] ^= 1
    return BatchToOnline(Echo(), random_state=0).partial_fit(given[:, None].astype(float), y)


def standard_errors(model, n):
    """How far the errors are below those of the most frequent class, in standard errors."""
    error, other = (1 - found["accuracy"] for found in (model.metrics_, model.baseline_metrics_))
    return (other - error) / math.sqrt((error * (1 - error) + other * (1 - other)) / n)


@pytest.mark.parametrize(("n", "share"), [(200, 0.3), (800, 0.5), (3_000, 0.1)])
def test_a_difference_of_two_standard_errors_counts(n, share):
    seen = []
    for at in (-4.0, -2.3, -1.7, -1.2, -0.5, 0.5, 1.2, 1.7, 2.3, 4.0):
        noise = math.sqrt(2 * share * (1 - share) / n)
        model = echoed(n, share, round(n * (share - at * noise)))
        found, verdict = standard_errors(model, n), model.headline().verdict
        seen.append(found)
        expected = "better than" if found > 2 else "worse than" if found < -2 else "about as often as"
        said = verdict.removeprefix("no better than guessing, ")
        assert [words for words in ("better than", "worse than", "about as often as") if words in said] == [expected]
        for share_of, words in ((model.metrics_, "wrong on"), (model.baseline_metrics_, "always saying")):
            assert f"{100 * (1 - share_of['accuracy']):.1f} %" in verdict.partition(words)[2]
    bands = {math.floor(each) for each in seen if abs(each) < 2}
    assert bands >= {-2, 1}
    assert min(seen) < -2 < 2 < max(seen)
