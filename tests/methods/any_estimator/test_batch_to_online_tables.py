"""Tables and strings in BatchToOnline: models are equal bit for bit, whatever the chunks, files and copies."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from batch2online import BatchToOnline, Durable, coresets, load
from batch2online.refresh import Geometric
from table_cases import KINDS, assert_same, classifier, learned, regressor, table, target

N = 130
X = table(N)
Y = target(X)
DOCUMENTS = [
    f"{note} {'good' if y > 1 else 'bad'} number{i}" for i, (note, y) in enumerate(zip(X["note"], Y, strict=True))
]
LABELS = np.where(Y > 1, "good", "bad")
SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def whole():
    return regressor().partial_fit(X, Y)


@settings(max_examples=4)
@given(SIZES)
def test_chunks_of_strings_do_not_matter(sizes):
    one, other = classifier().partial_fit(DOCUMENTS, LABELS), classifier()
    assert_same(learned(other, DOCUMENTS, LABELS, sizes), one)


@settings(max_examples=6)
@given(SIZES, st.integers(30, N - 10), st.sampled_from(["file", "pickle", "copy"]))
@pytest.mark.slow
def test_chunks_single_rows_and_copies_do_not_matter(whole, tmp_path_factory, sizes, at, path):
    model = learned(regressor(), X[:at], Y[:at], sizes)
    if path == "file":
        file = tmp_path_factory.mktemp("models") / "model.b2o"
        model.save(file)
        again = load(file, trusted=True)
    else:
        again = pickle.loads(pickle.dumps(model)) if path == "pickle" else copy.deepcopy(model)
    for row in range(at, at + 10):
        again.learn_one(X.iloc[row].to_dict(), float(Y[row]))
    assert_same(learned(again, X[at + 10 :], Y[at + 10 :], sizes), whole)
    assert again.predict_one(X.iloc[3].to_dict()) == whole.predict(X[3:4])[0]


@settings(max_examples=4)
@given(st.integers(30, N - 30))
@pytest.mark.slow
def test_shards_merge_to_the_coreset_of_all_rows(at):
    new = partial(regressor, coreset=coresets.Uniform)
    whole, first, second = new().fit(X, Y), new().fit(X[:at], Y[:at]), new(first_id=at).fit(X[at:], Y[at:])
    first.merge(second)
    assert first.coreset_ == whole.coreset_
    pd.testing.assert_frame_equal(first.coreset_.points, whole.coreset_.points)
    np.testing.assert_array_equal(first.predict(X), whole.predict(X))


@settings(max_examples=6)
@given(st.sets(st.integers(0, N - 1), min_size=1, max_size=20))
@pytest.mark.slow
def test_what_is_forgotten_was_never_there(ids):
    unwanted = sorted(ids)
    model = classifier(keep_history=True).partial_fit(DOCUMENTS, LABELS).forget(unwanted)
    kept = [document for number, document in enumerate(DOCUMENTS) if number not in ids]
    texts = model._stream.problem.encoding.strings
    assert sorted(texts._known.values()) == sorted(set(kept))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_passed_on_as_the_kind_that_came_in(kind):
    given_table = KINDS[kind](X)
    model = regressor(words=False).fit(given_table, Y)
    rows = model.coreset_
    assert type(rows.points) is type(given_table)
    own = KINDS[kind](X.iloc[rows.ids].reset_index(drop=True))
    alone = clone(model.estimator).fit(own, Y[rows.ids], ridge__sample_weight=rows.weights)
    np.testing.assert_allclose(model.predict(given_table), alone.predict(given_table), rtol=1e-9)
    assert model.coreset_.to_frame().shape == (len(model.coreset_), X.shape[1] + 2)


def test_strings_of_rows_that_left_are_dropped():
    model = BatchToOnline(
        lambda rows, weights: len(rows), loss=lambda model, rows: np.zeros(len(rows)), coreset_size=50, random_state=0
    )
    for start in range(0, 100_000, 5_000):
        model.partial_fit([f"text {number}" for number in range(start, start + 5_000)])
        assert len(model._stream.problem.encoding.strings) <= 25_000  # a block waits, as many may be gone
    assert model.n_seen_ == 100_000


def test_a_durable_model_of_strings_comes_back_after_a_crash(tmp_path):
    model = classifier(loss="zero_one")
    durable = Durable(tmp_path / "model.b2o", model, trusted=True)
    learned(durable, DOCUMENTS[:100], LABELS[:100], [17])
    durable._session.abandon()
    with Durable(tmp_path / "model.b2o", classifier(loss="zero_one"), trusted=True) as again:
        again.partial_fit(DOCUMENTS[100:], LABELS[100:])
        assert_same(again.model, classifier(loss="zero_one").partial_fit(DOCUMENTS, LABELS))


def test_forgotten_strings_are_in_no_page_of_the_file(tmp_path):
    path = tmp_path / "model.b2o"
    with Durable(path, classifier(keep_history=True), trusted=True) as durable:
        learned(durable, DOCUMENTS, LABELS, [50])
        durable.forget([101, 102])
    content = path.read_bytes()
    assert b"number100" in content
    assert b"number101" not in content


def test_a_file_without_the_strings_of_its_rows_is_refused(tmp_path):
    path = tmp_path / "model.b2o"
    model = classifier().partial_fit(DOCUMENTS, LABELS)
    state = model._state()
    state["strings"] = type(state["strings"])()
    from batch2online.storage import model_file

    model_file.save(path, state)
    with pytest.raises(ValueError, match="found rows with strings that are not stored"):
        load(path, trusted=True)


def test_a_damaged_string_is_noticed(tmp_path):
    path = tmp_path / "model.b2o"
    classifier(coreset=coresets.Everything).partial_fit(DOCUMENTS, LABELS).save(path)
    data = path.read_bytes()
    place = data.index(DOCUMENTS[0].encode())
    path.write_bytes(data[:place] + b"N" + data[place + 1 :])
    with pytest.raises(ValueError, match="checksum"):
        load(path, trusted=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[f.columns[::-1]], "same order"),
        (lambda f: f.drop(columns="count"), "missing"),
        (lambda f: f.assign(more=1), "unseen at fit time"),
        (lambda f: f.assign(count="seven"), "Row 0, column 'count', holds the string 'seven', but a number"),
        (lambda f: f.assign(colour=[[1]] * len(f)), "Row 0, column 'colour', holds"),
        (lambda f: f["note"], "rows in a container like pandas, as before"),
        (lambda f: f[:0], "0 sample"),
    ],
)
def test_a_table_of_other_columns_is_refused_in_a_sentence(change, message, whole):
    model = copy.deepcopy(whole)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(change(X), Y)
    with pytest.raises(ValueError, match=message):
        model.predict(change(X))
    assert_same(model, whole)


def test_new_levels_and_classes_flow_through():
    frame = X[["length", "size"]].assign(colour=X["colour"].astype("category"))
    labels = np.where(np.arange(N) < 70, LABELS, np.where(np.arange(N) % 3 == 0, "other", LABELS))
    model = BatchToOnline(HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4), random_state=0)
    learned(model, frame, labels, [13])
    assert model.classes_.tolist() == ["bad", "good", "other"]
    unseen = frame[:2].assign(colour=pd.Categorical(["unheard of", None]))
    assert model.predict(unseen).shape == (2,)


def test_missing_values_in_arrays_are_for_estimators_that_take_them():
    rows = X[["length", "count"]].to_numpy()
    model = BatchToOnline(HistGradientBoostingRegressor(max_iter=3), random_state=0)
    assert_same(
        learned(model, rows, Y, [7]),
        BatchToOnline(HistGradientBoostingRegressor(max_iter=3), random_state=0).partial_fit(rows, Y),
    )
    assert np.isnan(model.coreset_.points).any()
    with pytest.raises(ValueError, match="NaN at row"):
        BatchToOnline(LinearRegression()).partial_fit(rows, Y)


@pytest.mark.parametrize("construction", [coresets.Leverage, coresets.Uniform, coresets.Everything])
def test_leverage_reads_the_columns_that_hold_numbers(construction):
    model, other = regressor(coreset=construction), regressor(coreset=construction)
    assert_same(learned(model, X, Y, [19]), other.partial_fit(X, Y))
    if construction is coresets.Leverage:
        numbers = X[["length", "count", "is_new"]].fillna(0).astype(float).to_numpy()
        alone = BatchToOnline(
            Ridge(), coreset=construction, coreset_size=40, random_state=0, refresh=Geometric(2.0, start=30)
        )
        assert alone.partial_fit(numbers, Y).coreset_ == model.coreset_


def test_scores_that_need_numbers_say_so():
    with pytest.raises(ValueError, match=r"Column 'colour' holds strings, .* pass coreset=coresets.Uniform"):
        regressor(coreset=lambda **s: coresets.RidgeLeverage(2, **s)).partial_fit(X, Y)


def test_an_estimator_that_takes_no_strings_is_refused_with_the_remedy():
    with pytest.raises(
        ValueError, match=r"Column 'colour' holds strings, which LinearRegression cannot take: put an encoder"
    ):
        BatchToOnline(LinearRegression(), columns=None).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"make it a category"):
        BatchToOnline(HistGradientBoostingRegressor(), columns=None).partial_fit(X[["length", "colour"]], Y)


def test_lists_of_dictionaries_and_single_strings():
    rows = [{"a": i % 3, "b": "xyz"[i % 2]} | ({"c": 1.5} if i > 60 else {}) for i in range(N)]
    model = BatchToOnline(make_pipeline(DictVectorizer(), LogisticRegression()), random_state=0)
    learned(model, rows, LABELS, [11])
    assert model.predict(rows[:3]).shape == (3,)
    assert model.predict_one(rows[0]) == model.predict(rows[:1])[0]
    texts = classifier()
    for document, label in zip(DOCUMENTS, LABELS, strict=True):
        texts.learn_one(document, label)
    assert texts.n_seen_ == N
    assert texts.predict_one("good") in ("good", "bad")
    assert_same(texts, classifier().partial_fit(DOCUMENTS, LABELS))


@pytest.mark.parametrize("rows", [X, DOCUMENTS], ids=["table", "texts"])
@pytest.mark.slow
def test_a_report_of_rows_of_any_kind(rows, tmp_path):
    model = regressor() if rows is X else classifier()
    model.fit(rows, Y if rows is X else LABELS).report(tmp_path / "report.html")
    assert "Feature importance" in (tmp_path / "report.html").read_text(encoding="utf-8")
