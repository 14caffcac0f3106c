"""The numbers of the report: counts by weight, quantiles, shares, units; each against a plain computation."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from batch2online import OnlineClustering, OnlineLowRank
from batch2online.app.report import clustering, context, model_figures, overview
from batch2online.app.report.context import ReportContext, RunTime

RNG = np.random.default_rng(0)


def test_the_warning_of_unequal_scales_is_by_variances():
    spreads = np.array([10.0, 2.0, 1.0, 1.0])  # 94 % of the variance, then 98 %: two columns, one too many of four
    assert model_figures.dominance_warning(spreads, list("abcd")) == ""
    assert model_figures.dominance_warning(np.array([10.0, 1.5, 1.0, 1.0]), list("abcd")).startswith(
        "a has 96 % of the variance"
    )


def test_the_strongest_coefficients_come_first_whatever_their_sign():
    table = model_figures.bar_table(["feature", "effect"], ["weak", "strong"], np.array([1.0, -9.0])).html()
    assert table.index("strong") < table.index("weak")
    assert re.search(r'x="-100.0" width="100.0"', table)


def weighted_clusters():
    centers = np.array([[0.0, 0.0], [40.0, 0.0]])
    X = centers[RNG.integers(2, size=900)] + RNG.normal(size=(900, 2))
    weights = np.where(X[:, 0] > 20, 9.0, 1.0)
    model = OnlineClustering(2, random_state=0).fit(X, sample_weight=weights)
    return model, X, weights, "".join(each.html() for each in clustering.sections(context.model_context(model)))


def test_clusters_are_as_large_as_the_weight_of_their_rows():
    _model, X, weights, text = weighted_clusters()
    share = weights[X[:, 0] > 20].sum() / weights.sum()
    shown = float(re.search(r"rows, ([\d.]+)%", text)[1]) / 100  # the largest comes first
    assert shown == pytest.approx(share, abs=0.02)
    assert share > 0.8


def test_typical_rows_are_nearest_to_the_center_and_traits_have_their_side():
    model, _, _, text = weighted_clusters()
    coreset, centers = model.coreset_, model.cluster_centers_
    for card in re.findall(r'<div class="cluster">.*?fate">.*?</div>', text, re.DOTALL):
        j = int(re.search(r"Cluster (\d)", card)[1])
        distances = np.linalg.norm(coreset.points - centers[j], axis=1)
        ids = [int(cell.replace(",", "")) for cell in re.findall(r'<tr><td class="number">([\d,]+)</td>', card)]
        assert ids == coreset.ids[np.argsort(distances, kind="stable")[:3]].tolist()
        assert f"x1 {'high' if centers[j][0] > 20 else 'low'}: " in card


def test_a_long_run_is_told_in_minutes():
    of_model = context.model_context(OnlineLowRank(1, random_state=0).partial_fit(RNG.normal(size=(20, 2))))
    for seconds, shown in ((90.0, "90.0 s"), (600.0, "10.0 min")):
        facts, _ = overview.data_section(replace(of_model, run_time=RunTime("today", seconds))).parts
        assert ("duration", shown) in facts.rows


def test_one_hot_columns_of_one_input_are_one_feature():
    context = ReportContext(None, "", "", ["a", "c=x", "c=y", "d=1"], None, np.zeros(4), np.ones(4),
                            result={"preparation": {"categories": {"c": ["x", "y"]}}})  # fmt: skip
    assert context.feature_groups == {"a": [0], "c": [1, 2], "d=1": [3]}
