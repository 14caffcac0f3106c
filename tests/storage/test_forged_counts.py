"""Counts of a forged file: refused, or harmless; memory in proportion to the file."""

import contextlib
import json
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression
from batch2online.storage.database import Database

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")

FORGED = [
    *(("journal", value) for value in ([0, 60_000_000, 5], [-(10**13), 10**13, 10**13], 5)),
    *(("history", value) for value in ([0, 10**13], [10**20, 3])),
    *(("parts", value) for value in (60_000_000, 10**13, -1)),
    *(("commit", value) for value in ("x", None)),
    *(("changes", value) for value in (1.5, [], 10**13)),
    *(("call_keys", value) for value in (10**13, -1)),
    *(("waiting", value) for value in (10**13, "y")),
]
"""Entries of the file, and what they are replaced by."""
OPEN = """
import resource, sys
import batch2online
from batch2online import Durable, OnlineRegression

batch2online.load(sys.argv[1])
limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 300 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sys.argv[2:]:
    try:
        with Durable.open(path) as model:
            list(model.changes())
            model.n_seen_, model.predict([[1.0, 2.0, 3.0]])
        print("opened")
    except BaseException as error:
        names = {each.__name__ for each in type(error).__mro__}
        print("refused" if names & {"StoreError", "CheckpointError"} else type(error).__name__)
"""


def overwritten(folder, plain):
    """Files of which one value of one table is another; checksums are left as they are."""
    for number, (table, column, where, row) in enumerate(_values(plain)):
        for value in (10**13, "[]"):
            path = folder / f"{number} {table} {column} {value}.b2o"
            path.write_bytes(plain)
            with (
                contextlib.closing(sqlite3.connect(path)) as connection,
                connection,
                contextlib.suppress(sqlite3.Error),
            ):
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value, *row))
            yield path


def _values(plain):
    """Every table, its columns, and what selects each of its first rows."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(plain)
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]
            where = " AND ".join(f"{column} IS ?" for column in columns)
            for row in connection.execute(f"SELECT * FROM {table} LIMIT 20"):
                yield from ((table, column, where, row) for column in columns)


def signed_anew(path, entry):
    """Replace an entry of the table of counts, under a right checksum."""
    name, value = entry or ("commit", 1)
    database = Database(path, "live")
    database.run("PRAGMA journal_mode=DELETE")
    text = json.dumps(database.meta | {name: value})
    database.put("meta", 0, text)
    database.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "model.b2o"
    X = np.random.default_rng(0).normal(size=(200, 3))
    with Durable(path, OnlineRegression(random_state=0), log_changes=True) as model:
        model.partial_fit(X, X[:, 0])
    return path


def outcomes_of(plain, paths):
    """What becomes of each file, in a process that may take 300 MB more than it has."""
    command = [sys.executable, "-c", OPEN, str(plain), *map(str, paths.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(paths, done.stdout.split(), strict=True))


@pytest.fixture(scope="module")
def outcomes(plain, tmp_path_factory):
    folder, paths = tmp_path_factory.mktemp("forged"), {}
    for number, entry in enumerate([None, *FORGED]):
        paths[str(entry)] = folder / f"{number}.b2o"
        paths[str(entry)].write_bytes(plain.read_bytes())
        signed_anew(paths[str(entry)], entry)
    return outcomes_of(plain, paths)


def test_a_file_signed_anew_opens(outcomes):
    """Else the files of the next test are refused for their checksum."""
    assert outcomes["None"] == "opened"


@pytest.mark.parametrize("entry", FORGED, ids=str)
def test_a_forged_count_is_refused_or_harmless(outcomes, entry):
    assert outcomes[str(entry)] in ("opened", "refused")


@pytest.mark.slow
def test_an_overwritten_value_is_refused_or_harmless(plain, tmp_path):
    """Whatever tables the file has: a huge number and another string in each place."""
    paths = {path.name: path for path in overwritten(tmp_path, plain.read_bytes())}
    outcomes = outcomes_of(plain, paths)
    assert len(outcomes) > 20
    assert {*outcomes.values()} == {"opened", "refused"}, outcomes
