"""Estimators of all families on rows of all kinds: each pair works, or ends in a sentence that names the way on."""

from __future__ import annotations

from pathlib import Path

import pytest

from table_estimators import ESTIMATORS, KINDS, NOTES, cell, lines

OPTIONAL = {
    "LGBMRegressor": "lightgbm",
    "XGBRegressor": "xgboost",
    "XGBClassifier": "xgboost",
    "CatBoostRegressor": "catboost",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_takes_rows_or_names_the_way_on(name, kind):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    assert cell(name, kind) in ("yes", *NOTES.values())


def test_the_page_says_what_works():
    for package in set(OPTIONAL.values()):
        pytest.importorskip(package)
    page = (Path(__file__).parents[1] / "docs" / "tables.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines() if line not in page] == []
