"""Bodies of requests: rows that are alike are read another way, with the same result."""

import json
import random

import pytest

pytest.importorskip("msgspec", reason="needs the extra serve")

from batch2online.app.serve.bodies import _decode_rows, _from_rows, table_of
from batch2online.app.serve.problems import RequestError

NAMES = ["a", "b", 'quote "', "brace }", "é", "\t"]
VALUES = {
    "numbers": [1, -2.5, 1e300, 0],
    "numbers and gaps": [1, None, 2.5],
    "strings": ["x", "brace }", "", None],
    "truth values": [True, False, None],
}


def rows_of(rng):
    """Rows with the same names in any order, sometimes with one name less or more."""
    kinds = {name: rng.choice(list(VALUES)) for name in rng.sample(NAMES, rng.randrange(1, 5))}
    rows = []
    for _ in range(rng.randrange(1, 6)):
        names = rng.sample(list(kinds), len(kinds) - (len(kinds) > 1 and rng.random() < 0.1))
        rows.append({name: rng.choice(VALUES[kinds[name]]) for name in names})
        if rng.random() < 0.05:
            rows[-1]["more"] = 1.0
    return rows


@pytest.mark.parametrize("seed", range(200))
def test_rows_that_are_alike_are_the_same_table(seed):
    rows = rows_of(random.Random(seed))
    body = json.dumps(rows).encode()
    expected = _from_rows(_decode_rows(body))
    lines = "\n\n".join(map(json.dumps, rows)).encode()
    for found in (table_of(body, "application/json"), table_of(lines, "application/x-ndjson")):
        assert found.equals(expected), rows


@pytest.mark.parametrize("second", ["x", True])
def test_values_of_several_types_are_refused(second):
    with pytest.raises(RequestError, match="several types"):
        table_of(json.dumps([{"a": 1.0}, {"a": second}]).encode(), "application/json")
