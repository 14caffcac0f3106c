"""Estimators of all families on rows of all kinds: each pair works, or ends in a sentence that names the way on."""

from __future__ import annotations

from pathlib import Path

import pytest

from table_estimators import ESTIMATORS, KINDS, NOTES, cell, header, line

OPTIONAL = {
    "LGBMRegressor": "lightgbm",
    "XGBRegressor": "xgboost",
    "XGBClassifier": "xgboost",
    "CatBoostRegressor": "catboost",
}


PAGE = (Path(__file__).parents[2] / "table_estimators.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.few(6)
@pytest.mark.slow
def test_an_estimator_takes_rows_or_names_the_way_on_as_the_page_says(name):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    assert {cell(name, kind) for kind in KINDS} <= {"yes", *NOTES.values()}
    assert line(name) in PAGE


def test_the_page_has_all_kinds_and_all_estimators():
    first = PAGE.index(header())
    assert sum(each.startswith("| `") for each in PAGE[first : first + 2 + len(ESTIMATORS)]) == len(ESTIMATORS)
