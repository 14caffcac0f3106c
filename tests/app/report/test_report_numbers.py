"""The numbers of the report: counts by weight, quantiles, shares, units; each against a plain computation."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from batch2online import OnlineClustering, OnlineLowRank
from batch2online.app.report import classification, clustering, context, model_figures, overview, regression
from batch2online.app.report.classification import ClassifiedRows
from batch2online.app.report.context import ReportContext, RunTime
from batch2online.app.report.regression import PredictedRows

RNG = np.random.default_rng(0)


def classified(n_classes=2, n=200):
    shares = RNG.dirichlet(np.ones(n_classes), size=n)
    return ClassifiedRows(
        [f"c{j}" for j in range(n_classes)], RNG.integers(n_classes, size=n), shares, RNG.uniform(1, 9, size=n)
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_confusion_counts_weights_by_true_and_predicted_class(n_classes):
    found = classified(n_classes)
    expected = [
        [found.weights[(found.truth == i) & (found.probabilities.argmax(axis=1) == j)].sum() for j in range(n_classes)]
        for i in range(n_classes)
    ]
    np.testing.assert_allclose(found.confusion, expected)


def test_the_share_found_is_that_of_the_true_class():
    found = classified(3)
    text = classification.confusion_table(found, "kind").html()
    for i, label in enumerate(found.labels):
        own = found.truth == i
        recall = np.average(found.probabilities[own].argmax(axis=1) == i, weights=found.weights[own])
        assert re.search(rf"<tr><td>{label}<.*?{100 * recall:.1f} %</td></tr>", text)


def test_reliability_pairs_each_probability_with_its_outcome():
    claimed = RNG.permutation(np.repeat([0.1, 0.9], 50))
    weights = RNG.uniform(1, 2, size=100)
    mean, share = model_figures.binned_means(claimed, claimed > 0.5, weights)
    np.testing.assert_allclose(mean[[0, -1]], [0.1, 0.9])
    np.testing.assert_allclose(share[[0, -1]], [0.0, 1.0])


def numbers(n=300):
    predicted = np.sort(RNG.normal(size=n))
    return PredictedRows(predicted, predicted + RNG.normal(size=n), RNG.pareto(1.5, size=n) + 0.1)


def test_coverage_is_by_weight():
    found = numbers()
    expected = found.weights[found.targets <= found.predicted].sum() / found.weights.sum()
    assert regression.below(found) == pytest.approx(expected)


def test_quantiles_of_residuals_are_by_weight():
    values, counts = RNG.normal(size=50), RNG.integers(1, 20, size=50)
    repeated = np.quantile(np.repeat(values, counts), [0.1, 0.5, 0.9], method="inverted_cdf")
    np.testing.assert_allclose(regression.weighted_quantiles(values, counts.astype(float), (0.1, 0.5, 0.9)), repeated)


def test_bins_hold_equal_weight_in_the_order_of_predictions():
    found = numbers(4000)._replace(weights=np.linspace(1.0, 9.0, 4000))
    bins = model_figures.equal_weight_bins(found.weights)
    assert np.unique(bins).tolist() == list(range(10))
    assert (np.diff(bins) >= 0).all()
    np.testing.assert_allclose(np.bincount(bins, found.weights), found.weights.sum() / 10, rtol=0.01)


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
