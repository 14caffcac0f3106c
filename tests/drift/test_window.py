"""Windows and competing half-lives: the last rows alone, bit for bit; the better half-life, whatever the chunks."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import batch2online
from batch2online import (
    BatchToOnline,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    coresets,
    refresh,
)
from batch2online.engine.half_lives import (
    HALF_LIVES,
    ROWS_PER_DECISION,
    ROWS_PER_REFERENCE,
    HalfLifeScores,
)

SIZE = 700


def stream(n=2_600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + (rng.normal(size=(3, 4)) * 4)[rng.integers(3, size=n)]
    return X, X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=n)


MODELS = {
    "regression": lambda **s: OnlineRegression(random_state=1, **s),
    "coreset regression": lambda **s: OnlineRegression(random_state=1, solve="coreset", coreset_size=150, **s),
    "pca": lambda **s: OnlineLowRank(2, center=True, random_state=1, **s),
    "clustering": lambda **s: OnlineClustering(3, warm_start=False, random_state=1, coreset_size=150, **s),
    "bounded clustering": lambda **s: OnlineClustering(3, history="coreset", random_state=1, coreset_size=150, **s),
    "classifier": lambda **s: OnlineClassifier(random_state=1, coreset_size=2_000, **s),
    "any": lambda **s: BatchToOnline(
        LinearRegression(), random_state=1, coreset_size=150, **{"coreset": coresets.Leverage} | s
    ),
}


def targets_of(name, y):
    return (y > 0).astype(int) if name == "classifier" else y


def parts_of(model):
    model = model._stream.model
    model = getattr(model, "model", model)
    names = ("coefficients", "intercepts", "components", "mean", "points", "coef_", "intercept_")
    return [np.asarray(getattr(model, name)) for name in names if hasattr(model, name)]


def same(one, other):
    for own, others in zip(parts_of(one), parts_of(other), strict=True):
        np.testing.assert_array_equal(own, others)
    assert one.coreset_ == other.coreset_


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.few(3)
def test_a_window_is_an_estimator_of_its_rows_alone(name):
    X, y = stream()
    y = targets_of(name, y)
    window = MODELS[name](window=SIZE).fit(X, y)
    only_once = refresh.Geometric(2.0, start=SIZE)
    alone = MODELS[name](refresh=only_once, first_id=len(X) - SIZE).partial_fit(X[-SIZE:], y[-SIZE:])
    same(window, alone)
    assert window.regret_.rows == SIZE
    assert window.regret_.optimum == alone.regret_.optimum
    assert window.n_seen_ == len(X)


@pytest.mark.parametrize("name", ["regression", "clustering", "classifier", "any"])
@pytest.mark.few(2)
def test_chunks_and_files_do_not_matter(name, tmp_path):
    X, y = stream()
    y = targets_of(name, y)
    whole, pieces = MODELS[name](window=SIZE).partial_fit(X, y), MODELS[name](window=SIZE)
    for start in range(0, len(X), 173):
        pieces.partial_fit(X[start : start + 173], y[start : start + 173])
    same(whole, pieces)
    assert repr(pieces.regret_) == repr(whole.regret_)
    part = MODELS[name](window=SIZE).partial_fit(X[:1_111], y[:1_111])
    part.save(tmp_path / "model")
    resumed = batch2online.load(tmp_path / "model").partial_fit(X[1_111:], y[1_111:])
    same(whole, resumed)
    assert [event.at for event in resumed.changes_] == [event.at for event in whole.changes_]


def test_the_loss_of_a_window_is_that_of_its_rows():
    X, y = stream()
    model = OnlineRegression(window=SIZE, random_state=0)
    losses = []
    for start in range(0, len(X), 25):
        part = slice(start, start + 25)
        predictions = model.predict(X[part]) if start else np.zeros(25)
        losses.append(np.square(predictions - y[part]))
        model.partial_fit(X[part], y[part])
    regret = model.fit(X, y).regret_
    assert regret.rows == SIZE
    assert 0.8 < regret.loss / np.concatenate(losses)[-SIZE:].sum() < 1.25  # looks fall between those of 25 rows


def test_what_a_window_refuses(tmp_path):
    X, y = stream(300)
    with pytest.raises(ValueError, match="choose one"):
        OnlineRegression(window=10, half_life=10).partial_fit(X, y)
    for nonsense in (0, 2.5, "all", True):
        with pytest.raises(ValueError, match="window"):
            OnlineRegression(window=nonsense).partial_fit(X, y)
    with pytest.raises(ValueError, match="in memory"):
        OnlineClustering(2, window=100, history=str(tmp_path)).partial_fit(X)
    window = OnlineRegression(window=100, random_state=0).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"not in the window: \[150\]"):
        window.forget([250, 150])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cut", [1_300, 2_400])
@pytest.mark.few(3)
def test_windows_merge_to_that_of_the_last_rows_of_both(name, cut):
    X, y = stream()
    y = targets_of(name, y)
    alone = MODELS[name](refresh=refresh.Geometric(2.0, start=SIZE), first_id=len(X) - SIZE)
    alone.partial_fit(X[-SIZE:], y[-SIZE:])
    shards = [(X[:cut], y[:cut], 0), (X[cut:], y[cut:], cut)]
    for order in ([0, 1], [1, 0]):
        parts = [MODELS[name](window=SIZE, first_id=first).partial_fit(*rows) for *rows, first in shards]
        merged = parts[order[0]].merge(parts[order[1]])
        same(merged, alone)
        assert merged.regret_.rows == SIZE
        assert merged.n_seen_ == len(X)
        assert merged.changes_[-1].kind == "merged"


@pytest.mark.parametrize("name", ["regression", "clustering", "classifier", "any"])
def test_a_window_forgets_rows_that_are_in_it(name):
    """It becomes an estimator of the other rows in it: what has left it before does not come back."""
    X, y = stream()
    y = targets_of(name, y)
    unwanted = np.arange(len(X) - 400, len(X) - 350)
    window = MODELS[name](window=SIZE).partial_fit(X, y).forget([]).forget(unwanted)
    alone = MODELS[name](first_id=len(X) - SIZE, **({} if name == "clustering" else {"keep_history": True}))
    alone.partial_fit(X[-SIZE:], y[-SIZE:]).forget(unwanted)
    for own, others in zip(parts_of(window), parts_of(alone), strict=True):
        np.testing.assert_allclose(own, others, rtol=1e-6)  # looks come at other rows, so sums are rounded elsewhere
    np.testing.assert_array_equal(window.coreset_.ids, alone.coreset_.ids)
    assert window.n_seen_ == window.order_.rows == SIZE - 50
    assert not np.isin(unwanted, window.coreset_.ids).any()
    assert window.partial_fit(X[:100], y[:100]).n_seen_ == SIZE + 50


# -- competing half-lives -------------------------------------------------------------------------------


def drifting(n=12_000, speed=0.02, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    slopes = np.cumsum(rng.normal(size=(n, 3)), axis=0) * speed
    return X, (X * slopes).sum(axis=1) + rng.normal(size=n)


def loss_of(X, y, **settings):
    model, total = OnlineRegression(random_state=0, **settings), 0.0
    for start in range(0, len(X), 200):
        part = slice(start, start + 200)
        total += np.square(model.predict(X[part]) - y[part]).sum() if start else 0.0
        model.partial_fit(X[part], y[part])
    return total, model


@pytest.mark.slow
def test_the_better_half_life_comes_into_force():
    X, y = drifting()
    auto, model = loss_of(X, y, half_life="auto")
    fixed = [loss_of(X, y, half_life=half_life)[0] for half_life in (None, *HALF_LIVES["moments"])]
    assert auto < 1.02 * min(fixed)
    assert auto < 0.8 * fixed[0]
    switches = [event for event in model.changes_ if event.kind == "half_life"]
    assert 1 <= len(switches) <= 5
    assert "half-life of 600 rows has cost less lately" in switches[-1].reason
    assert model.regret_.half_life == 600


def test_a_calm_stream_keeps_all_rows():
    X, y = drifting(speed=0.0)
    auto, model = loss_of(X, y, half_life="auto")
    assert auto < 1.002 * loss_of(X, y)[0]
    assert sum(event.kind == "half_life" for event in model.changes_) <= 2


@pytest.mark.parametrize("name", ["regression", "pca", "bounded clustering", "classifier", "any"])
@pytest.mark.few(2)
def test_chunks_and_files_do_not_matter_to_a_contest(name, tmp_path):
    X, y = stream()
    X[1_200:] *= [1, -2, 3, -1]
    y = targets_of(name, np.concatenate([y[:1_200], -y[1_200:]]))
    whole, pieces = MODELS[name](half_life="auto").partial_fit(X, y), MODELS[name](half_life="auto")
    for start in range(0, len(X), 311):
        pieces.partial_fit(X[start : start + 311], y[start : start + 311])
    same(whole, pieces)
    assert [event.at for event in pieces.changes_] == [event.at for event in whole.changes_]
    part = MODELS[name](half_life="auto").partial_fit(X[:1_500], y[:1_500])
    part.save(tmp_path / "model")
    resumed = batch2online.load(tmp_path / "model").partial_fit(X[1_500:], y[1_500:])
    same(whole, resumed)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.few(1)
@pytest.mark.slow
def test_contests_merge_with_the_half_life_of_the_later_shard_in_force(late):
    X, y = drifting(9_000, speed=0.03, seed=3)
    auto = {first: OnlineRegression(half_life="auto", first_id=first, random_state=0) for first in (0, 9_000)}
    calm = np.random.default_rng(0).normal(size=len(y))
    targets = {0: y, 9_000: calm} if late else {0: calm, 9_000: y}
    for first, model in auto.items():
        model.partial_fit(X, targets[first])
    half_life = auto[9_000].regret_.half_life
    assert (half_life, auto[0].regret_.half_life) == ((None, 600) if late else (600, None))
    fixed = [OnlineRegression(half_life=half_life, first_id=i, random_state=0).partial_fit(X, targets[i]) for i in auto]
    expected = fixed[0].merge(fixed[1])
    again = copy.deepcopy(auto)
    for merged in (auto[0].merge(auto[9_000]), again[9_000].merge(again[0])):
        assert merged.regret_.half_life == half_life
        np.testing.assert_allclose(merged.coef_, expected.coef_, rtol=1e-9)
        assert merged.regret_.loss == pytest.approx(expected.regret_.loss)
        assert merged.partial_fit(X[:900], y[:900]).n_seen_ == 18_900


@pytest.mark.slow
def test_a_contest_forgets_rows_as_if_they_had_never_come():
    X, y = drifting(9_000, speed=0.03, seed=3)
    wild = np.arange(4_000, 4_100)
    y[wild] += 1_000.0
    auto = OnlineRegression(half_life="auto", keep_history=True, random_state=0).partial_fit(X, y).forget(wild)
    fixed = OnlineRegression(half_life=600, keep_history=True, random_state=0).partial_fit(X, y).forget(wild)
    assert auto.regret_.half_life == 600
    np.testing.assert_allclose(auto.coef_, fixed.coef_, rtol=1e-9)
    assert auto.n_seen_ == auto.order_.rows == 8_900
    kept = np.delete(np.arange(len(X)), wild)
    never = OnlineRegression(half_life="auto", random_state=0).partial_fit(X[kept], y[kept])
    switches = [[e.rows for e in model.changes_ if e.kind == "half_life"] for model in (auto, never)]
    assert switches[0] == switches[1]


def after_blocks(advantage, noise=0.05, wild=0.0):
    """A contest of two half-lives after some blocks in which the second has cost so much less, (64,) or a number."""
    contest, rng = HalfLifeScores.new(2), np.random.default_rng(0)
    for _ in range(40):
        losses = rng.chisquare(1, size=ROWS_PER_DECISION)
        own = losses + rng.normal(size=ROWS_PER_DECISION) * noise
        both = np.stack([own, losses - advantage])
        both[:, 7] += np.array([1.0, 1.1]) * wild
        contest = contest.after(np.stack([both, both])).judged(10_000)
        advantage = 0.0 * advantage if np.ndim(advantage) else advantage
    return contest


SHORTER, LONGER = np.array([np.inf, 600.0]), np.array([600.0, np.inf])


def test_one_wild_row_decides_nothing():
    """A planted defect: by sums alone, a half-life would take over for one row that it has got right."""
    wild = np.zeros(ROWS_PER_DECISION)
    wild[50] = 1e6
    one, all_rows = after_blocks(wild), after_blocks(0.05)
    for contest in (one, all_rows):
        assert (contest.sums[1:, 1] < 0.99 * contest.sums[1:, 0]).all()
    same_for_both = after_blocks(0.05, wild=1e9)
    assert same_for_both.winner(SHORTER, 10_000)[0] == 1  # nor does it stand in the way
    assert one.winner(SHORTER, 10_000) == (0, False)
    assert all_rows.winner(SHORTER, 10_000)[0] == 1
    assert all_rows.winner(LONGER, 10_000) == (1, False)
    assert all_rows.winner(SHORTER, 1_000) == (0, False)
    assert after_blocks(0.0).winner(SHORTER, 10_000) == (0, False)
    assert after_blocks(-0.05).winner(LONGER, 10_000) == (0, False)
    less = after_blocks(0.005, noise=0.15)  # enough for all rows to come back, not for them to be given up
    assert (less.winner(SHORTER, 10_000), less.winner(LONGER, 10_000)) == ((0, False), (1, False))


def after_a_jump(contest, less=0.1):
    """The contest after rows that cost ten times as much as before, and less by a share under the second half-life."""
    own = 10 * np.random.default_rng(1).chisquare(1, size=ROWS_PER_DECISION)
    losses = np.stack([[own, (1 - less) * own], [own, own]])  # models noted before know nothing of it
    return contest.after(losses).judged(10_000)


def test_a_sudden_change_is_answered_at_once():
    """A tenth of what rows cost after the jump is as much as they cost before it: one block says enough."""
    calm = after_blocks(-0.001)
    assert calm.winner(SHORTER, 10_000) == (0, False)
    sudden = after_a_jump(calm)
    assert sudden.winner(SHORTER, 10_000) == (1, True)
    for longer in (LONGER, np.array([600.0, 2_400.0])):
        assert sudden.winner(longer, 10_000) == (0, False)  # there is no hurry to count more rows
    costly = replace(sudden, sums=sudden.sums + np.array([[0, 0], [0, 1e4], [0, 1e4]]))
    assert costly.winner(SHORTER, 10_000) == (1, True)  # what it has cost before the change does not matter
    wild = np.zeros(ROWS_PER_DECISION)
    wild[50] = 100.0
    one_row = calm.after(np.stack([[1 + wild, np.ones(ROWS_PER_DECISION)], np.ones((2, ROWS_PER_DECISION))])).judged(
        10_000
    )
    assert one_row.winner(SHORTER, 10_000) == (0, False)


def test_sudden_decisions_that_were_wrong_make_the_next_one_harder():
    """What rows cost under models noted tells whether a decision was right."""
    decided = after_a_jump(after_blocks(-0.001)).decided(True).with_winner(1)
    assert decided.left == 1
    assert not decided.sums[2].any()  # rows before the change say nothing about those after it
    assert not decided.spreads[1].any()
    assert decided.sums[:2].all()
    ahead = np.stack([np.full((2, ROWS_PER_DECISION), 2.0), np.ones((2, ROWS_PER_DECISION))], axis=1)
    later = decided
    for verdicts in range(1, 5):  # as many rows as before the first decision
        later = later.after(ahead).judged(10_000)
        assert later.winner(LONGER, 10_000) == (int(verdicts == 4), False)
    for noted, doubts in (([1.0, 2.0], 0), ([2.0, 1.0], 1)):
        both = np.repeat(np.array(noted)[:, None], ROWS_PER_DECISION, axis=1)
        later = decided.after(np.stack([both, both])).judged(10_000).decided(False)
        assert (later.doubts, later.left) == (doubts, -1)
    doubtful = replace(after_blocks(-0.001), doubts=1)
    assert after_a_jump(doubtful).winner(SHORTER, 10_000) == (0, False)
    assert after_a_jump(doubtful, less=0.5).winner(SHORTER, 10_000) == (1, True)
    assert after_a_jump(replace(doubtful, doubts=2), less=0.5).winner(SHORTER, 10_000) == (0, False)
    again = replace(decided, sums=decided.sums + np.array([[0, 0], [0, 0], [1, 0]]), doubts=2)
    assert again.decided(True).doubts == 2  # never more: a change that is large enough is always answered
    right = replace(decided, sums=decided.sums + np.array([[0, 0], [0, 0], [0, 1]]))
    assert right.decided(True).doubts == 0
    assert replace(right, doubts=2).decided(True).doubts == 1


def test_the_half_life_that_was_left_is_followed_through_changes_of_places():
    contest = replace(HalfLifeScores.new(4), left=0)
    assert contest.with_winner(2).left == 2
    assert contest.with_winner(2).with_winner(1).left == 2
    assert contest.begun().left == -1


def test_the_first_rows_do_not_count():
    contest = HalfLifeScores.new(2).after(np.ones((2, 2, ROWS_PER_DECISION)))
    for rows, counted in ((512, 0), (640, ROWS_PER_DECISION)):
        judged = contest.judged(rows)
        assert judged.waiting.shape == (2, 2, 0)
        assert judged.rows.tolist() == [counted] * 3
        assert (judged.sums == counted).all()


def jumping(n, at, size, seed):
    rng = np.random.default_rng(seed)
    X, before, after = rng.normal(size=(n, 5)), rng.normal(size=5), rng.normal(size=5)
    slopes = np.where(np.arange(n)[:, None] < at, before, before + size * after)
    return X, (X * slopes).sum(axis=1) + rng.normal(size=n)


@pytest.mark.parametrize("seed", [5, 6, 7])
@pytest.mark.few(1)
def test_a_jump_is_answered_within_two_verdicts(seed):
    X, y = jumping(9_300, 9_000, 2.0, seed)
    model = OnlineRegression(half_life="auto", random_state=0).partial_fit(X, y)
    assert [event.rows for event in model.changes_ if event.kind == "half_life"] == [600]
    assert _current_at(model, 9_000) == 0
    assert _current_at(model, 9_000 + 2 * ROWS_PER_DECISION) == 600


@pytest.mark.slow
def test_a_long_calm_does_not_stand_in_the_way():
    """A planted defect: a half-life that is costly in a calm had to make up for that first."""
    X = np.random.default_rng(0).uniform(0, 10, size=(13_000, 3))
    limit = np.where(np.arange(13_000) < 12_000, 8.0, 9.5)  # a line separates the classes: a calm costs hardly anything
    y = (X[:, 0] + X[:, 1] <= limit).astype(int)
    model = OnlineClassifier(half_life="auto", random_state=0).partial_fit(X, y)
    assert _current_at(model, 12_000) == 5_000
    assert _current_at(model, 12_512) == 1_000


def _current_at(model, row):
    return ([0] + [event.rows for event in model.changes_ if event.kind == "half_life" and event.at <= row])[-1]


def test_losses_of_any_magnitude_are_compared():
    for scale in (1e-200, 1e200):
        wide = HalfLifeScores.new(2)
        for _ in range(20):
            losses = scale * np.stack([np.full(ROWS_PER_DECISION, 1.0), np.full(ROWS_PER_DECISION, 0.9)])
            wide = wide.after(np.stack([losses, losses])).judged(10_000)
        assert np.isfinite(wide.spreads).all()
        assert wide.winner(SHORTER, 10_000)[0] == 1


@pytest.mark.slow
def test_rivals_are_judged_by_the_models_that_a_block_began_with():
    X, y = drifting(1_000)
    often = refresh.Geometric(1.02, start=20)
    model = OnlineRegression(half_life="auto", refresh=often, random_state=0)
    for start in range(0, 1_000, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    state = model.stream.view().state
    at = state.n_learned - state.n_learned % ROWS_PER_REFERENCE
    for each, waiting in zip((state, *state.others), state.half_lives.waiting[1], strict=True):
        half_life = None if each.decay is None else each.decay.half_life
        alone = OnlineRegression(half_life=half_life, refresh=often, random_state=0).partial_fit(X[:at], y[:at])
        last = len(X) % ROWS_PER_DECISION
        expected = np.square(alone.predict(X[-last:]) - y[-last:])
        np.testing.assert_allclose(waiting, expected, rtol=1e-7)


def test_the_verdict_on_the_order_knows_what_is_followed():
    X, y = stream(2_000)
    y[1_000:] += 5
    said = [
        OnlineRegression(**s).partial_fit(X, y).order_.sentence() for s in ({}, {"half_life": 300}, {"window": 300})
    ]
    assert all("not in random order" in sentence for sentence in said)
    assert "set a half-life for a stream" in said[0]
    assert said[1].endswith("alike within a half-life")
    assert said[2].endswith("alike within the window")


@pytest.mark.slow
def test_regret_of_a_window_is_what_its_rows_have_cost():
    """Rows that cost more and more: losses of the first rows of a segment are not those of the last."""
    X, y = stream(1_500)
    y = y * np.linspace(1, 30, len(y))
    model, each = OnlineRegression(window=200, random_state=0), []
    for i in range(len(X)):
        each.append((model.predict(X[i : i + 1])[0] - y[i]) ** 2 if i else 0.0)
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    rows = model.regret_.rows
    assert 200 <= rows < 250
    assert model.regret_.loss == pytest.approx(sum(each[-rows:]), rel=1e-9)
