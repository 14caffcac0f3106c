"""Parts of the command `run`: the curve, the loop that goes on where an earlier run was, records of changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from batch2online import OnlineRegression
from batch2online.app.cli.app import run_safely
from batch2online.app.cli.commands.check import verdict_of
from batch2online.app.cli.run.loop import LearningLoop
from batch2online.app.cli.run.result import Recorder, change_record, last_model, next_point, point
from batch2online.app.cli.run.state import MemoryModel, Position, checksum
from batch2online.app.cli.settings import Settings
from batch2online.app.inputs import DataError, columnar
from batch2online.evaluate import order_test

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = X @ [1.0, 2.0] + RNG.normal(size=400)


def chunks(*sizes):
    ends = np.cumsum(sizes)
    return iter([(X[end - size : end], Y[end - size : end]) for size, end in zip(sizes, ends, strict=True)])


def loop_after(*sizes, start=None):
    keeper = MemoryModel(OnlineRegression(random_state=0))
    if start is not None:
        keeper.start = start
        keeper.model.partial_fit(X[: start.rows], Y[: start.rows])
    loop = LearningLoop(keeper)
    loop.learn(chunks(*sizes), lambda _: None)
    return loop


def test_points_of_the_curve_do_not_depend_on_chunks():
    curves = [loop_after(*sizes).recorder.points for sizes in ([400], [7, 93, 300], [50, 25, 325])]
    assert [each["rows"] for each in curves[0]] == [50, 75, 113, 170, 255, 383]
    assert curves[1] == curves[2] == curves[0]
    assert next_point(113) == 170


def test_a_point_holds_what_regret_says():
    model = OnlineRegression(random_state=0).partial_fit(X, Y)
    found, regret = point(model), model.regret_
    assert found["ratio"] == regret.ratio == pytest.approx(found["loss"] / found["optimum"])
    assert (found["rows"], found["weight"], found["changes"]) == (400, 400.0, model.n_changes_)


def test_the_last_point_is_not_there_twice():
    model, recorder = OnlineRegression(random_state=0).partial_fit(X[:50], Y[:50]), Recorder()
    assert recorder.record(model)
    assert recorder.closed(model) == recorder.points
    assert len(recorder.closed(model.partial_fit(X[50:60], Y[50:60]))) == 2


def position(shift=0.0):
    curve = tuple(loop_after(150).recorder.points)
    return Position(150, checksum((X[:150], Y[:150] + shift)), curve)


@pytest.mark.parametrize("sizes", [[400], [150, 250], [100, 300]])
def test_rows_that_were_learned_are_passed_over(sizes):
    loop = loop_after(*sizes, start=position())
    assert (loop.rows, loop.model.n_seen_) == (400, 400)
    assert loop.checksum == checksum((X, Y))
    np.testing.assert_array_equal(loop.model.coef_, loop_after(400).model.coef_)


def test_another_input_is_not_continued():
    with pytest.raises(DataError, match="The first 150 rows differ from those that --state has learned"):
        loop_after(400, start=position(1e-9))


def test_an_input_that_is_too_short_is_refused():
    with pytest.raises(DataError, match="has 100 rows, but --state has already learned 150"):
        loop_after(100, start=position())


@pytest.mark.usefixtures("no_report")
def test_names_stand_once_before_predictions_of_several_blocks(tmp_path, monkeypatch, capsys):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    words = ["--task", "regression", "--target", "y", "--out", str(tmp_path / "out"), "--quiet"]
    assert run_safely(["run", str(tmp_path / "t.parquet"), *words]) == 0
    monkeypatch.setattr(columnar, "ROWS", 100)
    capsys.readouterr()
    assert run_safely(["predict", str(tmp_path / "out"), str(tmp_path / "t.parquet")]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.strip('"') == "prediction"
    assert len(lines) == 400
    assert header not in lines


def test_records_of_changes_hold_no_times():
    model = OnlineRegression(random_state=0).partial_fit(X, Y)
    record = change_record(model.changes_[-1])
    assert "seconds" not in record
    assert record["at"] == model.changes_[-1].at


def test_the_cost_of_a_decayed_model_is_that_of_rows_weighted_from_the_last_on():
    half_life = 30
    model = OnlineRegression(half_life=half_life, random_state=0).fit(X, Y)
    weights = 0.5 ** (np.arange(len(X))[::-1] / half_life)
    expected = weights @ (model.predict(X) - Y) ** 2
    assert last_model(model)["cost"] == pytest.approx(expected, rel=1e-6)


def test_the_check_of_a_file_is_that_of_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "ROWS", 500)  # a file is read in several chunks
    rows = np.round(RNG.normal(size=(6000, 2)) + np.linspace(0, 0.5, 6000)[:, None])  # ties, broken by id
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"a": rows[:, 0], "y": rows[:, 1]}), path)
    found = verdict_of(str(path), Settings(task="regression", target="y"))
    expected = order_test(rows[:, :1], rows[:, 1], random_state=0)
    assert found.evidence == expected.evidence
    assert found.rows == expected.rows == 6000
