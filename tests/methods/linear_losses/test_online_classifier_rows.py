"""Single rows of a classifier: the short way gives what the arrays give."""

import numpy as np
import pytest

from batch2online import OnlineClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
KINDS = {"bool": [False, True], "str": ["no", "yes"], "int": [3, 1, 2], "reversed": [9, 4]}


def labels(kind):
    return [KINDS[kind][int(place)] for place in np.clip(X[:, 0].round() + 1, 0, len(KINDS[kind]) - 1)]


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


def test_single_rows_follow_the_current_model_and_its_labels():
    """Rows of Python numbers are predicted from a copy of the coefficients: it is that of the current model."""
    y = labels("str")
    model = OnlineClassifier(random_state=0)
    for place, (row, label) in enumerate(zip(X, y, strict=True)):
        model.learn_one(row.tolist(), "a third one" if place == 200 else label)
        if place > 40:
            shares = model.predict_proba(row[None])[0]
            np.testing.assert_allclose(list(model.predict_proba_one(row.tolist()).values()), shares, rtol=1e-12)
    assert model.n_changes_ > 1
    assert len(model.predict_proba_one(X[0].tolist())) == 3


@pytest.mark.parametrize("value", [np.inf, 1e200, "text", 1j])
def test_single_rows_with_invalid_values_are_refused_after_valid_ones(value):
    model, names = OnlineClassifier(random_state=0), [f"x{j}" for j in range(X.shape[1])]
    for row, label in zip(X.tolist(), labels("str"), strict=True):
        model.learn_one(dict(zip(names, row, strict=True)), label)
    valid = dict(zip(names, X[0].tolist(), strict=True))
    for _ in range(2):
        expected = model.predict_proba_one(valid)
    with pytest.raises((TypeError, ValueError)):
        model.predict_proba_one(valid | {"x0": value})
    with pytest.raises((KeyError, ValueError)):
        model.predict_proba_one(valid | {"further": 1.0})
    assert model.predict_proba_one(valid) == expected
    single = {name: np.float32(each) for name, each in valid.items()}
    exact = model.predict_proba_one(np.array(list(single.values()), dtype=np.float64))
    np.testing.assert_allclose(list(model.predict_proba_one(single).values()), list(exact.values()), rtol=1e-12)
