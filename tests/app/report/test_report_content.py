"""What the report says, and that the same can be had from Python."""

import re

import matplotlib as mpl
import numpy as np
import pytest

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.app.report.elements import TOOLTIPS, with_tooltips

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


@pytest.mark.slow
def test_a_wrapped_model_has_a_report(tmp_path):
    from sklearn.linear_model import Ridge

    text = BatchToOnline(Ridge(), random_state=0).partial_fit(X, Y).report(tmp_path / "r.html").read_text()
    assert "RMSE</abbr> " in text
