"""Columns that other tools add to files or leave out of them: old row numbers, partitions in names of folders."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import pytest

from batch2online.tables.columns import ColumnType
from processes import COMMAND, run_to_end

pytest.importorskip("click", reason="needs the extra cli")
pytest.importorskip("pyarrow", reason="needs the extra cli")

from batch2online.app.inputs import DataError, Layout, open_sources, paths_of


def regression(*files):
    code, out, error = run_to_end(COMMAND, "run", *files, "--task", "regression", "--target", "y", "--json")
    return code, json.loads(out) if code == 0 else error


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_row_numbers_of_a_shuffled_frame_are_no_feature(tmp_path, kind, kept):
    """The target grows with the row number, and depends on nothing else; to refuse the column is as good."""
    rng, n = np.random.default_rng(0), 1000
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "y": np.arange(n) / n})
    table, path = table.sample(frac=1, random_state=1), tmp_path / f"rows.{kind}"
    getattr(table, f"to_{kind}")(path, index=kept)
    code, result = regression(path)
    assert code in ((0, 2) if kept else (0,)), result
    assert code or result["inputs"] == ["a", "b"]


@pytest.mark.parametrize("files", ["t", "t/**/*.parquet"])
def test_columns_of_partitions_are_learned(tmp_path, files):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=600), "month": rng.integers(1, 7, 600)})
    table["y"] = table.a + 5 * table.month + rng.normal(size=600)
    table.to_parquet(tmp_path / "t", partition_cols=["month"])
    code, result = regression(tmp_path / files)
    assert code == 0, result
    assert any(name.startswith("month") for name in result["inputs"])


def test_values_in_names_of_folders_are_numbers_dates_or_strings(tmp_path):
    for number, (day, shop) in enumerate([("2024-01-01", "a"), ("2024-01-02", "__HIVE_DEFAULT_PARTITION__")]):
        folder = tmp_path / f"day={day}" / f"shop={shop}" / f"n={number}"
        folder.mkdir(parents=True)
        (folder / "rows.csv").write_text("x\n1\n2\n")
        (folder / "_SUCCESS").write_text("")
    source = open_sources(paths_of([str(tmp_path)]), Layout())
    assert source.kinds == {"x": "number", "day": "time", "shop": "string", "n": "number"}
    rows = [row for batch in source.batches(["day", "shop", "x", "n"]) for row in batch.table.to_pylist()]
    days = [dt.datetime(2024, 1, day) for day in (1, 2)]
    expected = [(days[0], "a", 0.0)] * 2 + [(days[1], None, 1.0)] * 2
    assert [(row["day"], row["shop"], row["n"]) for row in rows] == expected
    known = open_sources(paths_of([str(tmp_path)]), Layout(kinds={"n": ColumnType.STRING}))
    assert [batch.table.column("n")[0].as_py() for batch in known.batches(["n"])] == ["0", "1"]
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="nothing is an empty folder"):
        paths_of([str(tmp_path / "nothing")])
