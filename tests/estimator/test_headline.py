"""The first line: quality in units, distance to the best with its error, changes, order; and the error's guarantee."""

import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score, silhouette_score

from batch2online import BatchToOnline, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression, coresets
from batch2online.app.cli.app import run_safely
from batch2online.headline import distance
from batch2online.methods.clustering import solver
from batch2online.methods.clustering.problem import ClusteringProblem
from batch2online.problem import held_out_bound, sampling_error
from batch2online.results import Regret
from batch2online.sketches.base import Snapshot

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = 50 + X @ [3.0, -2.0, 0.0] + RNG.normal(size=400)


def predictions(X, Y):
    """What the model said of each row before it learned it; of the first row, the row itself."""
    model, said = OnlineRegression(random_state=0), [Y[0]]
    model.learn_one(X[0], Y[0])
    for row, target in zip(X[1:], Y[1:], strict=True):
        said.append(model.predict_one(row))
        model.learn_one(row, target)
    return model, np.array(said)


def test_quality_of_regression_is_that_of_its_predictions():
    model, said = predictions(X, Y)
    quality = dict(model.headline("price").quality)
    assert float(quality["R2"]) == pytest.approx(r2_score(Y, said), abs=1e-4)
    assert float(quality["RMSE"]) == pytest.approx(math.sqrt(mean_squared_error(Y, said)), rel=1e-3)
    assert float(quality["MAE"]) == pytest.approx(mean_absolute_error(Y, said), rel=1e-3)
    assert str(model.headline("price")).startswith("price: explains 89 % of the variance")
    assert "; R2 0.88" in str(model.headline("price"))
    assert repr(model).startswith(f"400 rows: {model.headline()}\nOnlineRegression(")


@pytest.mark.parametrize("offset", [0.0, 2008.0, 1e6])
@pytest.mark.parametrize("intercept", [True, False])
def test_an_exact_fit_is_said(offset, intercept):
    targets = X @ [1.0, 2.0, 3.0] + (offset if intercept else 0.0)
    model = OnlineRegression(fit_intercept=intercept, random_state=0).partial_fit(X, targets)
    assert model.headline().distance == "exact fit: nothing to compare with"
    assert not math.isinf(model.regret_.ratio)
    assert not model.regret_.ratio > 1e4


@pytest.mark.parametrize("constant", [0.0, 7.3, 2008.0])
def test_a_constant_target_is_fitted_exactly(constant):
    model = OnlineRegression(random_state=0).partial_fit(X, np.full(400, constant))
    assert str(model.headline()).startswith(
        "RMSE 0 (mean so far: 0), MAE 0 (mean so far: 0); exact fit: nothing to compare with; no change;"
    )
    assert model.regret_.ratio == 1.0


def test_rows_of_low_rank_and_few_distinct_rows_are_fitted_exactly():
    flat = np.outer(RNG.normal(size=200), [1.0, 2.0, 3.0])
    assert "exact fit" in OnlineLowRank(1, random_state=0).partial_fit(flat).headline().distance
    assert "exact fit" in OnlineLowRank(1, center=True, random_state=0).partial_fit(flat + 4).headline().distance
    few = np.repeat(X[:3], 50, axis=0)
    assert "exact fit" in OnlineClustering(3, random_state=0).partial_fit(few).headline().distance


def test_a_small_but_real_residual_is_no_exact_fit():
    noisy = X @ [1.0, 2.0, 3.0] + 1e-6 * RNG.normal(size=400)
    assert "nearly exactly" in OnlineRegression(random_state=0).partial_fit(X, noisy).headline().distance


def test_share_of_variance_and_mean_distance():
    centred = OnlineLowRank(2, center=True, random_state=0).partial_fit(X)
    kept = 1 - centred.regret_.loss / np.square(X - X.mean(axis=0)).sum()
    assert dict(centred.headline().quality)["variance kept"] == f"{kept:.2%}"
    clusters = OnlineClustering(3, random_state=0).partial_fit(X)
    quality = dict(clusters.headline().quality)
    assert float(quality["mean distance"]) == pytest.approx(clusters.regret_.secondary_loss / 400, rel=1e-3)
    assert float(quality["silhouette"]) == pytest.approx(silhouette_score(X, clusters.predict(X)), abs=1e-3)
    assert "silhouette" not in dict(OnlineClustering(3, history="coreset").partial_fit(X).headline().quality)


def test_other_estimators_have_a_headline():
    labels = np.where(Y > 50, "high", "low")
    model = OnlineClassifier(random_state=0).partial_fit(X, labels)
    accuracy = dict(model.headline().quality)["accuracy"]
    assert 80 < float(accuracy[:-1]) <= 100
    wrapped = BatchToOnline(Ridge(), random_state=0).partial_fit(X, Y)
    assert float(dict(wrapped.headline().quality)["RMSE"]) == pytest.approx(
        math.sqrt(wrapped.regret_.loss / 400), rel=1e-3
    )
    own = BatchToOnline(Ridge(), loss=lambda model, X, y: np.abs(y - model.predict(X)), random_state=0)
    assert "mean loss" in dict(own.partial_fit(X, Y).headline().quality)
    lasso = OnlineRegression(alpha=0.1, l1_ratio=1.0, random_state=0).partial_fit(X, Y)
    assert list(dict(lasso.headline().quality)) == ["MAE", "mean loss"]  # its loss is half a square
    early = OnlineRegression().partial_fit(X[:2], Y[:2])
    assert "no model yet: the first comes at row 10, 2 seen" in str(early.headline())
    assert "no rows yet" in OnlineRegression()._repr_html_()
    assert "2 rows" in early._repr_html_()


def test_a_ratio_below_one_says_why():
    estimated = Regret(98.0, 100.0, 9, 1.0, error=0.05)
    assert distance(estimated, "clustering known").endswith("(below 1: that is measured on the coreset alone)")
    followed = Regret(80.0, 100.0, 9, 1.0, error=0.05)
    assert "changed along with the rows" in distance(followed, "clustering known")
    assert "(" not in distance(Regret(102.0, 100.0, 9, 1.0), "fit")
    assert distance(Regret(1.0, math.nan, 9, 1.0), "fit") == "the best possible loss is not known"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (OnlineRegression(), "absolute residual"),
        (OnlineRegression(loss="huber"), "absolute residual"),
        (OnlineClassifier(), "errors"),
        (OnlineLowRank(2), "distance"),
        (OnlineClustering(2), "distance"),
    ],
    ids=str,
)
def test_the_secondary_loss_is_what_its_name_says(model, name):
    y = (Y > 0).astype(int) if name == "errors" else Y
    learned = model.set_params(random_state=0).partial_fit(X, y)
    assert learned.regret_.secondary_name == name
    fresh, found = type(model)(**model.get_params()).partial_fit(X[:300], y[:300]), 0.0
    before = fresh.regret_.secondary_loss
    points, targets = X[300:301], np.asarray(y[300:301], dtype=float)
    if name == "distance":
        found = math.sqrt(-fresh.score_samples(points)[0])
    else:
        answer = fresh.predict(points)[0]
        found = float(answer != targets[0]) if name == "errors" else abs(answer - targets[0])
    fresh.partial_fit(points, y[300:301])
    assert fresh.regret_.secondary_loss - before == pytest.approx(found, abs=1e-9)


def test_any_estimator_has_no_secondary_loss():
    regret = BatchToOnline(Ridge(), random_state=0).partial_fit(X, Y).regret_
    assert (regret.secondary_loss, regret.secondary_optimum, regret.secondary_name) == (None, None, "")
    assert not any(name.startswith("unsquared") for name in dir(regret))


def test_the_secondary_optimum_is_known_or_said_not_to_be():
    assert OnlineRegression().partial_fit(X, Y).regret_.secondary_optimum is None
    medians = OnlineClustering(2, z=1.0, random_state=0).partial_fit(X).regret_
    assert medians.secondary_optimum == medians.optimum
    assert OnlineClustering(2, random_state=0).partial_fit(X).regret_.secondary_optimum is None


def test_regret_is_computed_once_for_the_same_rows():
    model = OnlineClustering(3, random_state=0).partial_fit(X[:200])
    first = model.regret_
    assert model.regret_ is first
    model.learn_one(X[200])
    assert model.regret_.rows == 201


def test_the_terminal_begins_with_the_headline_wherever_the_origin_lies(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    first = []
    for offset in (0.0, 5000.0):
        table = Path("table.csv")
        rows = "\n".join(f"{a},{b},{y + offset}" for a, b, y in zip(X[:, 0], X[:, 1], Y, strict=True))
        table.write_text(f"a,b,price\n{rows}\n")
        assert run_safely(["run", str(table), "--task", "regression", "--target", "price", "--quiet"]) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 80
        first.append(out.strip().partition(" model ")[0].split())
    assert " ".join(first[0]).startswith("price: explains 8")
    assert "times that of the best possible linear fit" in " ".join(first[0])
    assert first[0] == first[1]


# -- how far a cost measured on the coreset may be off (Lemma 7) ----------------------------------------

SHAPES = {
    "clusters": lambda rng: rng.normal(size=(1500, 2)) + rng.integers(0, 4, size=(1500, 1)) * 6,
    "heavy tails": lambda rng: rng.standard_t(2.2, size=(1500, 2)),
    "a rare cluster": lambda rng: rng.normal(size=(1500, 2)) + 80 * (rng.random((1500, 1)) < 0.004),
}


def drawn(rows, seed, size, history):
    built = coresets.Clustering(4, coreset_size=size, history=history, random_state=seed)
    for start in range(0, len(rows), 500):
        built.add(rows[start : start + 500])
    return built


@pytest.mark.parametrize("history", ["memory", "coreset"])
@pytest.mark.parametrize("shape", SHAPES)
def test_mean_and_variance_of_a_measured_cost(shape, history):
    """Means over 80 seeds against the cost of all rows; five and a half standard errors: false once in 10^7."""
    rows = SHAPES[shape](np.random.default_rng(1))
    centers = rows[:4]
    losses = np.square(rows[:, None] - centers).sum(axis=2).min(axis=1)
    measured, variances = [], []
    for seed in range(80):
        coreset = drawn(rows, seed, 150, history).coreset()
        own = np.square(coreset.points[:, None] - centers).sum(axis=2).min(axis=1)
        measured.append(coreset.weights @ own)
        variances.append((coreset.weights * (coreset.weights - 1)) @ np.square(own))
    error = np.std(measured) / math.sqrt(len(measured))
    assert abs(np.mean(measured) - losses.sum()) < 5.5 * error
    assert np.mean(variances) == pytest.approx(np.var(measured), rel=0.8)


def test_the_optimum_of_all_rows_is_within_the_interval():
    """At most 1 in 20 beyond either end: so at most 10 of 36 but once in a million."""
    problem, found = ClusteringProblem(4), []
    for shape in SHAPES.values():
        rows = shape(np.random.default_rng(2))
        best = KMeans(4, n_init=10, random_state=0).fit(rows).inertia_
        for seed in range(12):
            built = drawn(rows, seed, 150, "coreset")
            known = problem.hindsight(Snapshot(built.sketch), problem.initial_model(None, 2, 0))
            found.append((best / known.optimum, 1 / (1 + known.error), 1 + known.shortfall))
    ratios, lows, highs = np.transpose(found)
    assert (ratios < lows).sum() <= 10
    assert (ratios > highs).sum() <= 10
    assert (ratios < 1 - (1 - lows) / 10).sum() > 1  # a tenth of either side would not do
    assert (ratios > 1 + (highs - 1) / 10).sum() > 10


@pytest.mark.parametrize("z", [1.0, 2.0])
@pytest.mark.few(1)
@pytest.mark.slow
def test_the_optimum_of_a_coreset_that_is_fitted_too_closely_is_within_the_interval(z):
    """Ten rows for each of 30 centers, in rows without groups: what these cost the coreset is far too little."""
    rows = np.random.default_rng(0).normal(size=(6_000, 12))
    best = solver.cost(rows, np.ones(len(rows)), solver.solve(rows, np.ones(len(rows)), 30, z, 0), z)
    for seed in range(3):
        known = (
            OnlineClustering(30, z=z, history="coreset", coreset_size=300, random_state=seed).partial_fit(rows).regret_
        )
        low, high = known.optimum_interval
        assert known.optimum < 0.9 * best
        assert low < best < high
        assert known.ratio_interval == (known.loss / high, known.loss / low)


@pytest.mark.parametrize("history", ["memory", "coreset"])
def test_what_is_held_out_costs_as_much_as_all_rows(history):
    """Mean and variance of the second part of Lemma 7, for centers that depend on the half they are fitted to."""
    rows = np.random.default_rng(5).standard_t(4, size=(2_000, 2))
    excess, variances = [], []
    for seed in range(80):
        coreset = drawn(rows, seed, 150, history).coreset()
        is_fitted = np.random.default_rng(seed).random(len(coreset)) < 0.5
        centers = coreset.points[is_fitted][:4]
        of_all, own = (np.square(each[:, None] - centers).sum(axis=2).min(axis=1) for each in (rows, coreset.points))
        raised, others = 2 * coreset.weights[~is_fitted] - 1, own[~is_fitted]
        excess.append((own[is_fitted].sum() + raised @ others) / of_all.sum() - 1)
        terms = raised * (raised - 1) * np.square(others)
        variances.append(terms.sum() / of_all.sum() ** 2)
        bound = held_out_bound(coreset.weights, own, is_fitted)
        cost = own[is_fitted].sum() + raised @ others
        assert bound == pytest.approx(cost + math.sqrt(19 * (terms.sum() + terms.max())))
    assert abs(np.mean(excess)) < 5.5 * np.std(excess) / math.sqrt(len(excess))
    assert np.mean(variances) == pytest.approx(np.var(excess), rel=0.8)


def test_one_side_alone_is_known_of_models_without_a_second_fit():
    known = Regret(102.0, 100.0, 50, 10.0, error=0.03)
    assert known.optimum_interval == (100 / 1.03, math.inf)
    assert known.ratio_interval == (0.0, pytest.approx(1.0506))
    assert "(at most 1.0506)" in distance(known, "fit")
    assert Regret(102.0, 100.0, 50, 10.0).ratio_interval == (1.02, 1.02)
    assert Regret(102.0, -3.0, 50, 10.0, error=0.03).optimum_interval == (-math.inf, math.inf)


def test_all_rows_leave_no_error():
    assert OnlineClustering(3, random_state=0).partial_fit(X).regret_.error == 0
    assert sampling_error(np.ones(5), np.arange(5.0)) == 0
    assert sampling_error(np.full(5, 2.0), np.zeros(5)) == 0
