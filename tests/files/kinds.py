"""Some fifty kinds of files, made of data sets that come with scikit-learn, and how each is written."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import zipfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
from sklearn.datasets import load_diabetes, load_iris, load_wine

ROWS = 150
CLUSTER = ("--task", "clustering", "--k", "3")


@dataclass(frozen=True)
class File:
    """A file and what is to come of it.

    Attributes
    ----------
    content : bytes or a function of the path
    options : options that a person would give at first
    inputs : names of the model's inputs that must be there, if it works
    rows : rows that are learned
    refused : what the one sentence says, if it does not work
    way_on : options that the sentence names, with which it works
    """

    content: object
    options: tuple[str, ...] = CLUSTER
    inputs: tuple[str, ...] = ()
    rows: int = ROWS
    refused: str = ""
    way_on: tuple[str, ...] = ()
    absent: tuple[str, ...] = field(default=())

    def write(self, path: Path) -> None:
        if callable(self.content):
            self.content(path)
        else:
            path.write_bytes(self.content)


@cache
def iris() -> pd.DataFrame:
    data = load_iris(as_frame=True)
    frame = data.data.rename(columns=lambda name: name.removesuffix(" (cm)").replace(" ", "_"))
    return frame.assign(species=[str(data.target_names[code]) for code in data.target])


@cache
def patients() -> pd.DataFrame:
    data = load_diabetes(as_frame=True, scaled=False)
    frame = data.data.head(ROWS).assign(progression=data.target.head(ROWS))
    start = pd.Timestamp("2024-03-01 06:30")
    return frame.assign(admitted=[start + pd.Timedelta(hours=7 * i) for i in range(ROWS)])


@cache
def wines() -> pd.DataFrame:
    return load_wine(as_frame=True).data.head(ROWS)


def csv(frame: pd.DataFrame, **options) -> bytes:
    return frame.to_csv(index=options.pop("index", False), **options).encode(options.get("encoding", "utf-8"))


def with_gaps(text: str) -> bytes:
    frame = iris().astype(object)
    frame.iloc[::10, 1] = text
    return csv(frame)


def late_species() -> bytes:
    return csv(pd.concat([iris()[iris().species == name] for name in ("setosa", "versicolor", "virginica")]))


def packed_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("iris.csv", csv(iris()))


def two_in_a_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("iris.csv", csv(iris()))
        archive.writestr("readme.txt", "flowers")


def workbook(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("[Content_Types].xml", "xl/workbook.xml"):
            archive.writestr(name, "<xml/>")


def sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        iris().to_sql("flowers", connection, index=False)
    connection.close()


def duckdb_file(path: Path) -> None:
    import duckdb

    flowers = pa.Table.from_pandas(iris())
    with duckdb.connect(str(path)) as connection:
        connection.register("given", flowers)
        connection.execute("CREATE TABLE flowers AS SELECT * FROM given")


def json_lines(frame: pd.DataFrame) -> bytes:
    return frame.to_json(orient="records", lines=True, date_format="iso").encode()


def parquet(frame: pd.DataFrame, **options) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, **options)
    return buffer.getvalue()


def arrow(opener) -> bytes:
    buffer, table = io.BytesIO(), pa.Table.from_pandas(iris(), preserve_index=False)
    with opener(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def notes() -> bytes:
    frame = iris().assign(note=[f'row {i}\nof "iris", seen' if i % 3 else "fine" for i in range(ROWS)])
    return csv(frame)


def nested() -> bytes:
    rows = [{**row, "tags": ["a", i]} for i, row in enumerate(iris().to_dict("records"))]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


SPECIES = ("species=setosa", "species=versicolor", "species=virginica")
SIZES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
PRICE = ("--task", "regression", "--target", "progression")
N_PATIENTS = ("age", "bmi", "s6")

FILES: dict[str, File] = {
    # -- delimited text that works as it is ----------------------------------------------------------
    "iris.csv": File(csv(iris()), inputs=(*SIZES, *SPECIES)),
    "semicolons.csv": File(csv(iris(), sep=";"), inputs=SIZES),
    "tabs.tsv": File(csv(iris(), sep="\t"), inputs=SIZES),
    "tabs_without_a_name.txt": File(csv(iris(), sep="\t"), inputs=SIZES),
    "bars.csv": File(csv(iris(), sep="|"), inputs=SIZES),
    "fixed_width.txt": File(iris().to_string(index=False).encode(), inputs=SIZES),
    "windows_lines.csv": File(csv(iris(), lineterminator="\r\n"), inputs=SIZES),
    "old_mac_lines.csv": File(csv(iris(), lineterminator="\r"), inputs=SIZES),
    "byte_order_mark.csv": File(b"\xef\xbb\xbf" + csv(iris()), inputs=SIZES),
    "utf16_of_excel.txt": File(csv(iris(), sep="\t").decode().encode("utf-16"), inputs=SIZES),
    "all_quoted.csv": File(csv(iris(), quoting=1), inputs=SIZES),
    "quoted_newlines.csv": File(notes(), inputs=SIZES),
    "blank_lines.csv": File(csv(iris()).replace(b"\n", b"\n\n"), inputs=SIZES),
    "blanks_after_commas.csv": File(csv(iris()[list(SIZES)]).replace(b",", b", "), inputs=SIZES),
    "comma_in_a_name.csv": File(csv(wines().rename(columns={"hue": "hue, of red"})), inputs=("hue, of red",)),
    "two_of_one_name.csv": File(csv(iris()).replace(b"sepal_width", b"sepal_length", 1), inputs=("sepal_length (2)",)),
    "comma_at_line_ends.csv": File(csv(iris()).replace(b"\n", b",\n"), inputs=SIZES, absent=("",)),
    # -- what pandas and R leave behind -----------------------------------------------------------------
    "pandas_index.csv": File(csv(iris(), index=True), inputs=SIZES, absent=("",)),
    "pandas_index_twice.csv": File(
        csv(iris().rename_axis("Unnamed: 0").reset_index(), index=True), inputs=SIZES, absent=("", "Unnamed: 0")
    ),
    "row_names_of_r.csv": File(
        csv(iris().set_axis([f"flower {i}" for i in range(ROWS)]), index=True), inputs=SIZES, absent=("",)
    ),
    "write_table_of_r.txt": File(
        iris().set_axis(range(1, ROWS + 1)).to_csv(sep=" ", index_label=False, quoting=2).encode(), inputs=SIZES
    ),
    "pandas_index.parquet": File(parquet(iris().set_axis(range(10, 10 + ROWS)), index=True), inputs=SIZES),
    # -- dates and times ----------------------------------------------------------------------------------
    "dates.csv": File(csv(patients()), PRICE, inputs=("admitted", *N_PATIENTS)),
    "date_parts.csv": File(
        csv(patients()), (*PRICE, "--dates", "parts"), inputs=("admitted: hour", "admitted: weekday", "admitted: month")
    ),
    "zoned_dates.csv": File(
        csv(patients().assign(admitted=patients().admitted.dt.tz_localize("UTC"))), PRICE, inputs=("admitted",)
    ),
    "german_dates.csv": File(
        csv(patients().assign(admitted=patients().admitted.dt.strftime("%d.%m.%Y"))),
        (*PRICE, "--date-format", "%d.%m.%Y"),
        inputs=("admitted",),
    ),
    "times_of_day.csv": File(
        csv(patients().assign(admitted=patients().admitted.dt.strftime("%H:%M:%S"))), PRICE, inputs=("admitted",)
    ),
    "dates.jsonl": File(json_lines(patients()), PRICE, inputs=("admitted",)),
    "dates.parquet": File(parquet(patients()), PRICE, inputs=("admitted",)),
    # -- other formats --------------------------------------------------------------------------------------
    "iris.csv.gz": File(gzip.compress(csv(iris())), inputs=SIZES),
    "iris.csv.bz2": File(bz2.compress(csv(iris())), inputs=SIZES),
    "iris.csv.xz": File(lzma.compress(csv(iris())), inputs=SIZES),
    "iris.csv.zip": File(packed_zip, inputs=SIZES),
    "iris.jsonl": File(json_lines(iris()), inputs=SIZES),
    "nested.jsonl": File(nested(), refused="'tags' contains lists", way_on=("--exclude", "tags")),
    "iris.parquet": File(parquet(iris()), inputs=SIZES),
    "categories.parquet": File(parquet(iris().astype({"species": "category"})), inputs=(*SIZES, *SPECIES)),
    "iris.feather": File(arrow(pa.ipc.new_file), inputs=SIZES),
    "stream.arrow": File(arrow(pa.ipc.new_stream), inputs=SIZES),
    "asked.sqlite": File(sqlite, (*CLUSTER, "--query", "SELECT * FROM flowers"), inputs=SIZES),
    "asked.duckdb": File(duckdb_file, (*CLUSTER, "--query", "SELECT * FROM flowers"), inputs=SIZES),
    # -- what needs an option, and the sentence names it -----------------------------------------------------
    "gaps.csv": File(with_gaps(""), inputs=("sepal_width is missing",)),
    "gaps_refused.csv": File(
        with_gaps(""), (*CLUSTER, "--missing", "refuse"), refused="the value is missing", way_on=("--missing", "mean")
    ),
    "gaps_dropped.csv": File(with_gaps("NA"), (*CLUSTER, "--missing", "drop"), rows=135),
    "question_marks.csv": File(
        with_gaps("?"), refused="'?' is not a number", way_on=("--na-values", "?", "--missing", "mean")
    ),
    "infinite.csv": File(with_gaps("inf"), refused="contains infinity", way_on=("--missing", "mean")),
    "decimal_commas.csv": File(
        csv(iris()[list(SIZES)], sep=";", decimal=","), (*CLUSTER, "--decimal", ","), inputs=SIZES
    ),
    "latin1.csv": File(
        csv(iris().replace("setosa", "sétosa")).decode().encode("latin-1"),
        refused="is not valid UTF-8",
        way_on=("--encoding", "latin-1"),
        inputs=("species=sétosa",),
    ),
    "no_names.csv": File(csv(iris()[list(SIZES)], header=False), refused="instead of names", way_on=("--no-header",)),
    "title_above.csv": File(
        b"Flowers of 1936\n" + csv(iris()), refused="line 2 has 5 values, expected 1", way_on=("--skip-lines", "1")
    ),
    "comments.csv": File(b"# R. A. Fisher\n# 1936\n" + csv(iris()), (*CLUSTER, "--comment", "#"), inputs=SIZES),
    "ragged.csv": File(
        csv(iris()) + b"5.1,3.5\n", refused="line 152 has 2 values", way_on=("--bad-lines", "drop"), inputs=SIZES
    ),
    "unclosed.csv": File(csv(iris()) + b'5,3,1,1,"open\n', refused="line 152: a quoted value is not terminated"),
    "late_level.csv": File(
        late_species(),
        (*CLUSTER, "--lookahead", "60", "--unknown", "refuse"),
        refused="holds 'virginica', which the first rows did not",
        way_on=("--unknown", "other"),
    ),
    "late_level_by_default.csv": File(late_species(), (*CLUSTER, "--lookahead", "60"), inputs=("species=other",)),
    "empty_column.csv": File(
        csv(iris().assign(remark=np.nan)),
        (*CLUSTER, "--missing", "drop"),
        refused="'remark'",
        way_on=("--exclude", "remark"),
    ),
    "text_target.csv": File(
        csv(iris()),
        ("--task", "regression", "--target", "species"),
        refused="must contain numbers",
        way_on=("--target", "petal_width"),
    ),
    "database.sqlite": File(
        sqlite, refused="its tables are 'flowers'", way_on=("--query", 'SELECT * FROM "flowers"'), inputs=SIZES
    ),
    "database.duckdb": File(
        duckdb_file, refused="its tables are 'flowers'", way_on=("--query", 'SELECT * FROM "flowers"'), inputs=SIZES
    ),
    "list.json": File(iris().to_json(orient="records").encode(), refused="jq -c"),
    "workbook.xlsx": File(workbook, refused="save the sheet as CSV"),
    "several.zip": File(two_in_a_zip, refused="an archive of 2 files"),
}
