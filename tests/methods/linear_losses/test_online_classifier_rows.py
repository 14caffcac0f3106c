"""Single rows of a classifier: the short way gives what the arrays give."""

import numpy as np
import pytest

from batch2online import OnlineClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
KINDS = {"bool": [False, True], "str": ["no", "yes"], "int": [3, 1, 2], "reversed": [9, 4]}


def labels(kind):
    return [KINDS[kind][int(place)] for place in np.clip(X[:, 0].round() + 1, 0, len(KINDS[kind]) - 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "row_of", [list, lambda row: dict(zip("abc", row.tolist(), strict=True))], ids=["list", "dict"]
)
def test_rows_one_by_one_give_the_model_of_arrays(kind, row_of):
    one, whole, y = OnlineClassifier(random_state=0), OnlineClassifier(random_state=0), labels(kind)
    for row, label in zip(X, y, strict=True):
        one.learn_one(row_of(row), label)
    whole.partial_fit(X, y)
    assert np.array_equal(one.coef_, whole.coef_)
    assert one.classes_.tolist() == whole.classes_.tolist()
    assert one.n_seen_ == 300
    for row, shares in zip(X[:20], whole.predict_proba(X[:20]), strict=True):
        found = one.predict_proba_one(row_of(row))
        assert list(found) == whole.classes_.tolist()
        np.testing.assert_allclose(list(found.values()), shares, rtol=1e-14)
        assert one.predict_one(row_of(row)) == whole.predict(row[None])[0]


def test_equal_labels_of_other_types_are_the_same_label():
    model = OnlineClassifier(random_state=0)
    for row, label in zip(X[:40].tolist(), [0, 1, True, 1.0, np.int64(0), False, np.True_, 1] * 5, strict=True):
        model.learn_one(row, label)
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="missing"):
        model.learn_one(X[0].tolist(), None)
    with pytest.raises(ValueError, match="all strings or all numbers"):
        model.learn_one(X[0].tolist(), "1")
    assert model.n_seen_ == 40


def test_weights_of_classes_count_row_by_row():
    y, weights = labels("str"), {"no": 1.0, "yes": 3.0}
    one, whole = (OnlineClassifier(class_weight=weights, random_state=0) for _ in range(2))
    for row, label in zip(X.tolist(), y, strict=True):
        one.learn_one(row, label)
    assert np.array_equal(one.coef_, whole.partial_fit(X, y).coef_)
