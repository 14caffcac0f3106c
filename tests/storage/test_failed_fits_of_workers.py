"""What a fit in the background cannot learn does not take the rows with it that were learned."""

from contextlib import suppress

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor

from batch2online import BatchToOnline, Durable


def made(**settings):
    return BatchToOnline(GammaRegressor(max_iter=20), random_state=0, coreset_size=100_000, **settings)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_is_saved_after_an_error_in_the_background(tmp_path):
    """One target is negative, to which the estimator cannot be fitted: the call that hears of it raises its error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 2))
    y = np.exp(X[:, 1])
    y[900] = -1.0
    model = Durable(tmp_path / "model.b2o", made(), worker=True)
    n_learned = 0
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        with suppress(Exception):
            model.learn_one(row, target)
            n_learned += 1
    assert n_learned >= 900
    with suppress(Exception):
        model.flush()
    model.close()
    with Durable.open(tmp_path / "model.b2o", trusted=True) as opened:
        assert 900 <= opened.n_seen_ < opened.next_id == n_learned
        with pytest.raises(ValueError, match="Some value"):
            opened.learn_one(X[0].tolist(), 1.0)
    with Durable.open(tmp_path / "model.b2o", trusted=True) as again:
        assert (again.n_seen_, again.next_id) == (opened.n_seen_, n_learned)
