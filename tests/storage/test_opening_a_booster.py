"""Opening the file of a wrapped booster fits nothing: a night pays for its own rows."""

from functools import wraps

import numpy as np
import pytest

from batch2online import BatchToOnline, Durable

lightgbm = pytest.importorskip("lightgbm", reason="needs the extra boosters")


def test_opening_a_file_with_a_booster_fits_nothing(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 3))
    path, fits = tmp_path / "model.b2o", []

    def new():
        return BatchToOnline(lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1), random_state=0)

    with Durable(path, new()) as model:
        expected = model.partial_fit(X, X[:, 0] * X[:, 1]).predict(X)
    fit = lightgbm.LGBMRegressor.fit

    @wraps(fit)
    def counted(booster, rows, *arguments, **options):
        fits.append(len(rows))
        return fit(booster, rows, *arguments, **options)

    monkeypatch.setattr(lightgbm.LGBMRegressor, "fit", counted)
    with Durable(path, new()) as model:
        np.testing.assert_array_equal(model.predict(X), expected)
    assert fits == [], f"opening fits to {fits} rows"
