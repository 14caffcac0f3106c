"""``batch2online run --workers``: files are partitions, prepared as those of one machine."""

import contextlib
import json
import re

import dask
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import batch2online
from batch2online.app.cli import app as command_line
from batch2online.app.cli.commands import run as command


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(3):
        n = 700 + 100 * number
        table = pd.DataFrame({"a": rng.normal(size=n), "kind": rng.choice(["x", "y", "z"], size=n)})
        table["y"] = 2 * table.a + (table.kind == "x") + rng.normal(size=n)
        table.loc[5, "a"] = np.nan
        table.to_csv(tmp_path / f"rows-{number}.csv", index=False)
    return tmp_path


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """Run what is delayed in this process: clusters of processes are tested elsewhere."""

    @contextlib.contextmanager
    def no_cluster(workers, scheduler):
        with dask.config.set(scheduler="synchronous"):
            yield

    monkeypatch.setattr(command, "cluster", no_cluster)


def ran(*words):
    return CliRunner().invoke(command_line.app, ["run", *map(str, words)], catch_exceptions=True)


OPTIONS = ("--task", "regression", "--target", "y", "--missing", "drop", "--workers", 2)


def test_files_are_learned_side_by_side(folder):
    result = ran(f"{folder}/rows-*.csv", *OPTIONS, "--out", folder / "out")
    assert result.exit_code == 0, result.output
    told = json.loads((folder / "out" / "result.json").read_text())
    assert (told["rows"], told["rows_dropped"], told["loss"], told["curve"]) == (2_397, 3, None, [])
    assert "without order" in result.output
    report = (folder / "out" / "report.html").read_text()
    report = re.sub(r"<script( type=.text/plain.*?)?>.*?</script>", "", report, flags=re.DOTALL)
    assert "application/json" in report
    assert "nan" not in report.lower().replace("nan>", "")
    model = batch2online.load(folder / "out" / "model.b2o")
    np.testing.assert_allclose(model.coef_[0], 2.0, atol=0.1)


@pytest.mark.slow
def test_the_files_may_be_cut_otherwise(folder):
    def coefficients(pattern, out):
        assert ran(pattern, *OPTIONS, "--out", folder / out).exit_code == 0
        return batch2online.load(folder / out / "model.b2o").coef_

    several = coefficients(f"{folder}/rows-*.csv", "several")
    everything = pd.concat(
        [pd.read_csv(path, float_precision="round_trip") for path in sorted(folder.glob("rows-*.csv"))]
    )
    everything.to_csv(folder / "all.csv", index=False)
    np.testing.assert_allclose(several, coefficients(f"{folder}/all.csv", "one"), rtol=1e-9)


@pytest.mark.parametrize("unfit", [("--order", "random"), ("--window", "50"), ("--chunk", "9"), ("--emit", "changes")])
def test_what_needs_an_order_is_refused(folder, unfit):
    result = ran(f"{folder}/rows-*.csv", *OPTIONS, *unfit)
    assert result.exit_code != 0
    assert f"remove {unfit[0]}" in str(result.exception)


def test_a_bad_file_is_named(folder):
    with open(folder / "rows-1.csv", "a") as file:
        file.write("many,x,1.0\n")
    result = ran(f"{folder}/rows-*.csv", *OPTIONS)
    assert "rows-1.csv" in str(result.exception)
    assert "many" in str(result.exception)
