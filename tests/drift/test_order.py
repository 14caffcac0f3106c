"""The monitor of the order: exact laws, false alarms, planted peeks, any chunking, files, merging, forgetting."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression

import batch2online
from batch2online import BatchToOnline, OnlineClustering, OnlineLowRank, OnlineRegression, evaluate, refresh
from batch2online.app.cli.app import run_safely
from batch2online.drift import betting
from batch2online.drift.betting import BINS, BLOCK, CELLS, BettingCapital, ranked
from batch2online.drift.order_monitor import FREEZES, LEVEL, OrderMonitor, runs_of
from batch2online.drift.reference_model import THINNINGS, ReferenceModel, WatchedBlocks, n_watched
from batch2online.rows import Rows, ones
from batch2online.schema import check_instance


def stream(n=9_000, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] - X[:, 1] + rng.normal(size=n)


def rows_of(X, y, first=0):
    targets = np.empty((len(X), 0)) if y is None else y.reshape(len(X), -1)
    return Rows(X, targets, ones(len(X)), np.arange(first, first + len(X)))


def watched(X, y, cuts=(), seed=0):
    monitor = OrderMonitor.new(X.shape[1], 0 if y is None else 1)
    for part in np.split(np.arange(len(X)), cuts):
        if len(part):
            monitor = monitor.observe(rows_of(X[part], None if y is None else y[part], part[0]), seed).with_bets()
    return monitor


def same(one, other):
    for name, value in vars(one).items():
        theirs = getattr(other, name)
        if hasattr(value, "__dataclass_fields__"):
            same(value, theirs)
        elif isinstance(value, tuple):
            assert bool(value) == bool(theirs)  # rows that are kept, in whatever parts
            parts = (np.concatenate([part.points for part in rows]) for rows in (value, theirs) if rows)
            np.testing.assert_array_equal(*(parts if value else ((), ())))
        else:
            np.testing.assert_array_equal(value, theirs, err_msg=name)


# -- laws ------------------------------------------------------------------------------------------


def test_ranks_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    bins = rng.integers(0, BINS, size=(3, 5, BLOCK)).astype(np.uint8)
    bins[0], bins[1] = 7, bins[1] // 16
    u, counts = rng.random((5, BLOCK)), np.tile(rng.integers(0, 5, size=BINS), (3, 1))
    found, after = ranked(bins, u, counts)
    for k in range(3):
        seen = counts[k].copy()
        for block in range(5):
            expected = np.zeros(CELLS, dtype=int)
            for own, uniform in zip(bins[k, block], u[block], strict=True):
                rank = (seen[:own].sum() + uniform * (seen[own] + 1)) / (seen.sum() + 1)
                expected[int(rank * CELLS)] += 1
                seen[own] += 1
            np.testing.assert_array_equal(found[block, k], expected)
        np.testing.assert_array_equal(after[k], seen)


def test_every_bet_is_fair():
    """A payoff has mean one over the cells, whatever was seen: then capital is a martingale for uniform ranks."""
    np.testing.assert_allclose(np.exp(betting._FIXED).mean(axis=1), 1, rtol=1e-12)
    rng = np.random.default_rng(0)
    past = rng.integers(0, 500, size=(1, 3, 2, CELLS)).astype(float)
    one_rank = np.eye(CELLS, dtype=int)  # a block of a single rank, in each of the cells
    gains = [np.exp(betting._log_gains(np.tile(cell, (1, 2, 1)), past)) for cell in one_rank]
    np.testing.assert_allclose(np.mean(gains, axis=0), 1, rtol=1e-12)


def test_shares_are_spread_without_loss():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(BLOCK, np.full(CELLS, 1 / CELLS), size=(50, 2))
    capital, logarithms = BettingCapital.of(2).after(counts)
    np.testing.assert_allclose(capital.shares.sum(axis=1), 1, rtol=1e-12)
    assert (capital.shares > 0).all()
    assert logarithms.shape == (50, 2)


def capital_by_definition(counts):
    """The logarithm of the capital after each block, one score: payoffs, shares and memories as the module says."""
    middles = (np.arange(CELLS) + 0.5) / CELLS - 0.5
    tails = 4 * np.abs(middles) - 1  # mean zero
    bets = [e * middles for e in (0.3, -0.3, 0.8, -0.8, 1.6, -1.6)] + [e * tails for e in (0.3, -0.3, 0.8, -0.8)]
    tables, memories = [np.ones(CELLS), *(1 + bet for bet in bets)], [1.0, 0.98, 0.85]
    n = len(tables) + len(memories)
    start = np.array([0.5] + [0.5 / (n - 1)] * (n - 1))
    shares, capital, found, past = start, 1.0, [], [np.zeros(CELLS) for _ in memories]
    for block, own in enumerate(counts):
        learned = [(seen + 8) * CELLS / (seen + 8).sum() for seen in past]
        gains = np.array([np.prod(table**own) for table in (*tables, *learned)])
        factor = (shares * gains).sum()
        capital, rate = capital * factor, 1 / (block + 2)
        shares = (1 - rate) * shares * gains / factor + rate * start
        past = [memory * seen + own for memory, seen in zip(memories, past, strict=True)]
        found.append(np.log(capital))
    return found


def test_capital_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    tilted = np.linspace(0.6, 1.4, CELLS) / CELLS  # ranks that are high more often than low
    counts = np.stack([rng.multinomial(BLOCK, shares, size=150) for shares in (tilted, tilted[::-1])], axis=1)
    first, early = BettingCapital.of(2).after(counts[:70])
    _, late = first.after(counts[70:])
    for k in range(2):
        expected = capital_by_definition(counts[:, k])
        np.testing.assert_allclose(np.concatenate([early, late])[:, k], expected, rtol=1e-9, atol=1e-9)


def test_an_alarm_takes_as_many_times_the_capital_as_there_are_scores():
    """By the union bound: the chance that one of K capitals ever reaches K times 1,000 is at most 1/1,000."""
    for monitor, scores in ((OrderMonitor.new(3, 1), 4), (OrderMonitor.new(1, 0), 2), (OrderMonitor.new(9, 0), 4)):
        assert np.exp(monitor.threshold) == pytest.approx(scores / LEVEL)
        reached = replace(
            monitor,
            best=np.full(scores, monitor.threshold),
            curve_rows=np.array([700]),
            curve=np.array([monitor.threshold]),
        )
        verdict = reached.verdict()
        assert verdict.evidence == pytest.approx(-np.log10(LEVEL))
        assert verdict.curve.tolist() == pytest.approx([-np.log10(LEVEL)])


def test_the_alarm_is_at_the_end_of_the_block_that_reaches_the_threshold():
    X, y = stream(4_000)
    y[2_000:2_300] += 1.0  # and back again: evidence that was found stays
    whole = watched(X, y)
    assert whole.alarm is not None
    assert (whole.alarm - FREEZES[0][1]) % BLOCK == 0
    before, then = (watched(X[:at], y[:at]).best.max() for at in (whole.alarm - 1, whole.alarm))
    assert before < np.log(4 / LEVEL) <= then
    by_blocks = watched(X, y, cuts=range(FREEZES[0][1], 4_000, BLOCK))
    np.testing.assert_allclose(whole.best, by_blocks.best)
    assert (whole.capital.logarithm < whole.best - 0.1).any()


def test_values_and_scores_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3)) @ np.array([[1.0, 50.0, 0], [1.0, 0, 0.01], [0.0, 50.0, 0]]) + [5.0, 0.0, -3.0]
    y = X @ [2.0, 0.1, 0.0] + rng.normal(size=800) + 100.0
    rows = rows_of(X, y)
    loss, residual, prediction, target = (model := ReferenceModel.of(rows)).scores(model.values(X, rows.targets))
    scaled = (y - y.mean()) / y.std()
    np.testing.assert_allclose(target, scaled, atol=1e-4)
    np.testing.assert_allclose(residual, target - prediction, atol=1e-5)
    np.testing.assert_allclose(loss, np.abs(residual), atol=1e-5)
    assert np.var(residual) < 1.05 * np.var(scaled - LinearRegression().fit(X, scaled).predict(X))
    free = rows_of(X, None)
    distance, first, *_ = (model := ReferenceModel.of(free)).scores(model.values(X, free.targets))
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(distance, np.square(z).sum(axis=1), rtol=1e-4)
    leading = z @ np.linalg.svd(z, full_matrices=False)[2][0]
    assert abs(np.corrcoef(first, leading)[0, 1]) > 0.9999


def test_of_many_columns_those_that_vary_most_are_watched():
    rng = np.random.default_rng(0)
    spread = rng.permutation(100) + 1.0
    reference = ReferenceModel.of(rows_of(rng.normal(size=(20_000, 100)) * spread**2, None))
    most = np.flatnonzero(spread > 36)
    assert len(most) == 64
    assert len(np.setdiff1d(reference.columns, most)) <= 1  # near the limit two may change places
    assert (np.diff(reference.columns) > 0).all()


SETS = {
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "digits": lambda: (load_digits().data, None),
    "heavy_tailed": lambda: (np.random.default_rng(9).standard_t(1.5, size=(900, 4)), None),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.few(1)
def test_few_random_orders_raise_an_alarm(name):
    """100 orders of rows drawn with replacement, so that ties abound. P(more than 9 alarms at level 1/100) < 1e-7."""
    X, y = SETS[name]()
    rng, alarms = np.random.default_rng(1), 0
    for seed in range(100):
        drawn = rng.integers(len(X), size=3_000)
        monitor = watched(X[drawn], None if y is None else y[drawn].astype(float), seed=seed)
        alarms += monitor.best.max() >= np.log(len(monitor.best) / 0.01)
    assert alarms <= 9


def test_a_reference_that_has_seen_the_rows_it_ranks_is_caught():
    """A planted peek: residuals of rows that the model was fitted to are smaller than those of later rows."""

    def evidence(first, seed):
        X, y = stream(4_000, seed, d=50)
        model = ReferenceModel.of(rows_of(X[first : first + 120], y[first : first + 120]))
        bins = model.bins(model.values(X[600:], y[600:, None]))[:, : 53 * BLOCK].reshape(4, -1, BLOCK)
        u = np.random.default_rng(seed).random((53, BLOCK))
        cells, _ = ranked(bins, u, np.zeros((4, BINS), dtype=np.int64))
        return BettingCapital.of(4).after(cells)[1].max()

    honest, peeking = ([evidence(first, seed) for seed in range(10)] for first in (480, 600))
    assert np.median(peeking) > np.log(4 / LEVEL) > max(honest)


def test_ranks_that_ignore_ties_are_caught():
    """A planted defect: without the uniform that breaks ties, ranks of a score with few values are not uniform."""
    bins = np.random.default_rng(0).integers(0, 2, size=(1, 100, BLOCK)).astype(np.uint8)
    none = np.zeros((1, BINS), dtype=np.int64)
    fair = np.random.default_rng(1).random((100, BLOCK))
    assert BettingCapital.of(1).after(ranked(bins, fair, none)[0])[1].max() < np.log(1e6)
    assert BettingCapital.of(1).after(ranked(bins, np.full((100, BLOCK), 0.5), none)[0])[1].max() > np.log(1e6)


# -- what it notices ----------------------------------------------------------------------------------


CHANGES = {
    "target shifts": lambda X, y: (X, y + 0.5),
    "target flips": lambda X, y: (X, -y),
    "noise grows": lambda X, y: (X, y + np.random.default_rng(5).normal(size=len(y))),
    "inputs shift": lambda X, y: (X + np.eye(3)[0] / 2, y),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_noticed(change):
    X, y = stream(9_000)
    X[6_000:], y[6_000:] = CHANGES[change](X[6_000:], y[6_000:])
    verdict = evaluate.order_test(X, y)
    assert 6_000 < verdict.alarm < 7_500
    assert verdict.evidence > 3
    assert verdict.score in verdict.scores
    assert "not in random order" in verdict.sentence()
    assert f"{verdict.alarm:,}" in verdict.sentence()


def test_sorted_rows_are_noticed_though_they_leave_the_range_of_the_first():
    X, y = stream()
    order = np.argsort(y)
    assert evaluate.order_test(X[order], y[order]).alarm < 1_000
    assert evaluate.order_test(X[order]).alarm is not None


def test_random_order_and_few_rows_say_so():
    X, y = stream()
    assert evaluate.order_test(X, y).sentence() == "order looks random"
    assert evaluate.order_test(X[:600], y[:600]).sentence().startswith("too few rows")


def test_labels_of_any_kind():
    X, y = stream(3_000)
    labels = np.where(y > 0, "up", "down")
    assert evaluate.order_test(X, labels).alarm is None
    assert evaluate.order_test(X[np.argsort(labels)], np.sort(labels)).alarm is not None


@pytest.mark.parametrize("scale", [1e-150, 1e149, 0.0])
def test_extreme_and_constant_values_neither_fail_nor_alarm(scale):
    X, y = stream(6_000)
    assert evaluate.order_test(X * scale, y * scale).alarm is None
    assert evaluate.order_test(X * scale).alarm is None


def test_wide_rows_are_looked_at_in_part():
    X, y = stream(3_000, d=300)
    X[2_000:, :] += 0.3
    assert evaluate.order_test(X, y).alarm is None  # neither the target nor its prediction has changed by much
    assert evaluate.order_test(X).alarm is not None


# -- any segments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_targets", [True, False])
def test_the_monitor_is_the_same_for_any_segments(has_targets):
    X, y = stream(9_000)
    X = np.round(X, 1)  # so that sums of a few columns are the same in any order of summation
    y = np.round(y, 1) if has_targets else None
    whole = watched(X, y)
    same(whole, watched(X, y, cuts=[1, 2, 65, 599, 600, 601, 3_600, 4_799, 4_801, 7_000]))
    same(whole, watched(X, y, cuts=range(0, 9_000, 37)))


MODELS = {
    "regression": lambda: OnlineRegression(random_state=3),
    "low rank": lambda: OnlineLowRank(2, random_state=3),
    "clustering": lambda: OnlineClustering(3, history="coreset", random_state=3),
    "any": lambda: BatchToOnline(
        LogisticRegression(), coreset_size=200, refresh=refresh.Geometric(2.0), random_state=3
    ),
}


def learned(name, X, y, chunk):
    model = MODELS[name]()
    for start in range(0, len(X), chunk):
        part = slice(start, start + chunk)
        target = {"regression": y, "any": (y > 0).astype(int)}.get(name)
        model.partial_fit(X[part], None if target is None else target[part])
    return model


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_every_estimator_watches_and_chunks_do_not_matter(name, tmp_path):
    X, y = stream(6_000)
    X[5_000:] += 1
    y[5_000:] += 1
    one, other = learned(name, X, y, 500), learned(name, X, y, 77)
    same(*(each.stream.view().state.observer(OrderMonitor).with_bets() for each in (one, other)))
    assert 5_000 < one.order_.alarm <= 6_000
    assert one.order_.rows == 6_000
    half = learned(name, X[:4_321], y[:4_321], 1_000)
    half.save(tmp_path / "model")
    resumed = batch2online.load(tmp_path / "model")
    target = {"regression": y, "any": (y > 0).astype(int)}.get(name)
    resumed.partial_fit(X[4_321:], None if target is None else target[4_321:])
    same(*(each.stream.view().state.observer(OrderMonitor).with_bets() for each in (resumed, one)))


def test_forgetting_gives_the_monitor_of_the_other_rows():
    X, y = stream(3_000)
    model = OnlineRegression(keep_history=True, random_state=0).partial_fit(X, y).forget([5, 700, 2_999])
    assert model.order_.rows == 2_997
    assert model.stream.state.observer(OrderMonitor).with_bets().counts.sum() == 4 * ((2_997 - 600) // BLOCK * BLOCK)


def test_merging_halves_what_both_have_found():
    X, y = stream(4_000)
    calm = OnlineRegression(random_state=0).partial_fit(X, y)
    moved = OnlineRegression(random_state=0, first_id=4_000).partial_fit(
        X, np.where(np.arange(4_000) < 2_000, y, y + 1)
    )
    evidence, own = moved.order_.evidence, calm.order_.evidence
    calm.merge(moved)
    assert own < evidence
    assert calm.order_.evidence == pytest.approx(evidence - np.log10(2))
    assert calm.order_.rows == 8_000
    assert calm.order_.alarm == moved.order_.alarm
    calm.partial_fit(X, y)
    assert calm.order_.rows == 12_000


def test_capital_counts_half_after_merging():
    one, other = watched(*stream(3_000)), watched(*stream(3_000, seed=1))
    merged = one.merge(other)
    np.testing.assert_allclose(merged.capital.logarithm, one.capital.logarithm - np.log(2))
    assert merged.merge(OrderMonitor.new(3, 1)).capital is merged.capital  # one that has found nothing


def test_freezes_are_at_fixed_counts():
    X, y = stream(5_000)
    for at in (last for _, last in FREEZES):
        assert watched(X[: at - 1], y[: at - 1]).reference is not watched(X[:at], y[:at]).reference
        assert watched(X[:at], y[:at]).counts.sum() == 0
        assert not watched(X[:at], y[:at]).kept


def test_words_of_bins_have_no_bit_in_common():
    places = np.random.default_rng(0).integers(0, BINS, size=(1, 1, BLOCK))
    members = betting._members(places)
    assert int(np.bitwise_count(members).sum()) == BLOCK
    assert np.bitwise_or.reduce(members.reshape(-1)) == np.uint64(2**64 - 1)


def test_the_command_line_checks_a_file(tmp_path, capsys):
    X, y = stream(2_000)
    y[1_200:] += 2
    table = np.column_stack([X, y])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,c,y", comments="")
    assert run_safely(["check", str(tmp_path / "rows.csv"), "--target", "y", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    verdict = evaluate.order_test(X, y)
    assert result["alarm"] == verdict.alarm
    assert result["order"] == verdict.sentence()
    assert run_safely(["check", str(tmp_path / "rows.csv"), "--columns", "a,b"]) == 0
    assert "order looks random" in capsys.readouterr().out


def watched_blocks(rows):
    """Return where watched blocks begin, by the definition."""
    return [at for at in range(0, rows, BLOCK) if at % (BLOCK * 2 ** sum(cut <= at for cut in THINNINGS)) == 0]


@pytest.mark.parametrize("first", [0, 64, 32_768, 32_832, 40_001, 65_536, 65_600, 65_663, 65_664, 65_700, 70_000])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 128, 200, 256, 1_000])
def test_rows_that_are_watched_are_those_of_watched_blocks(first, n):
    n = min([n, *(cut - first for cut in THINNINGS if cut > first)])
    blocks = np.array(watched_blocks(first + n))
    numbers = np.arange(first, first + n)
    expected = numbers[np.isin(numbers // BLOCK * BLOCK, blocks)]
    watched = WatchedBlocks(first, n)
    np.testing.assert_array_equal(watched.of_values(numbers), expected)
    rows = numbers[:, None] * np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(watched.of_rows(rows, None), expected[:, None] * [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(watched.of_rows(rows, np.array([0, 2])), expected[:, None] * [1.0, 3.0])
    np.testing.assert_array_equal(watched.blocks(), np.unique(expected // BLOCK * BLOCK))
    assert len(watched) == len(expected)


def test_runs_name_all_rows():
    ids = np.array([5, 6, 7, 10, 12, 13])
    found = [(run.number + i, run.first_id + i) for run in runs_of(90, ids) for i in range(run.n)]
    assert found == list(zip(range(90, 96), ids, strict=True))


def test_what_is_watched_is_counted():
    rows = 1_100_000
    places = np.concatenate([np.arange(at, at + BLOCK) for at in watched_blocks(rows)])
    counts = np.searchsorted(places, np.arange(rows + 1))
    for n in [0, 1, 63, 64, 32_767, 32_768, 32_800, 32_900, 65_536, 65_600, 131_072, 262_145, 300_001, 1_048_577, rows]:
        assert n_watched(n) == counts[n], n
    assert abs(n_watched(20_000_000) - n_watched(4_000_000) - 1_000_000) <= 2 * BLOCK  # one in sixteen, for ever


def test_rows_that_are_not_watched_leave_no_trace_and_chunks_do_not_matter():
    X = np.random.default_rng(0).normal(size=(90_000, 2))
    at_once = watched(X, None)
    same(watched(X, None, cuts=[40_000, 40_001, 40_030, 40_100, 41_111, 60_000, 77_777, 77_778]), at_once)
    check_instance(at_once)
    frozen, other = 4_800, X.copy()
    for at in np.setdiff1d(np.arange(35_008, 80_000, BLOCK), watched_blocks(90_000)):
        other[frozen + at : frozen + at + BLOCK] += 100.0
    assert (other != X).any()
    same(watched(other, None), at_once)
    assert at_once.counts[0].sum() + len(at_once.uniforms) == n_watched(90_000 - frozen)


def test_a_late_change_is_found_soon():
    X = np.random.default_rng(1).normal(size=(300_000, 2))
    X[280_000:] += 0.5
    assert 280_000 < watched(X, None).alarm < 282_000


def test_an_alarm_after_a_merge_is_at_a_row_of_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9_000, 3))
    y = X.sum(axis=1) + rng.normal(size=9_000)
    y[5_000:] += 6 * X[5_000:, 0]
    first, second = (
        OnlineRegression(random_state=0, first_id=start).partial_fit(X[start:][:1_500], y[start:][:1_500])
        for start in (0, 1_500)
    )
    model = first.merge(second)
    for start in range(3_000, 9_000, 500):
        model.partial_fit(X[start : start + 500], y[start : start + 500])
    assert 5_000 < model.order_.alarm < 5_500
