"""What the report says, and that the same can be had from Python."""

import re

import matplotlib as mpl
import numpy as np
import pytest

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, load
from batch2online.app.report import context, regression
from batch2online.app.report.elements import TOOLTIPS, with_tooltips
from batch2online.methods.least_squares.problem import standard_errors
from batch2online.refresh import Geometric
from batch2online.results import ChangeEvent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4)) * [1.0, 5.0, 1.0, 1.0] + np.repeat([[0.0], [6.0]], 300, axis=0)[RNG.permutation(600)]
Y = 3 * X[:, 0] - X[:, 1] + RNG.normal(size=600)


def models():
    return {
        "regression": OnlineRegression(random_state=0).partial_fit(X, Y),
        "two targets": OnlineRegression(random_state=0).partial_fit(X, np.column_stack([Y, -Y])),
        "absolute": OnlineRegression(loss="absolute", random_state=0).partial_fit(X, Y),
        "low rank": OnlineLowRank(2, random_state=0).partial_fit(X),
        "clusters": OnlineClustering(3, random_state=0).partial_fit(X),
        "classes": OnlineClassifier(random_state=0).partial_fit(X, Y > 0),
        "one column": OnlineClustering(2, random_state=0).partial_fit(X[:, :1]),
        "no model yet": OnlineRegression().partial_fit(X[:3], Y[:3]),
    }


@pytest.mark.parametrize("name", models())
@pytest.mark.few(3)
@pytest.mark.slow
def test_every_model_has_a_report_a_picture_and_a_card(name, tmp_path):
    model = models()[name]
    text = model.report(tmp_path / "report.html", target="price").read_text()
    assert f"{model.n_seen_:,} rows" in text
    assert '<p class="verdict">price: ' in text
    assert not re.search(r"nan|inf\b", re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL))
    mpl.use("agg")
    axes = model.plot()
    assert axes.get_title()
    mpl.pyplot.close(axes.figure)
    assert model.plot(axes) is axes
    card = model._repr_html_()
    assert f"{model.n_seen_:,} rows" in card
    assert model._repr_mimebundle_()["text/html"] == card


def test_the_verdict_comes_first_and_words_are_explained(tmp_path):
    text = models()["clusters"].report(tmp_path / "r.html").read_text()
    body = text[text.index("<body>") :]
    assert body.index('class="verdict"') < body.index('class="tile"') < body.index("<section>")
    assert re.search(r'<abbr title="[^"]+">mean distance</abbr>', body)
    assert with_tooltips("coreset & coresets").count("<abbr") == 1
    assert all('"' not in meaning and "<" not in meaning for meaning in TOOLTIPS.values())


def test_a_change_names_the_coefficients_that_moved_most():
    model = OnlineRegression(solve="exact", refresh=Geometric(2.0, start=100), random_state=0).partial_fit(X, Y)
    before, after = (
        np.linalg.lstsq(np.column_stack([np.ones(n), X[:n]]), Y[:n], rcond=None)[0][1:] for n in (100, 200)
    )
    event = model.changes_[0]
    effects = np.abs(after - before) * X[:200].std(axis=0)
    assert [j for j, _, _ in event.coefficients] == np.argsort(-effects)[:3].tolist()
    for j, old, new in event.coefficients:
        assert (old, new) == pytest.approx((before[j], after[j]), rel=1e-6)
    told = context.described(context.model_context(model), event)
    assert f"x{event.coefficients[0][0] + 1} from " in told
    assert "root mean square" in told


def test_a_change_is_kept_in_files(tmp_path):
    model = OnlineRegression(refresh=Geometric(2.0), random_state=0).partial_fit(X, Y)
    model.save(tmp_path / "m.b2o")
    assert load(tmp_path / "m.b2o").changes_ == model.changes_
    assert ChangeEvent(1, "fit", 0.0, 1.0, 1.0).coefficients is None


@pytest.mark.parametrize("intercept", [True, False])
def test_standard_errors_are_those_of_the_textbook(intercept):
    model = OnlineRegression(fit_intercept=intercept, random_state=0).partial_fit(X, Y)
    design = np.column_stack([np.ones(len(X)), X]) if intercept else X
    _, residual, *_ = np.linalg.lstsq(design, Y, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * residual[0] / (len(X) - design.shape[1])
    expected = np.sqrt(np.diag(covariance))[int(intercept) :]
    found = standard_errors(model._stream.view().snapshot())
    assert found == pytest.approx(expected[None], rel=1e-6)


def test_intervals_are_widened_by_how_far_the_model_is_from_the_best():
    """The interval around a coefficient that is shown holds that of the best model with its own interval."""
    stale = OnlineRegression(refresh=Geometric(100.0, start=30), random_state=0).partial_fit(X, Y)
    best = OnlineRegression(refresh=Geometric(2.0), random_state=0).fit(X, Y)
    apart = np.abs(stale.coef_ - best.coef_)
    errors = 1.96 * standard_errors(stale._stream.view().snapshot())[0]
    assert (apart > errors).any()  # else the interval would hold it in any case
    np.testing.assert_allclose(regression.interval_widths(stale), errors + apart, rtol=1e-6)
    np.testing.assert_allclose(regression.interval_widths(best), errors, rtol=1e-6)


@pytest.mark.slow
def test_a_wrapped_model_has_a_report(tmp_path):
    from sklearn.linear_model import Ridge

    text = BatchToOnline(Ridge(), random_state=0).partial_fit(X, Y).report(tmp_path / "r.html").read_text()
    assert "RMSE</abbr> " in text
