"""The table of defects names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import defects

TESTS = Path(__file__).resolve().parents[1]
NUMBERS = {f"d{number:02d}" for number in range(1, 30)} | {"d02b", "d02c"}


def test_every_defect_has_a_test_that_is_there():
    entries = re.findall(r"^(d\w+) +(\S+)::(\w+)$", defects.__doc__, flags=re.MULTILINE)
    assert {number for number, _, _ in entries} == NUMBERS
    for number, file, name in entries:
        assert f"def {name}(" in (TESTS / file).read_text(), number
