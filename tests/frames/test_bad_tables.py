"""Bad tables end in a sentence and leave no trace: the short form of ``python -m torture bad-tables``."""

from __future__ import annotations

import pytest

from torture.bad_tables import campaign


@pytest.mark.slow
def test_bad_tables_end_in_a_sentence_and_leave_no_trace():
    outcomes = campaign(150, seed=1)
    assert sum(outcomes.values()) == 150
    assert outcomes["a sentence, no trace"] > 50
