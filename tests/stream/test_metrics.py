"""Measures of quality are plain averages over all rows, whatever is forgotten; and few rows with most of the loss."""

import json
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, mean_squared_error, r2_score
from sklearn.neighbors import KernelDensity

import batch2online
from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, refresh
from batch2online.app.cli.app import run_safely
from batch2online.problem import totals_of
from batch2online.record import Record
from batch2online.rows import Rows, ones

RNG = np.random.default_rng(0)
N = 900
X = RNG.normal(size=(N, 3))
Y = 20 + X @ [1.0, 2.0, 3.0] + np.linspace(3, 0.5, N) * RNG.normal(size=N)
LABELS = np.where(X[:, 0] + np.linspace(2, 0.2, N) * RNG.normal(size=N) > 0, "yes", "no")
FORGETTING = [{"half_life": 150}, {"window": 200}, {"half_life": "auto"}]


def named(settings):
    return "-".join(f"{name}={value}" for name, value in settings.items())


def followed(model, X, y=None, answer=None):
    """What a model said of each row before it learned it, of all rows but the first, and the model."""
    said = []
    for i in range(len(X)):
        if i:
            said.append(answer(model, X[i : i + 1]))
        model.partial_fit(X[i : i + 1], None if y is None else y[i : i + 1])
    return np.array(said), model


def last_rows(model):
    return model.headline().recent_rows


@pytest.mark.parametrize("settings", [{}, *FORGETTING], ids=named)
def test_averages_of_regression_are_those_of_its_predictions(settings):
    said, model = followed(OnlineRegression(random_state=0, **settings), X, Y, lambda model, row: model.predict(row)[0])
    said = np.concatenate([Y[:1], said])
    assert model.metrics_["R2"] == pytest.approx(r2_score(Y, said), rel=1e-9)
    assert model.metrics_["RMSE"] == pytest.approx(math.sqrt(mean_squared_error(Y, said)), rel=1e-9)
    assert model.metrics_["MAE"] == pytest.approx(mean_absolute_error(Y, said), rel=1e-9)
    m = last_rows(model)
    assert m == {"": 0, "half_life=150": 150, "window=200": 200, "half_life=auto": 0}[named(settings)]
    if m:
        assert model.recent_metrics_ == pytest.approx(
            {"RMSE": math.sqrt(mean_squared_error(Y[-m:], said[-m:])), "MAE": mean_absolute_error(Y[-m:], said[-m:])}
        )


def test_averages_without_an_intercept_are_around_zero():
    targets = Y - 5
    plain, decayed = (
        OnlineRegression(fit_intercept=False, half_life=h, random_state=0).partial_fit(X, targets)
        for h in (None, 10**9)
    )
    assert decayed.metrics_["R2"] == pytest.approx(plain.metrics_["R2"], abs=1e-6)
    low, faded = (OnlineLowRank(2, half_life=h, random_state=0).partial_fit(X + 3) for h in (None, 10**9))
    assert faded.metrics_ == pytest.approx(low.metrics_, rel=1e-6)


@pytest.mark.parametrize("settings", FORGETTING, ids=named)
@pytest.mark.few(1)
@pytest.mark.slow
def test_averages_of_labels_are_those_of_the_predictions(settings):
    start = 60
    early = OnlineClassifier(random_state=0, **settings).partial_fit(X[:start], LABELS[:start])
    before = early.stream_.performance().averages
    said, model = followed(early, X[start:], LABELS[start:], lambda model, row: model.predict_proba(row)[0])
    first = OnlineClassifier(random_state=0, **settings).partial_fit(X[:start], LABELS[:start])
    shares = np.concatenate([first.predict_proba(X[start : start + 1]), said])
    after, truth = model.stream_.performance().averages, LABELS[start:]
    loss = log_loss(truth, shares, labels=["no", "yes"], normalize=False)
    assert after.loss - before.loss == pytest.approx(loss, rel=1e-9)
    wrong = accuracy_score(truth, np.array(["no", "yes"])[shares.argmax(axis=1)], normalize=False)
    assert after.secondary_loss - before.secondary_loss == len(truth) - wrong
    assert model.metrics_["accuracy"] == 1 - after.secondary_loss / N
    assert model.metrics_["log loss"] == after.loss / N
    if last_rows(model):
        m = last_rows(model)
        expected = log_loss(truth[-m:], shares[-m:], labels=["no", "yes"])
        assert model.recent_metrics_["log loss"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("settings", FORGETTING, ids=named)
@pytest.mark.parametrize("make", [lambda **s: OnlineClustering(3, **s), lambda **s: OnlineLowRank(1, **s)])
def test_averages_of_rows_without_targets_are_those_of_their_distances(make, settings):
    spread = np.linspace(3, 0.5, N)[:, None] * X
    said, model = followed(
        make(random_state=0, **settings), spread, answer=lambda model, row: -model.score_samples(row)[0]
    )
    start = 100
    early = make(random_state=0, **settings).partial_fit(spread[: start + 1]).stream_.performance().averages
    late = model.stream_.performance().averages
    assert late.loss - early.loss == pytest.approx(said[start:].sum(), rel=1e-9)
    assert late.secondary_loss - early.secondary_loss == pytest.approx(np.sqrt(said[start:]).sum(), rel=1e-9)
    if isinstance(model, OnlineLowRank):
        assert model.metrics_["variance kept"] == pytest.approx(1 - late.loss / np.square(spread).sum(), rel=1e-9)


@pytest.mark.parametrize("settings", FORGETTING, ids=named)
@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression()], ids=lambda each: type(each).__name__)
@pytest.mark.few(1)
@pytest.mark.slow
def test_averages_of_any_estimator_do_not_decay(estimator, settings):
    y = Y if isinstance(estimator, Ridge) else LABELS
    loss = "squared" if isinstance(estimator, Ridge) else "zero_one"
    make = lambda: BatchToOnline(estimator, loss=loss, random_state=0, **settings)  # noqa: E731
    said, model = followed(make(), X, y, lambda model, row: model.predict(row)[0] if model.has_model_ else None)
    start = next(i for i, each in enumerate(said) if each is not None)
    early = make().partial_fit(X[: start + 1], y[: start + 1]).stream_.performance().averages
    gained = model.stream_.performance().averages.loss - early.loss
    if loss == "squared":
        assert gained == pytest.approx(np.square(Y[start + 1 :] - said[start:].astype(float)).sum(), rel=1e-9)
    else:
        assert gained == np.sum(LABELS[start + 1 :] != said[start:])


@pytest.mark.slow
def test_half_lives_that_take_over_do_not_rewrite_the_past():
    n = 4_000
    rows = RNG.normal(size=(n, 2))
    slopes = np.where(np.arange(n)[:, None] < 2_000, [1.0, 2.0], [-4.0, 3.0])
    targets = (rows * slopes).sum(axis=1) + 0.1 * RNG.normal(size=n)
    said, model = followed(
        OnlineRegression(half_life="auto", random_state=0), rows, targets, lambda model, row: model.predict(row)[0]
    )
    assert any(event.kind == "half_life" for event in model.changes_)
    away = np.concatenate([[0.0], said - targets[1:]])
    assert model.metrics_["RMSE"] == pytest.approx(math.sqrt(np.square(away).mean()), rel=1e-9)
    assert model.recent_metrics_["MAE"] == pytest.approx(np.abs(away[-1000:]).mean(), rel=1e-9)
    assert model.recent_metrics_["RMSE"] < model.metrics_["RMSE"] / 1.5


@pytest.mark.parametrize("settings", [{}, *FORGETTING], ids=named)
def test_averages_weigh_rows_as_given_and_survive_copies_merges_and_files(settings, tmp_path):
    weights = RNG.uniform(0.5, 2, size=N)
    half, rest = slice(0, 500), slice(500, None)
    model = OnlineRegression(random_state=0, **settings).partial_fit(X[half], Y[half], weights[half])
    model.save(tmp_path / "model.b2o")
    model = batch2online.load(tmp_path / "model.b2o").partial_fit(X[rest], Y[rest], weights[rest])
    whole = OnlineRegression(random_state=0, **settings).partial_fit(X, Y, weights)
    assert (model.metrics_, model.recent_metrics_) == (whole.metrics_, whole.recent_metrics_)
    assert whole.stream_.performance().averages.weight == pytest.approx(weights.sum())
    parts = [
        OnlineRegression(random_state=0, first_id=part.start, **settings).partial_fit(X[part], Y[part], weights[part])
        for part in (half, rest)
    ]
    losses = [part.stream_.performance().averages.loss for part in parts]
    merged, other = parts[1].merge(parts[0]), parts[0]
    assert merged.stream_.performance().averages.loss == pytest.approx(sum(losses), rel=1e-12)
    total = merged.stream_.performance().averages.total
    assert total == pytest.approx(weights @ np.square(Y - np.average(Y, weights=weights)), rel=1e-9)
    if merged.recent_metrics_:
        assert merged.headline().recent_rows == whole.headline().recent_rows
    assert other.n_seen_ == 500


def test_forgotten_rows_leave_the_averages():
    y = Y.copy()
    y[700] = 1e6
    make = lambda: OnlineRegression(half_life=150, keep_history=True, random_state=0)  # noqa: E731
    model = make().partial_fit(X, y)
    assert model.metrics_["RMSE"] > 1e4
    model.forget([700])
    assert model.metrics_["RMSE"] < 10
    assert model.stream_.performance().handful is None


# -- a few rows with most of the loss -----------------------------------------------------------------


def test_a_handful_of_rows_with_most_of_the_loss_is_named():
    y = Y.copy()
    y[[300, 650]] += [4_000, -3_000]
    for settings in ({}, *FORGETTING):
        model = OnlineRegression(random_state=0, **settings).partial_fit(X, y)
        found = model.stream_.performance().handful
        assert found.ids[0] == 300
        assert 0.5 < found.share <= 1
        said = model.headline().handful
        assert said in str(model.headline()).split("; ")
        assert said.startswith(f"{found.rows} of 900 rows hold")
        assert ("ids 300, 650" if found.rows == 2 else "id 300") in said
        assert said in model._repr_html_()
    assert OnlineRegression(random_state=0).partial_fit(X, Y).headline().handful == ""


def test_largest_losses_are_exact_whatever_the_chunks_and_merges():
    losses = RNG.pareto(1.0, size=5_000)
    losses[1000] = losses[2000] = losses.max()
    rows = Rows(np.zeros((5_000, 1)), np.zeros((5_000, 0)), ones(5_000), np.arange(5_000))

    def recorded(*cuts):
        record = Record()
        for some in np.split(np.arange(5_000), cuts):
            record = record.plus(rows[some], totals_of(losses[some], losses[some]))
        return record

    order = np.lexsort((np.arange(5_000), -losses))[:10]
    halves = [Record().plus(rows[s], totals_of(losses[s], losses[s])) for s in (slice(0, 2500), slice(2500, None))]
    for record in (
        recorded(),
        recorded(3, 1_500, 1_501),
        recorded(*range(7, 5_000, 7)),
        halves[0].merge(halves[1]),
        halves[1].merge(halves[0]),
    ):
        assert record.largest_ids.tolist() == order.tolist()
        np.testing.assert_array_equal(record.largest, losses[order])


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([100.0] + [1.0] * 99, 1),
        ([100.0] + [1.0] * 98, None),  # fewer than a hundred rows
        ([99.0] + [1.0] * 99, None),  # half, not more
        ([1000.0] * 10 + [1.0] * 990, 6),
        ([1.0] * 1000, None),
        ([0.0] * 1000, None),
        ([1e6] + [-1.0] * 999, None),  # a density: there are no shares
    ],
)
def test_what_a_handful_is(losses, expected):
    losses = np.array(losses)
    n = len(losses)
    rows = Rows(np.zeros((n, 1)), np.zeros((n, 0)), ones(n), np.arange(n))
    found = Record().plus(rows, totals_of(losses, losses)).handful()
    assert (None if found is None else found.rows) == expected


def test_a_weight_counts_as_so_many_rows_in_a_handful():
    weights = np.ones(N)
    weights[123] = 1e5
    model = OnlineRegression(random_state=0).partial_fit(X, Y, weights)
    assert model.stream_.performance().handful.ids == (123,)


def test_errors_that_are_counted_are_no_handful():
    labels = np.where(np.arange(N) % 300 == 7, "odd", "even")
    model = BatchToOnline(LogisticRegression(), loss="zero_one", random_state=0).partial_fit(X, labels)
    assert 0 < model.regret_.loss < 10
    assert model.headline().handful == ""


# -- losses that nothing scores before the first model ------------------------------------------------


def constant(points, weights):
    return 0.0


def costs_one(model, points):
    return np.ones(len(points))


def own(start=100, **settings):
    return BatchToOnline(
        constant, loss=costs_one, refresh=refresh.Geometric(1.1, start=start), random_state=0, **settings
    )


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"half_life": 80}, {"window": 150}, {"window": 420}, {"half_life": "auto"}], ids=named
)
@pytest.mark.parametrize("start", [20, 100, 400])
def test_a_loss_of_ones_own_is_compared_on_the_rows_that_were_scored(start, settings, keep):
    model = own(start, keep_history=keep, coreset_size=5_000, **settings).partial_fit(X[:500])
    regret = model.regret_
    sampled = not keep and settings == {"half_life": 80}
    assert regret.ratio == pytest.approx(1.0, rel=1e-3 if sampled else 1e-12)
    assert regret.loss == pytest.approx(regret.weight, rel=1e-12)
    if "window" not in settings:
        assert regret.rows == 500 - start
    assert model.metrics_ == {"mean loss": 1.0}
    assert model.stream_.performance().averages.rows == 500 - start


def test_a_sampled_coreset_estimates_the_optimum_of_scored_rows():
    model = own(400, coreset_size=150).partial_fit(X)
    low, high = model.regret_.ratio_interval
    assert low <= 1 <= high
    assert model.regret_.ratio == pytest.approx(1, abs=0.2)
    assert model.regret_.rows == 500


def test_rows_that_were_not_scored_are_left_out_after_merging_forgetting_and_loading(tmp_path):
    parts = [own(100, first_id=a, keep_history=True).partial_fit(X[a : a + 300]) for a in (0, 300)]
    merged = parts[0].merge(parts[1])
    assert (merged.regret_.loss, merged.regret_.optimum, merged.regret_.rows) == (400.0, 400.0, 400)
    merged.save(tmp_path / "merged.b2o")
    again = BatchToOnline.restore(tmp_path / "merged.b2o", estimator=constant, loss=costs_one)
    assert again.regret_ == merged.regret_
    merged.forget(np.arange(50, 350))
    assert (merged.regret_.loss, merged.regret_.optimum, merged.regret_.rows) == (200.0, 200.0, 200)


def test_nothing_is_claimed_before_a_row_is_scored():
    model = own(100).partial_fit(X[:100])
    assert (model.regret_.loss, model.regret_.rows, model.metrics_) == (0.0, 0, {})
    assert math.isnan(model.regret_.ratio)
    assert "not known" in str(model.headline())
    assert own(100).partial_fit(X[:50]).metrics_ == {}


@pytest.mark.slow
def test_a_density_is_compared_on_the_rows_that_were_scored():
    density, loss = KernelDensity(bandwidth=0.7), "negative_log_likelihood"
    model = BatchToOnline(
        density, loss=loss, keep_history=True, refresh=refresh.Geometric(2, start=300), random_state=0
    )
    model.partial_fit(X)
    assert model.regret_.rows == 600
    best = min(-each.score_samples(X[300:]).sum() for each in (density.fit(X), model._stream.view().model.model))
    assert model.regret_.out_of_sample
    assert best < model.regret_.optimum < 1.02 * best
    assert model.metrics_["mean loss"] == pytest.approx(model.regret_.loss / 600)
    narrow = BatchToOnline(KernelDensity(bandwidth=1e-3), loss=loss, random_state=0).partial_fit(1e-3 * X)
    assert narrow.metrics_["mean loss"] < 0
    assert narrow.headline().handful == ""


# -- where people read it -----------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    y = Y.copy()
    y[500] = 9_999
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,price", comments="")
    return path


@pytest.mark.parametrize(("option", "of"), [("--half-life", "weighted by a half-life of 150"), ("--window", "last")])
@pytest.mark.slow
def test_the_command_names_what_is_averaged(table, tmp_path, option, of, capsys):
    out = tmp_path / "out"
    command = ["run", str(table), "--task", "regression", "--target", "price", option, "150"]
    assert run_safely([*command, "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    model = batch2online.load(out / "model.b2o")
    assert result["metrics"] == pytest.approx(model.metrics_)
    assert (result["metrics_rows"], result["recent_metrics_rows"]) == (900, 150)
    assert result["recent_metrics"] == pytest.approx(model.recent_metrics_)
    assert result["rows_with_most_of_the_loss"]["ids"] == [500]
    assert of in result["regret_of"]
    assert "over all 900 rows, over the last 150 rows RMSE" in result["headline"]
    page = (out / "report.html").read_text()
    for words in ("over all 900 rows", "over the last 150 rows", "1 of 900 rows holds"):
        assert words in page, words
    assert page.count("weighted by a half-life of 150" if "half" in option else "rows in the window") >= 3
    assert run_safely(["show", str(out / "model.b2o")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "over all 900 rows" in shown
    assert shown.count(of) >= 4
    assert run_safely(["show", str(out / "model.b2o"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == pytest.approx(model.metrics_)
