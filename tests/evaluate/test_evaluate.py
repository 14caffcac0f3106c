"""The evaluation loop against loops written by hand, its rules, its orders and its results."""

import json
import math

import numpy as np
import pytest
from river import cluster, linear_model, preprocessing
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.linear_model import SGDRegressor
from threadpoolctl import threadpool_limits

from batch2online import OnlineClustering, OnlineLowRank, OnlineRegression, datasets, evaluate
from batch2online.evaluate.adapters import Adapter, fresh
from batch2online.evaluate.loop import thinned
from batch2online.refresh import EveryStep

X, Y = datasets.load_regression("diabetes")
ROWS = datasets.load_rows("digits")[:300]


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def shuffled(seed):
    return np.random.default_rng(seed).permutation(len(X))


def only(result):
    (run,) = result.rows
    return run


def away_from_means(values, start, stop):
    """How far rows lie from the mean of all before them; the first is at no distance from itself."""
    return np.array([values[t] - values[: max(t, 1)].mean(axis=0) for t in range(start, stop)])


# -- loops by hand ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_river_pipeline_as_by_hand():
    model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    by_hand, losses = model.clone(), []
    for t, i in enumerate(shuffled(0)):
        x = {str(column): value for column, value in enumerate(X[i].tolist())}
        losses.append((Y[i] - by_hand.predict_one(x)) ** 2 if t else 0.0)
        by_hand.learn_one(x, float(Y[i]))
    run = only(evaluate.prequential({"river": model}, X, Y, loss="squared", seeds=1))
    assert run.loss == math.fsum(losses)
    assert run.changes == len(X) - 1


@pytest.mark.parametrize("chunk", [1, 50])
def test_mini_batch_k_means_as_by_hand_waits_for_enough_rows(chunk):
    model = MiniBatchKMeans(5, n_init=1)
    order = np.random.default_rng(1).permutation(len(ROWS))
    by_hand, waiting, losses = clone(model).set_params(random_state=1), [], []
    for start in range(0, len(ROWS), chunk):
        x = ROWS[order[start : start + chunk]]
        if hasattr(by_hand, "cluster_centers_"):
            losses += list(cdist(x, by_hand.cluster_centers_, "sqeuclidean").min(axis=1))
        else:
            losses += list(np.square(away_from_means(ROWS[order], start, start + chunk)).sum(axis=1))
        waiting = np.concatenate([*waiting, x])[None]
        if waiting.shape[1] >= 5 or start >= 5:
            by_hand.partial_fit(waiting[0])
            waiting = []
    run = only(evaluate.prequential({"m": model}, ROWS, loss="clustering", seeds=[1], chunk=chunk))
    assert run.loss == pytest.approx(math.fsum(losses), rel=1e-12)
    assert run.optimum == pytest.approx(KMeans(5, n_init=10, random_state=0).fit(ROWS).inertia_, rel=1e-9)


OURS = {
    "regression": (OnlineRegression(random_state=3), X, Y, "squared"),
    "clustering": (OnlineClustering(4, random_state=3), ROWS, None, "clustering"),
    "lowrank": (OnlineLowRank(4, random_state=3), ROWS, None, "lowrank"),
    "pca": (OnlineLowRank(4, center=True, random_state=3), ROWS, None, "pca"),
}


@pytest.mark.parametrize("name", OURS)
def test_the_loss_is_the_one_our_estimator_reports_of_itself(name):
    model, rows, targets, loss = OURS[name]
    run = only(evaluate.prequential({"m": model}, rows, targets, loss=loss, seeds=[3], chunk=1))
    order = np.random.default_rng(3).permutation(len(rows))
    twin = clone(model).partial_fit(rows[order], *(() if targets is None else (targets[order],)))
    assert run.loss == pytest.approx(twin.regret_.loss, rel=1e-9)
    assert name == "clustering" or run.optimum == pytest.approx(twin.regret_.optimum, rel=1e-9)
    assert run.changes == twin.n_changes_


# -- rules --------------------------------------------------------------------------------------------


class Memoriser:
    """Knows the target of every row it has been handed, exactly."""

    def __init__(self):
        self.known = {}

    def partial_fit(self, X, y):
        self.known.update(zip(map(bytes, X), y, strict=True))

    def predict(self, X):
        return np.array([self.known.get(bytes(x), 0.0) for x in X])


class Peeker(Memoriser):
    """Learns from the rows it is asked about: shifts its predictions towards what it was asked last."""

    def predict(self, X):
        self.known[bytes(X[0])] = len(self.known)
        return np.full(len(X), float(len(self.known)))


class Vandal(OnlineRegression):
    """Overwrites the rows it is asked about, and those it is handed."""

    def predict(self, X):
        answer = super().predict(X)
        X[:] = 0.0
        return answer

    def partial_fit(self, X, y, sample_weight=None):
        super().partial_fit(X, y)
        X[:], y[:] = 0.0, 0.0
        return self


class LiveCenters:
    """Its centers are an array that moves onto each row it is handed: a reference to it would know the row."""

    n_clusters = 1

    def __init__(self):
        self.cluster_centers_ = np.zeros((1, 64))

    def partial_fit(self, X):
        self.cluster_centers_[:] = X[-1]


def test_rows_are_handed_over_after_they_were_scored():
    """A loop that learns before it asks gives the memoriser a loss of zero."""
    distinct = np.arange(20.0)[:, None]
    run = only(evaluate.prequential({"m": Memoriser()}, distinct, distinct[:, 0], loss="squared", seeds=1, chunk=4))
    first = np.random.default_rng(0).permutation(20)[:4].astype(float)
    unknown = np.square(np.arange(20.0)).sum() - np.square(first).sum()
    assert run.loss == pytest.approx(unknown + np.square(away_from_means(first, 0, 4)).sum(), rel=1e-12)
    twice = np.concatenate([distinct, distinct])
    run = only(evaluate.prequential({"m": Memoriser()}, twice, twice[:, 0], loss="squared", seeds=1, order="given"))
    assert run.loss == np.square(np.arange(20.0)).sum()


def test_models_are_copied_before_the_row_is_known():
    run = only(evaluate.prequential({"m": LiveCenters()}, ROWS, loss="clustering", seeds=[0], order="given"))
    moved = np.concatenate([ROWS[:1], ROWS[:-1]])
    assert run.loss == pytest.approx(np.square(ROWS - moved).sum(), rel=1e-12)


def test_a_learner_that_overwrites_its_rows_harms_nobody():
    kept, targets = X.copy(), Y.copy()
    result = evaluate.prequential({"a": Vandal(), "b": OnlineRegression()}, X, Y, loss="squared", seeds=1, chunk=9)
    assert result.rows[0].loss == result.rows[1].loss
    assert result.rows[0].churn == result.rows[1].churn > 0
    assert np.array_equal(X, kept)
    assert np.array_equal(Y, targets)


def test_a_learner_that_peeks_is_found_out():
    assert evaluate.peeks(Peeker(), X, Y, loss="squared")
    for honest in (Memoriser(), OnlineRegression(), SGDRegressor(), linear_model.LinearRegression()):
        assert not evaluate.peeks(honest, X[:100], Y[:100], loss="squared")
    assert not evaluate.peeks(OnlineLowRank(3), ROWS[:100], loss="lowrank")


# -- adapters -----------------------------------------------------------------------------------------


def test_fresh_copies_of_all_kinds():
    assert fresh(SGDRegressor, 3).random_state == 3
    assert fresh(lambda seed: SGDRegressor(random_state=seed + 1), 3).random_state == 4
    assert fresh(cluster.KMeans(n_clusters=2), 3).seed == 3
    assert fresh(lambda: Memoriser(), 3).known == {}
    original = Memoriser()
    assert fresh(original, 3) is not original


def test_what_cannot_learn_or_answer_says_so():
    with pytest.raises(TypeError, match="object cannot learn: it offers none of partial_fit, learn_one"):
        Adapter(object())
    with pytest.raises(
        TypeError, match="SGDRegressor cannot give centers: it offers none of cluster_centers_, centers"
    ):
        evaluate.prequential({"m": SGDRegressor()}, X, Y, loss=evaluate.ClusteringLoss(n_clusters=2), chunk=10)
    with pytest.raises(ValueError, match="has no n_clusters"):
        evaluate.prequential({"m": SGDRegressor()}, X, Y, loss="clustering")


def test_a_real_error_of_a_learner_is_not_swallowed():
    class Broken(MiniBatchKMeans):
        def partial_fit(self, X, y=None, sample_weight=None):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        evaluate.prequential({"m": Broken(4)}, ROWS, loss="clustering", seeds=1)


# -- losses -------------------------------------------------------------------------------------------


def test_losses_by_name_object_and_function():
    models = {"m": OnlineRegression()}
    absolute = only(evaluate.prequential(models, X, Y, loss="absolute", seeds=1, chunk=10))
    function = only(evaluate.prequential(models, X, Y, loss=lambda y, p: np.abs(y - p), seeds=1, chunk=10))
    assert absolute.loss == function.loss
    assert math.isnan(function.optimum)
    assert math.isnan(function.ratio)
    with pytest.raises(ValueError, match="Unknown loss 'hinge'"):
        evaluate.prequential(models, X, Y, loss="hinge")


def test_labels_may_be_words():
    class Last:
        def partial_fit(self, X, y):
            self.label = y[-1]

        def predict(self, X):
            return np.full(len(X), self.label)

    words = np.array(["a", "b", "b", "a", "a"])
    run = only(evaluate.prequential({"m": Last()}, X[:5], words, loss=lambda y, p: y != p, order="given", seeds=1))
    assert run.loss == 2.0  # the first row costs nothing, then two changes of label
    assert (run.changes, run.churn) == (2, 2.0)


def test_each_size_has_its_own_hindsight():
    result = evaluate.prequential(
        {"two": OnlineLowRank(2), "five": OnlineLowRank(5)}, ROWS, loss="lowrank", seeds=2, chunk=100
    )
    optima = {run.model: run.optimum for run in result}
    assert optima["two"] > optima["five"]
    assert {run.optimum for run in result if run.model == "two"} == {optima["two"]}


def test_hindsight_of_k_median_is_at_least_as_good_as_that_of_k_means():
    """On the line with two far groups the median of each is known."""
    line = np.array([0.0, 1, 2, 10, 100, 101, 102, 103, 110])[:, None]
    loss = evaluate.ClusteringLoss(z=1.0, n_clusters=2)
    assert loss.hindsight(line, None).sum() == pytest.approx(11 + 12, rel=1e-6)
    assert loss.losses(np.array([[1.5], [102.0]]), line, None).sum() == pytest.approx(11 + 12)


@pytest.mark.parametrize("warmup", [0, 60, 75, 150])
def test_losses_and_changes_are_counted_over_the_same_rows_for_all(warmup):
    """A learner that changes at every chunk changes once for each chunk that is scored."""
    models = {"ours": OnlineRegression(refresh=EveryStep()), "theirs": SGDRegressor()}
    result = evaluate.prequential(models, X, Y, loss="squared", seeds=1, chunk=30, warmup=warmup)
    chunks = -(-len(X) // 30)
    expected = {"ours": chunks - max(2, warmup // 30), "theirs": chunks - max(1, warmup // 30)}
    assert {run.model: run.changes for run in result} == expected  # ours has no model before row 33
    ours = next(curve for curve in result.curves if curve.model == "ours")
    assert ours.at[0] > warmup
    assert ours.changes[-1] == expected["ours"]


def test_several_targets():
    targets = np.column_stack([Y, -2 * Y])
    one, two = (
        only(evaluate.prequential({"m": OnlineRegression()}, X, t, loss="squared", seeds=1, chunk=20))
        for t in (Y, targets)
    )
    assert two.optimum == pytest.approx(5 * one.optimum, rel=1e-9)


# -- orders -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["given", "random", "sorted", "drifting", "adversarial", "blocks"])
def test_orders_are_permutations_that_depend_on_the_seed_alone(name):
    from batch2online.evaluate.orders import order_of

    hardness = np.square(Y)
    first, again = (order_of(name).permutation(X, hardness, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(np.sort(first), np.arange(len(X)))
    assert np.array_equal(first, again)


def test_orders_do_what_they_say():
    rng, hardness = np.random.default_rng(0), np.square(Y)
    assert np.all(np.diff(X[evaluate.Sorted(2).permutation(X, hardness, rng), 2]) >= 0)
    assert np.all(np.diff(hardness[evaluate.Adversarial().permutation(X, hardness, rng)]) >= 0)
    line = np.linspace(-1, 1, 1000)[:, None] * np.ones(3)
    drift = evaluate.Drifting(noise=0.5).permutation(line, hardness, rng)
    assert 0.5 < np.corrcoef(drift, np.arange(1000))[0, 1] < 0.99
    blocks = evaluate.Blocks(4).permutation(line, hardness, rng).reshape(4, 250) // 250
    assert np.all(blocks == blocks[:, :1])
    assert sorted(blocks[:, 0]) == [0, 1, 2, 3]


def test_drift_does_not_depend_on_units():
    one, other = (
        evaluate.Drifting().permutation(unit * X, np.square(Y), np.random.default_rng(3)) for unit in (1.0, 1024.0)
    )
    assert np.array_equal(one, other)


def test_learners_of_other_capacities_get_the_hardest_rows_in_one_order():
    """The rows that are hard for two clusters are not those that are hard for five."""
    received = {2: [], 5: []}

    class Remembers:
        def __init__(self, n_clusters):
            self.n_clusters = n_clusters

        def partial_fit(self, X):
            received[self.n_clusters] += X.tolist()
            self.cluster_centers_ = X[: self.n_clusters]

    models = {"two": lambda: Remembers(2), "five": lambda: Remembers(5)}
    evaluate.prequential(models, ROWS[:100], loss="clustering", order="adversarial", seeds=1, chunk=50)
    assert received[2] == received[5]


def test_an_order_may_be_given_as_row_numbers():
    models = {"m": OnlineRegression()}
    given = evaluate.prequential(models, X, Y, loss="squared", order=shuffled(0), seeds=[0], chunk=10)
    assert only(given).loss == only(evaluate.prequential(models, X, Y, loss="squared", seeds=[0], chunk=10)).loss
    with pytest.raises(ValueError, match="each of the row numbers 0 to 441 once"):
        evaluate.prequential(models, X, Y, loss="squared", order=[0, 0, 1])
    with pytest.raises(ValueError, match="Unknown order 'backwards'"):
        evaluate.prequential(models, X, Y, loss="squared", order="backwards")


# -- results ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result():
    models = {"ours": OnlineRegression(), "SGD": SGDRegressor()}
    return evaluate.prequential(models, X, Y, loss="squared", seeds=3, chunk=5, warmup=20, memory=True)


@pytest.mark.slow
def test_records_read_by_attribute_and_by_name(result):
    run = result.rows[0]
    assert (run["ratio"], dict(run)["changes"]) == (run.ratio, run.changes)
    assert set(run.keys()) == set(result.to_frame().columns)
    assert len(result) == 6 == len(list(result))
    with pytest.raises(KeyError):
        run["_own"]


def test_curves_end_in_the_totals(result):
    for run, curve in zip(result.rows, result.curves, strict=True):
        assert curve.at[-1] == len(X)
        assert curve.at[0] > 20
        assert curve.loss[-1] == pytest.approx(run.loss, rel=1e-12)
        assert curve.optimum[-1] == pytest.approx(run.optimum, rel=1e-12)
        assert curve.changes[-1] == run.changes
        assert np.all(np.diff(curve.changes) >= 0)
    at, mean, deviation = result.curve("SGD", "regret")
    assert mean[-1] == pytest.approx(result.mean("SGD", "regret"), rel=1e-12)
    assert deviation[-1] == pytest.approx(np.std([run.regret for run in result if run.model == "SGD"], ddof=1))
    assert len(at) == len(mean)


def test_json_there_and_back(result, tmp_path):
    text = result.to_json(tmp_path / "result.json")
    for source in (text, tmp_path / "result.json"):
        again = evaluate.Result.from_json(source)
        assert again.rows == result.rows
        assert again.to_json() == text
    unknown = evaluate.prequential({"m": SGDRegressor()}, X, Y, loss=lambda y, p: y * p, seeds=1, chunk=50)
    json.loads(unknown.to_json(), parse_constant=pytest.fail)
    assert math.isnan(evaluate.Result.from_json(unknown.to_json()).rows[0].optimum)


def test_parallel_runs_give_the_same(result):
    models = {"ours": OnlineRegression(), "SGD": SGDRegressor()}
    parallel = evaluate.prequential(models, X, Y, loss="squared", seeds=3, chunk=5, warmup=20, jobs=2)
    assert [(r.model, r.seed, r.loss, r.changes) for r in parallel] == [
        (r.model, r.seed, r.loss, r.changes) for r in result
    ]


def test_peak_memory_sees_what_a_learner_keeps():
    class Hoarder(Memoriser):
        def partial_fit(self, X, y):
            self.known.setdefault("rows", []).append(np.ones((len(X), 1000)))

    models = {"hoarder": Hoarder(), "SGD": SGDRegressor()}
    hoarder, sgd = evaluate.prequential(models, X, Y, loss="squared", seeds=1, chunk=20, memory=True)
    assert hoarder.peak_memory > 8 * 1000 * len(X) > 4 * sgd.peak_memory


def test_the_bar_goes_to_standard_error(capsys):
    evaluate.prequential({"m": SGDRegressor()}, X, Y, loss="squared", seeds=2, chunk=50, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "prequential [##############################] 2/2" in captured.err


def test_plots_hold_a_line_for_each_learner(result):
    import matplotlib

    matplotlib.use("Agg")
    axes = result.plot("changes")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "SGD"]
    assert axes.get_ylabel() == "model changes"
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"chunk": 0}, "chunk"), ({"warmup": 442}, "warmup"), ({"seeds": []}, "seeds"), ({"models": {}}, "models")],
)
def test_bad_settings_are_refused(options, message):
    settings = {"models": {"m": SGDRegressor()}, "loss": "squared"} | options
    with pytest.raises(ValueError, match=message):
        evaluate.prequential(settings.pop("models"), X, Y, **settings)


def test_curves_are_thinned_at_ends_of_chunks():
    ends = thinned(10_050, 100)
    assert ends[-1] == 10_050
    assert np.all(ends[:-1] % 100 == 0)
    assert len(thinned(1_000_000, 1)) <= 200
