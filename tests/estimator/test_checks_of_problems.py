"""``check_estimator`` notices mistakes in the mathematics of a problem of one's own, and says what is wrong."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from batch2online.checks import check_estimator, problem_checks

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from k_medoids import KMedoidsProblem, OnlineKMedoids

SOUND = {name: getattr(KMedoidsProblem, name) for name in ("cost", "difference", "fit", "losses", "optimum", "same")}


def without_weights(data):
    coreset = replace(data.coreset, weights=np.ones(len(data.coreset)))
    plain = type(data)(data.sketch, data.history)
    vars(plain)["coreset"] = coreset
    return plain


def means_of_blocks(losses):
    blocks = np.arange(len(losses)) // 16
    return (np.bincount(blocks, losses) / np.bincount(blocks))[blocks]


MISTAKES = {
    "weights ignored in fit": (
        "fit",
        lambda self, data, current: SOUND["fit"](self, without_weights(data), current),
        "a row of weight 20 must count in fit as 20 rows",
    ),
    "weights ignored in cost": (
        "cost",
        lambda self, model, data: SOUND["cost"](self, model, without_weights(data)),
        "cost must be the sum of the losses times the weights of the rows",
    ),
    "optimum doubled": (
        "optimum",
        lambda self, data, model: 2 * SOUND["optimum"](self, data, model),
        "optimum must be at most the cost of every model",
    ),
    "losses as means of blocks": (
        "losses",
        lambda self, *rows: tuple(map(means_of_blocks, SOUND["losses"](self, *rows))),
        "losses must not depend on the other rows of the call",
    ),
    "undeclared dependence on current": (
        "fit",
        lambda self, data, current: SOUND["fit"](self, data, current)._replace(
            **{} if current is None else {"model": current}
        ),
        r"fit\(data, current\) must return the model of fit\(data, None\)",
    ),
    "negative losses": (
        "losses",
        lambda self, *rows: tuple(each - 1 for each in SOUND["losses"](self, *rows)),
        "losses must not be negative, got -1",
    ),
    "same always true": ("same", lambda self, old, new: True, "same must be false for two models whose losses differ"),
    "same always false": ("same", lambda self, old, new: False, "same must be true for a model and itself"),
    "magnitude 0": (
        "difference",
        lambda self, *models: SOUND["difference"](self, *models) | {"magnitude": 0.0},
        "magnitude must be above 0 for two models whose losses differ",
    ),
    "lower bound above the optimum": (
        "lower_bound",
        lambda self, data: 1.01 * SOUND["optimum"](self, data, SOUND["fit"](self, data, None).model),
        "lower_bound must be at most the cost of every model",
    ),
}


@pytest.mark.parametrize("history", ["memory", "coreset"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_problem_is_noticed(mistake, history, monkeypatch):
    name, planted, message = MISTAKES[mistake]
    check_estimator(OnlineKMedoids(3, history=history), only=problem_checks)
    monkeypatch.setattr(KMedoidsProblem, name, planted)
    with pytest.raises(AssertionError, match=message):
        check_estimator(OnlineKMedoids(3, history=history), only=problem_checks)
