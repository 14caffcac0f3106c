"""Rows after checks are what was checked: masked cells, entries that repeat, losses that are no numbers."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture

from batch2online import BatchToOnline, OnlineClustering, OnlineRegression, coresets
from batch2online.validation import LARGEST, LARGEST_WEIGHT
from defects.subjects import ESTIMATORS, LABELS, X, Y, learned, some, state


@pytest.fixture(params=["new", "seen"])
def started(request):
    """A function that makes an estimator which has seen no rows, or a hundred."""

    def start(name):
        make, targets = ESTIMATORS[name]
        return (make() if request.param == "new" else learned(make(), targets, 0, 100)), targets

    return start


def refuses(model, act, message):
    before = state(model) if model.__sklearn_is_fitted__() else None
    with pytest.raises(ValueError, match=message):
        act()
    assert (state(model) if model.__sklearn_is_fitted__() else None) == before


def with_repeated_entries(value, times=20):
    """Fifty rows, and one whose first cell is the sum of entries of this value."""
    entries = np.append(np.full(times, value), [1.0, 2.0])
    row = sp.csr_matrix((entries, np.append(np.zeros(times, dtype=int), [1, 2]), [0, times + 2]), shape=(1, 3))
    return sp.vstack([sp.csr_matrix(X[:50]), row], format="csr")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_entries_that_repeat_a_cell_are_summed_before_they_are_checked(name, started):
    model, targets = started(name)
    rows = with_repeated_entries(0.9 * model._largest)
    refuses(model, lambda: model.partial_fit(rows, some(targets, 0, 51)), "too large.* row 50, column 0")
    if model.__sklearn_is_fitted__() and hasattr(model, "predict"):
        refuses(model, lambda: model.predict(rows), "too large.* row 50, column 0")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_entries_that_repeat_a_cell_are_their_sum(name, started):
    (model, targets), (plain, _) = started(name), started(name)
    rows = with_repeated_entries(0.1)
    stored = rows.nnz
    targets = some(targets, 0, 51)
    assert state(model.partial_fit(rows, targets)) == state(plain.partial_fit(rows.toarray(), targets))
    assert rows.nnz == stored  # the caller's matrix stays as it is


def masked(values, *cell):
    """Values with one cell masked, below which lies an ordinary number."""
    result = np.ma.masked_array(np.array(values), mask=False)
    result[cell] = np.ma.masked
    return result


@pytest.mark.parametrize("name", ESTIMATORS)
def test_masked_cells_are_missing(name, started):
    model, targets = started(name)
    rows, own = X[:50], some(targets, 0, 50)
    refuses(model, lambda: model.partial_fit(masked(rows, 3, 1), own), "NaN at row 3, column 1")
    refuses(model, lambda: model.partial_fit(rows, own, masked(np.ones(50), 7)), "sample_weight .* nan at row 7")
    refuses(model, lambda: model.fit(masked(rows, 3, 1), own), "NaN at row 3, column 1")
    refuses(model, lambda: model.learn_one(masked(rows[3], 1), *([own[3]] if own is not None else [])), "NaN")
    if own is not None:
        refuses(model, lambda: model.partial_fit(rows, masked(own, 5)), "(NaN|masked).* row 5")


def test_masked_labels_that_are_numbers_are_missing():
    model = BatchToOnline(LogisticRegression(), random_state=0)
    refuses(model, lambda: model.partial_fit(X[:50], masked((LABELS[:50] == "low").astype(int), 5)), "row 5")


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element to nan")
def test_masked_values_of_single_rows_are_missing():
    model = OnlineRegression(random_state=0).partial_fit(X[:50], Y[:50])
    refuses(model, lambda: model.learn_one(X[0], np.ma.masked), "NaN")
    with pytest.raises(ValueError, match="NaN"):
        model.predict_one(masked(X[0], 1))


def test_masked_cells_are_missing_for_constructions():
    with pytest.raises(ValueError, match="NaN at row 3, column 1"):
        coresets.Uniform(coreset_size=10, random_state=0).add(masked(X[:50], 3, 1))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_masked_arrays_without_a_masked_cell_are_their_values(name, started):
    model, targets = started(name)
    plain, _ = started(name)
    given = X[:50], some(targets, 0, 50), np.linspace(1, 2, 50)
    wrapped = (None if values is None else np.ma.masked_array(values) for values in given)
    assert state(model.partial_fit(*wrapped)) == state(plain.partial_fit(*given))


# -- losses that are no numbers ------------------------------------------------------------------------------


class Sometimes(RegressorMixin, BaseEstimator):
    """Predicts NaN for rows whose first cell is 1,000."""

    def fit(self, X, y, sample_weight=None):
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return np.where(X[:, 0] == 1000, np.nan, 0.0)


class Odd(GaussianMixture):
    """A density that is NaN for rows whose first cell is 1,000."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X)

    def score_samples(self, X):
        return np.where(X[:, 0] == 1000, np.nan, 0.0)


def own_loss(model, points, targets):
    return np.where(points[:, 0] == 1000, np.nan, 1.0)


NO_NUMBERS = {
    "squared": (Sometimes(), None),
    "absolute": (Sometimes(), "absolute"),
    "own": (Ridge(), own_loss),
    "negative_log_likelihood": (Odd(1), None),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_a_loss_that_is_no_number_is_refused_and_its_row_named(kind):
    estimator, loss = NO_NUMBERS[kind]
    settings = {"loss": loss, "coreset_size": 60, "random_state": 0}
    targets = None if isinstance(estimator, Odd) else Y
    model = BatchToOnline(estimator, **settings)
    model = learned(model, targets, 0, 100)
    rows = X[100:300].copy()
    rows[50, 0] = 1000.0
    seen, loss_before = model.n_seen_, model._stream.current.loss
    with pytest.raises(ValueError, match="loss gave NaN for row 150 of the stream"):
        model.partial_fit(rows, some(targets, 100, 300))
    assert (model.n_seen_, model._stream.current.loss) == (seen, loss_before)
    assert learned(model, targets, 100, 300).n_seen_ == 300


def test_the_largest_values_that_are_allowed_stay_numbers():
    model = OnlineRegression(coreset_size=30, random_state=0).partial_fit(X[:100], Y[:100])
    model.partial_fit(np.full((5, 3), LARGEST / 2), Y[:5])
    assert np.isfinite(model.predict(X[:5])).all()


@pytest.mark.parametrize("weight", [1e-320, 1e-300, 1e-31, 1e31, 1e300])
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.covering
def test_weights_whose_products_would_vanish_or_overflow_are_refused(name, weight, started):
    model, targets = started(name)
    weights = np.ones(60)
    weights[7] = weight
    message = re.escape(f"between 7.9e-31 and 1.3e+30, got {weight:g} at row 7. Multiply all weights")
    refuses(model, lambda: model.partial_fit(X[:60], some(targets, 0, 60), weights), message)
    assert np.isfinite(learned(model, targets, 100, 200).regret_.loss)


EXTREME = {
    "least": np.full(400, 1 / LARGEST_WEIGHT),
    "largest": np.full(400, LARGEST_WEIGHT),
    "largest first": np.where(np.arange(400) < 200, LARGEST_WEIGHT, 1 / LARGEST_WEIGHT),
    "both": np.where(np.arange(400) % 10 == 3, LARGEST_WEIGHT, 1 / LARGEST_WEIGHT),
    "between": 2.0 ** np.random.default_rng(0).uniform(-100, 100, 400),
}


@pytest.mark.parametrize("weights", EXTREME)
@pytest.mark.parametrize(
    "settings",
    [{}, {"history": "coreset"}, {"z": 1.0}, {"z": 3.0}, {"stages": 2}, {"half_life": 5}, {"window": 100}],
    ids=str,
)
@pytest.mark.few(3)
@pytest.mark.slow
def test_weights_that_are_accepted_give_finite_clusters(settings, weights):
    model, own = OnlineClustering(3, coreset_size=60, random_state=0, **settings), EXTREME[weights]
    for start in range(0, 400, 100):
        model.partial_fit(X[start : start + 100], None, own[start : start + 100])
    known = model.regret_
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite([known.loss, known.optimum, known.error]).all()
    assert np.isfinite(model.coreset_.weights).all()
    assert model.headline()


LOSSES = {
    str(settings): (partial(OnlineRegression, coreset_size=60, random_state=0, **settings), np.abs(Y) + 0.1)
    for settings in (
        {"solve": "coreset"},
        {"half_life": 50},
        {"window": 200},
        {"loss": "huber"},
        {"loss": "quantile"},
        {"loss": "poisson"},
        {"loss": "gamma"},
        {"alpha": 0.1},
        {"alpha": 0.1, "l1_ratio": 1.0},
    )
}


@pytest.mark.filterwarnings("ignore:The fit of:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weights", EXTREME)
@pytest.mark.parametrize("name", [*ESTIMATORS, *LOSSES])
@pytest.mark.covering
def test_weights_that_are_accepted_give_finite_models(name, weights):
    make, targets = (ESTIMATORS | LOSSES)[name]
    model, own = make(), EXTREME[weights]
    for start in range(0, 400, 100):
        model.partial_fit(X[start : start + 100], some(targets, start, start + 100), own[start : start + 100])
    model.partial_fit(X[:100], some(targets, 0, 100))
    known = model.regret_
    assert np.isfinite([known.loss, known.optimum, known.error]).all()
    assert np.isfinite(model.coreset_.weights).all()
    names = [answer for answer in ("predict_proba", "predict", "transform") if hasattr(model, answer)]
    assert np.isfinite(getattr(model, names[0])(X[:50])).all()
    assert model.headline()


def test_weights_do_not_make_tiny_rows_vanish():
    """The mean cost of a row is too small for a number where the weights that it is divided by are large."""
    model = OnlineClustering(3, z=3.0, coreset_size=60, random_state=0)
    for start in range(0, 600, 100):
        model.partial_fit(X[start : start + 100] * 2.0**-300, None, EXTREME["both"][:100])
    assert np.isfinite(model.regret_.loss)


MISSING, OTHER = "a missing value: leave out rows", "labels are strings or numbers"
BAD_LABELS = {
    "None": (["low", None], f"None at row 1, {MISSING}"),
    "None among numbers": ([1, None], f"None at row 1, {MISSING}"),
    "NaN in a list": (["low", float("nan")], f"nan at row 1, {MISSING}"),
    "NaN in a float array": (np.array([1.0, np.nan]), "NaN or infinity at row 1"),
    "NA of pandas": (pd.array(["low", pd.NA], dtype="string"), f"<NA> at row 1, {MISSING}"),
    "empty category": (pd.Categorical(["low", None]), f"nan at row 1, {MISSING}"),
    "mixed list": (["low", 1], "all strings or all numbers, got 'low' and 1"),
    "mixed array": (np.array([1, "low"], dtype=object), "all strings or all numbers, got 'low' and 1"),
    "bytes": (np.array([b"low", b"high"]), f"b'low' at row 0, which is of type bytes: {OTHER}"),
    "dates": (np.array(["2024-01-01", "NaT"], dtype="M8[ns]"), f"dates or durations: {OTHER}"),
    "tuple": (np.array([None, (1,)], dtype=object)[1:].repeat(2), rf"\(1,\) at row 0, which is of type tuple: {OTHER}"),
    "large numbers": ([2**60, 2**60 + 1], "beyond 2\\*\\*53"),
    "lone surrogate": (["low", "\ud800"], "at row 1, which is no valid Unicode string"),
}


@pytest.mark.parametrize("name", ["OnlineClassifier", "LogisticRegression"])
@pytest.mark.parametrize("case", BAD_LABELS)
@pytest.mark.covering
def test_labels_that_are_none_are_refused_with_their_row(case, name, started):
    model, _ = started(name)
    labels, message = BAD_LABELS[case]
    refuses(model, lambda: model.partial_fit(X[:2], labels), message)
    if model.__sklearn_is_fitted__() and case not in ("mixed array", "dates"):
        refuses(model, lambda: model.learn_one(X[0], list(labels)[1]), "y (holds|contains)|all strings or all numbers")
