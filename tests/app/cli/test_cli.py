"""The command line: results equal to the library's, errors of one sentence, runs that survive being killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet
import pytest

import batch2online
from batch2online import Durable, OnlineClustering, OnlineLowRank, OnlineRegression, datasets, evaluate
from batch2online.app.cli.app import run_safely
from batch2online.app.cli.settings import Settings
from batch2online.app.options import ColumnOptions, RowOptions
from batch2online.declaration import settings_of
from processes import COMMAND, PATIENCE, Started

SOURCES = Path(batch2online.__file__).parents[1]

FILES = {"model.b2o", "coreset.parquet", "coreset.csv", "changes.jsonl", "report.html", "result.json"}


def command(*words):
    return Started(COMMAND, *words)


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """A regression of 3,000 rows on a number and a category, as CSV."""
    rng = np.random.default_rng(0)
    x, colour = rng.standard_normal(3000), rng.choice(["red", "green", "blue"], 3000)
    y = 2 * x + (colour == "red") + 0.1 * rng.standard_normal(3000)
    path = tmp_path_factory.mktemp("data") / "stream.csv"
    lines = [f"{a!r},{c},{b!r}" for a, c, b in zip(x.tolist(), colour, y.tolist(), strict=True)]
    path.write_text("x,colour,y\n" + "\n".join(lines) + "\n")
    inputs = np.column_stack([x, colour == "green", colour == "red", np.zeros(len(x))]).astype(float)
    return SimpleNamespace(path=path, X=inputs, y=y)


def result_of(*words, capsys):
    assert run_safely([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_run_is_the_estimator_on_the_prepared_rows(stream, tmp_path, capsys):
    out = tmp_path / "out"
    result = result_of("run", stream.path, "--task", "regression", "--target", "y", "--out", out, capsys=capsys)
    model = OnlineRegression(random_state=0).partial_fit(stream.X, stream.y)
    assert result["inputs"] == ["x", "colour=green", "colour=red", "colour=other"]
    assert result["loss"] == model.regret_.loss
    assert result["last_model"]["coef"] == model.coef_.tolist()
    assert result["changes"] == model.n_changes_
    assert {file.name for file in out.iterdir()} == FILES
    assert json.loads((out / "result.json").read_text()) == result
    loaded = batch2online.load(out / "model.b2o")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    coreset = pyarrow.parquet.read_table(out / "coreset.parquet")
    np.testing.assert_array_equal(coreset["id"].to_numpy(), model.coreset_.ids)
    assert coreset.column_names == ["id", "weight", "x", "colour=green", "colour=red", "colour=other", "y"]
    assert len((out / "changes.jsonl").read_text().splitlines()) == model.n_changes_


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_the_result_does_not_depend_on_chunks(stream, chunk, capsys):
    words = ["run", stream.path, "--task", "regression", "--target", "y", "--seed", 3]
    assert result_of(*words, "--chunk", chunk, capsys=capsys) == result_of(*words, capsys=capsys)


def test_bundled_data_and_options_reach_the_estimator(capsys):
    options = ["--k", 4, "--epsilon", 0.1, "--refresh", "geometric:1.3", "--seed", 5]
    result = result_of("run", "--dataset", "digits", "--task", "lowrank", *options, capsys=capsys)
    policy = batch2online.refresh.Geometric(1.3)
    model = OnlineLowRank(4, epsilon=0.1, refresh=policy, random_state=5).partial_fit(datasets.load_rows("digits"))
    assert result["ratio"] == model.regret_.ratio
    assert result["last_model"]["components"] == model.components_.tolist()
    assert result["command"] == (
        "batch2online run --dataset digits --task lowrank --k 4 --epsilon 0.1 --refresh geometric:1.3 --seed 5"
    )


def test_the_command_in_the_result_repeats_it(stream, capsys):
    words = ["run", stream.path, "--task", "regression", "--target", "y", "--columns", "x", "--order", "random"]
    result = result_of(*words, "--standardize", capsys=capsys)
    assert result_of(*result["command"].split()[1:], capsys=capsys) == result


def test_the_curve_is_the_regret_at_its_row_counts(stream, capsys):
    result = result_of("run", stream.path, "--task", "regression", "--target", "y", capsys=capsys)
    at = [point["rows"] for point in result["curve"]]
    assert at[:4] == [50, 75, 113, 170]
    assert at[-1] == 3000
    for point in result["curve"][::5]:
        model = OnlineRegression(random_state=0).partial_fit(stream.X[: point["rows"]], stream.y[: point["rows"]])
        assert (point["loss"], point["optimum"]) == (model.regret_.loss, model.regret_.optimum)


@pytest.mark.slow
def test_closing_table_names_what_matters(stream, tmp_path, capsys):
    assert (
        run_safely(["run", str(stream.path), "--task", "regression", "--target", "y", "--out", str(tmp_path / "o")])
        == 0
    )
    text = capsys.readouterr().out
    for words in (
        "linear regression of y on 4 features",
        "3,000",
        "times that of the best possible linear fit",
        "report.html",
    ):
        assert words in text


def test_the_cost_of_a_decayed_model_is_that_of_rows_weighted_from_the_last_on(stream, capsys):
    words = ["--task", "regression", "--target", "y", "--half-life", 300]
    found = result_of("run", stream.path, *words, capsys=capsys)["last_model"]
    weights = 0.5 ** (np.arange(len(stream.X))[::-1] / 300)
    residuals = stream.X @ found["coef"] + found["intercept"] - stream.y
    assert found["cost"] == pytest.approx(weights @ residuals**2, rel=1e-6)


def test_the_check_of_a_file_is_that_of_its_rows(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = np.round(rng.normal(size=(6000, 2)) + np.linspace(0, 0.5, 6000)[:, None])  # ties, broken by id
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,y", comments="")
    found = result_of("check", tmp_path / "t.csv", "--target", "y", capsys=capsys)
    expected = evaluate.order_test(rows[:, :1], rows[:, 1], random_state=0)
    assert (found["evidence"], found["rows"]) == (expected.evidence, 6000)


# -- errors -----------------------------------------------------------------------------------------

DIGITS = "run --dataset digits --task lowrank --k"
USAGE = {
    "run --task lowrank --k 2": "Give one input",
    "run x.csv --dataset digits --task lowrank --k 2": "Give one input",
    "run x.csv": "Missing option '--task'",
    "run --dataset digits --task clustering": "--task clustering needs --k, the number of clusters",
    "run x.csv --task regression": "needs --target",
    "run x.csv --task lowrank --k 1 --target y": "--task lowrank has no target: remove --target",
    "run nothing.csv --task lowrank --k 1": "nothing.csv cannot be read: No such file",
    "run --dataset q --task lowrank --k 1": "no data set 'q'.*digits",
    f"{DIGITS} 1 --epsilon 0": "--epsilon must be between 0 and 1",
    f"{DIGITS} 1 --half-life soon": '--half-life must be a positive integer or "auto", got .soon.',
    f"{DIGITS} 1 --refresh daily": "'daily' is unknown: choose every",
    f"{DIGITS} 1 --refresh every:0": "rows",
    f"{DIGITS} 1 --refresh geometric:0.5": "growth",
    f"{DIGITS} 99": "--k 99 exceeds the 64 columns",
    "fly": "No such command",
    "show nothing": "nothing is neither a model",
}


@pytest.mark.parametrize("case", USAGE)
def test_bad_usage_is_one_sentence_and_exit_code_2(case, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run_safely(case.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "Traceback" not in captured.err
    assert re.search(USAGE[case], captured.err)


def test_bad_data_leaves_nothing_behind(tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n3,5\n" * 20_000 + b"oops,1\n")
    out = tmp_path / "out"
    assert run_safely(["run", str(path), "--task", "lowrank", "--k", "1", "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        "Error: bad.csv, line 40,002, column 'a': 'oops' is not a number; --na-values oops reads it as missing, "
        "--exclude a ignores the column.\n"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.usefixtures("no_report")
def test_earlier_outputs_stay_when_a_run_fails(stream, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["--task", "lowrank", "--k", "1", "--columns", "x", "--out", str(out)]
    assert run_safely(["run", str(stream.path), *words]) == 0
    before = outputs(out)
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"x\n1\n2\n3\noops\n")
    assert run_safely(["run", str(bad), *words]) == 2
    assert outputs(out) == before
    assert run_safely(["run", str(stream.path), *words]) == 0
    assert outputs(out) == before


def ran(code):
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)


def test_help_comes_fast_and_imports_nothing_heavy():
    run = "from batch2online.app.cli.app import run_safely; run_safely(['run', '--help'])"
    modules = ran(f"import sys; {run}; print(list(sys.modules))").stdout
    for heavy in ("numpy", "sklearn", "scipy", "pyarrow", "matplotlib", "rich"):
        assert f"'{heavy}'" not in modules


@pytest.mark.parametrize("package", ["click", "pyarrow", "rich"])
def test_a_missing_package_is_named(package):
    hide = f"import sys; sys.modules[{package!r}] = None; sys.argv[1:] = ['datasets']"
    process = ran(f"{hide}; from batch2online.app.cli import main; main()")
    assert process.returncode == 2
    assert "pip install 'batch2online[cli]'" in process.stderr
    assert "Traceback" not in process.stderr


# -- predict, show, datasets ------------------------------------------------------------------------


@pytest.mark.usefixtures("no_report")
def test_predict_prepares_columns_as_the_run_did(stream, tmp_path, capsys):
    out, predictions = tmp_path / "out", tmp_path / "predictions.csv"
    words = ["--task", "regression", "--target", "y", "--standardize", "--missing", "drop"]
    assert run_safely(["run", str(stream.path), *words, "--out", str(out)]) == 0
    rows = tmp_path / "new.csv"
    rows.write_text("colour,x\nred,1\ngreen,\nblue,-1\n")
    assert run_safely(["predict", str(out), str(rows), "--out", str(predictions)]) == 0
    header, first, second, third = predictions.read_text().splitlines()
    assert header == "prediction"
    assert second == '""'
    assert abs(float(first) - 3) < 0.1
    assert abs(float(third) + 2) < 0.1


@pytest.mark.usefixtures("no_report")
def test_clusters_of_new_rows(tmp_path, capsys):
    out, words = tmp_path / "out", ["--task", "clustering", "--k", "3"]
    result = result_of("run", "--dataset", "breast_cancer", *words, "--out", out, capsys=capsys)
    rows = datasets.load_rows("breast_cancer")
    model = OnlineClustering(3, history="coreset", random_state=0).partial_fit(rows)
    assert result["last_model"]["cluster_centers"] == model.cluster_centers_.tolist()
    events = [json.loads(line) for line in (out / "changes.jsonl").read_text().splitlines()]
    assert [event["churn"] for event in events] == [event.churn for event in model.changes_]
    assert all(len(event["matching"]) == 3 for event in events)
    assert run_safely(["datasets", "--write", "breast_cancer", "--out", str(tmp_path / "rows.csv")]) == 0
    assert run_safely(["predict", str(out), str(tmp_path / "rows.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    header, *labels = (tmp_path / "p.csv").read_text().split()
    assert header == "cluster"
    assert list(map(int, labels)) == model.predict(rows).tolist()


@pytest.mark.usefixtures("no_report")
def test_predict_names_the_column_that_is_missing(stream, tmp_path, capsys):
    out = tmp_path / "out"
    run_safely(["run", str(stream.path), "--task", "regression", "--target", "y", "--out", str(out)])
    rows = tmp_path / "new.csv"
    rows.write_text("x\n1\n")
    assert run_safely(["predict", str(out), str(rows)]) == 2
    assert "has no column 'colour', which the model needs" in capsys.readouterr().err


@pytest.mark.usefixtures("no_report")
def test_a_model_is_one_self_contained_file(stream, tmp_path, capsys):
    out, alone = tmp_path / "out", tmp_path / "alone.b2o"
    run_safely(["run", str(stream.path), "--task", "regression", "--target", "y", "--out", str(out)])
    capsys.readouterr()
    (out / "model.b2o").rename(alone)
    rows = tmp_path / "new.csv"
    rows.write_text("colour,x\nred,1\n")
    assert run_safely(["predict", str(alone), str(rows)]) == 0
    assert abs(float(capsys.readouterr().out.splitlines()[1]) - 3) < 0.1


@pytest.mark.usefixtures("no_report")
def test_show_tells_what_the_model_saw(stream, tmp_path, capsys):
    out = tmp_path / "out"
    result = result_of("run", stream.path, "--task", "regression", "--target", "y", "--out", out, capsys=capsys)
    shown = result_of("show", out, capsys=capsys)
    assert shown["model"] == "OnlineRegression"
    assert (shown["rows"], shown["ratio"], len(shown["changes"])) == (3000, result["ratio"], result["changes"])
    assert run_safely(["show", str(out / "model.b2o")]) == 0
    assert "times the optimum" in capsys.readouterr().out


def test_a_damaged_model_is_refused(tmp_path, capsys):
    path = tmp_path / "model.b2o"
    path.write_bytes(b"PK nothing")
    assert run_safely(["show", str(path)]) == 2
    assert "no file of batch2online" in capsys.readouterr().err


def test_datasets_are_listed(capsys):
    assert run_safely(["datasets"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in [*datasets.ROWS, *datasets.REGRESSION, "heavy_tails", "drift"])


# -- state ------------------------------------------------------------------------------------------


def run_with_state(stream, folder, *words):
    return ["run", str(stream), "--task", "regression", "--target", "y", "--state", str(folder / "state.b2o"), *words]


@pytest.fixture
def long_stream(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60_000, 4)).round(4)
    y = (X @ [1.0, 2.0, 3.0, 4.0] + rng.standard_normal(60_000)).round(4)
    path = tmp_path / "long.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", fmt="%.4f", header="a,b,c,d,y", comments="")
    return path


def outputs(folder):
    """All files, the report without its date and duration."""
    found = {name: (folder / name).read_bytes() for name in FILES}
    times = re.compile(rb"<tr><th>(date|duration)</th>.*?</tr>")
    return found | {"report.html": times.sub(b"", found["report.html"])}


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (["--order", "random", "--chunk", "1000"], 4),
        (["--missing", "drop", "--standardize", "--chunk", "1000"], 4),
        *((["--chunk", rows], 1) for rows in ("49", "50", "51", "75")),  # a point of the curve is due at row 50
    ],
    ids=str,
)
def test_an_interrupted_run_ends_as_one_that_was_not(long_stream, tmp_path, monkeypatch, capsys, words, calls):
    lines = long_stream.read_text().splitlines(keepends=True)[:6000]
    long_stream.write_text("".join([*lines[:900], ",,,,\n" if "drop" in words else "", *lines[900:]]))
    undisturbed = result_of(*run_with_state(long_stream, tmp_path / "one", *words), capsys=capsys)
    learn, left = Durable.partial_fit, iter(range(calls))

    def interrupted(durable, *rows, **more):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return learn(durable, *rows, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Durable, "partial_fit", interrupted)
        assert run_safely(run_with_state(long_stream, tmp_path / "two", *words)) == 130
    capsys.readouterr()
    assert result_of(*run_with_state(long_stream, tmp_path / "two", *words), capsys=capsys) == undisturbed
    assert undisturbed["rows_dropped"] == ("drop" in words)


@pytest.mark.slow
def test_resuming_continues_where_it_was_and_sees_new_rows(long_stream, tmp_path, capsys):
    lines = long_stream.read_text().splitlines(keepends=True)
    growing = tmp_path / "growing.csv"
    growing.write_text("".join(lines[:20_001]))
    assert run_safely(run_with_state(growing, tmp_path)) == 0
    with Durable.open(tmp_path / "state.b2o") as durable:
        assert durable.model.n_seen_ == 20_000
    growing.write_text("".join(lines))
    capsys.readouterr()
    resumed = result_of(*run_with_state(growing, tmp_path), capsys=capsys)
    assert resumed == result_of("run", growing, "--task", "regression", "--target", "y", capsys=capsys)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["growing.csv", "long.csv", "state.b2o"]


def test_a_state_is_not_continued_with_other_rows_or_settings(long_stream, tmp_path, capsys):
    assert run_safely(run_with_state(long_stream, tmp_path)) == 0
    assert run_safely(run_with_state(long_stream, tmp_path, "--seed", "1")) == 2
    assert "belongs to a run with seed 0, not 1" in capsys.readouterr().err
    lines = long_stream.read_text().splitlines(keepends=True)
    lines[50], lines[51] = lines[51], lines[50]
    long_stream.write_text("".join(lines))
    assert run_safely(run_with_state(long_stream, tmp_path)) == 2
    assert "The first 60,000 rows differ from those" in capsys.readouterr().err
    long_stream.write_text("".join(lines[:100]))
    assert run_safely(run_with_state(long_stream, tmp_path)) == 2
    assert "has 99 rows, but --state has already learned 60,000" in capsys.readouterr().err


def test_an_interrupt_is_no_traceback():
    process = command("run", "-", "--task", "lowrank", "--k", 1, "--emit", "predictions")
    process.stdin.write(b"a,b\n1,2\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["row"] == 1
    time.sleep(0.2)  # until it waits for rows: CPython acts on a signal just before a read only after the read
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)  # standard input stays open: its end would be another reason to stop
    _, error = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in error


def test_every_option_that_columns_have_reaches_them():
    options = {each.name for each in (*settings_of(ColumnOptions), *settings_of(RowOptions))}
    shared = options & {each.name for each in fields(batch2online.Columns)}
    assert shared - Settings(task="regression").of_columns().keys() == {"exclude"}, "that is used as files are read"
