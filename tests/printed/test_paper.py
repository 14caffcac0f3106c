"""The numbers of ``batch2online paper``, which follow from those beside them."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest

from printed.commands import run
from printed.net import differ


@pytest.mark.slow
def test_numbers_of_the_figure_agree_with_those_in_the_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    optima = {}
    assert run("paper", "--out", tmp_path, "--rows", 150, "--seeds", 1, "--jobs", 1) == 0
    text = [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    table, points, out = [cells for cells in text if len(cells) == 5], pd.read_csv(tmp_path / "paper_figure.csv"), []
    heads, lines = table[0][3:], table[1:]
    for (problem, data, epsilon, *cells), name in product(lines, heads):
        where = {"problem": problem, "data": data, "epsilon": float(epsilon), "algorithm": name}
        curve = points[(points[[*where]] == [*where.values()]).all(axis=1)]
        last, optimum = curve.iloc[-1], (curve["regret"] / (curve["ratio"] - 1)).to_numpy()
        out += differ(cells[heads.index(name)], last["ratio"], last["regret"])
        assert last["rows"] == 150
        assert last["ratio"] >= 1 - 1e-9
        assert (curve[["ratio_std", "regret_std", "changes_std"]] == 0).all(axis=None)
        for each in ("rows", "changes"):
            assert curve[each].is_monotonic_increasing
        assert (np.diff(optimum) >= -1e-6 * optimum[-1]).all()
        optima.setdefault((problem, data), []).append(optimum)
    for same in optima.values():
        assert all(np.allclose(each, same[0], rtol=1e-6, atol=1e-6, equal_nan=True) for each in same)
    assert len(points) == len(lines) * len(heads) * points["rows"].nunique()
    assert not out
