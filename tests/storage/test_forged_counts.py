"""Counts of a forged file: refused, or harmless; memory in proportion to the file."""

import hashlib
import json
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")

FORGED = [
    *(("journal", value) for value in ("60000000", "10000000000000")),
    *(("commit", value) for value in ('"x"', "null")),
    *(("changes", value) for value in ("1.5", "[]")),
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


def signed_anew(path, **entries):
    """Replace entries, under a right checksum."""
    connection = sqlite3.connect(path)
    meta = dict(connection.execute("SELECT * FROM meta")) | entries
    del meta["check"]
    meta["check"] = hashlib.sha256(json.dumps(sorted(meta.items())).encode()).hexdigest()
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.commit()
    connection.close()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What becomes of each file, in a process that may take 300 MB more than it has."""
    folder = tmp_path_factory.mktemp("forged")
    X = np.random.default_rng(0).normal(size=(200, 3))
    with Durable(folder / "plain.b2o", OnlineRegression(random_state=0), log_changes=True) as model:
        model.partial_fit(X, X[:, 0])
    plain, paths = (folder / "plain.b2o").read_bytes(), {}
    for number, entry in enumerate([None, *FORGED]):
        paths[entry] = folder / str(number) / "model.b2o"
        paths[entry].parent.mkdir()
        paths[entry].write_bytes(plain)
        signed_anew(paths[entry], **({} if entry is None else dict([entry])))
    command = [sys.executable, "-c", OPEN, str(folder / "plain.b2o"), *map(str, paths.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(paths, done.stdout.split(), strict=True))


def test_a_file_signed_anew_opens(outcomes):
    """Else the files of the next test are refused for their checksum."""
    assert outcomes[None] == "opened"


@pytest.mark.parametrize("entry", FORGED, ids="=".join)
@pytest.mark.xfail(reason="d67: a count of a file makes opening allocate, or raise errors of Python")
def test_a_forged_count_is_refused_or_harmless(outcomes, entry):
    assert outcomes[entry] in ("opened", "refused")
