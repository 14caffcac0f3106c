"""Results of whole streams do not change from one version to the next: coresets, models, changes and losses.

``python tests/stream/test_golden.py`` tells what differs in the last bits, and with ``--write`` writes the file anew.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from batch2online import (
    BatchToOnline,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    coresets,
    refresh,
)

GOLDEN = Path(__file__).parents[1] / "data" / "golden.json"
ROWS, CHUNK, FIRST = 9_000, 1_777, 3
TOLERANCE = 1e-9
"""Another processor may round differently."""

ESTIMATORS = {
    "least squares": OnlineRegression(random_state=1),
    "least squares on the coreset": OnlineRegression(random_state=1, solve="coreset", coreset_size=300),
    "least squares with a floor": OnlineRegression(random_state=1, refresh=refresh.Adaptive(floor=0.01)),
    "decay": OnlineRegression(random_state=1, half_life=700, coreset_size=300),
    "low rank": OnlineLowRank(2, random_state=1, coreset_size=300),
    "clustering": OnlineClustering(3, random_state=1, coreset_size=300),
    "classifier": OnlineClassifier(random_state=1, coreset_size=300),
    "quantile": OnlineRegression(loss="quantile", random_state=1, coreset_size=300),
    "measured": BatchToOnline(Ridge(), random_state=1, coreset_size=None),
    "on change": BatchToOnline(
        Ridge(),
        random_state=1,
        coreset_size=200,
        coreset=coresets.Uniform,
        refresh=refresh.OnChange(start=ROWS - 200),
    ),
    "window": OnlineRegression(random_state=1, window=1_500, coreset_size=300),
    "window of a classifier": OnlineClassifier(random_state=1, window=1_000, coreset_size=300),
    "selected half-life": OnlineRegression(random_state=1, half_life="auto", coreset_size=300),
}


def _data() -> tuple[np.ndarray, np.ndarray]:
    """Return rows in three groups, and targets whose dependence on them changes twice."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 6)) * [1, 2, 3, 1, 1, 0.1] + 6 * rng.integers(3, size=(ROWS, 1))
    y = X @ rng.normal(size=6) + rng.standard_t(3, size=ROWS)
    y[ROWS // 2 :] += 3 * X[ROWS // 2 :, 0]
    y[3 * ROWS // 4 :] -= 5 * X[3 * ROWS // 4 :, 1]
    return X, y


def _results(name: str) -> dict[str, Any]:
    """Return what a reader can see of an estimator after the whole stream, half of it learned in chunks."""
    model = ESTIMATORS[name]
    model = type(model)(**model.get_params(deep=False))
    X, y = _data()
    targets: dict[type, Any] = {OnlineClassifier: X[:, 0] > 6.5, OnlineClustering: None, OnlineLowRank: None}
    values = targets.get(type(model), y)
    cuts = [0, FIRST, *range(CHUNK, ROWS // 2, CHUNK), ROWS // 2, ROWS]
    for start, stop in itertools.pairwise(cuts):
        if values is None:
            model.partial_fit(X[start:stop])
        else:
            model.partial_fit(X[start:stop], values[start:stop])
    coreset, regret = model.coreset_, model.regret_
    return {
        "ids": coreset.ids.tolist(),
        "weights": coreset.weights.tolist(),
        "changes": [
            {
                key: getattr(event, key)
                for key in ("at", "kind", "magnitude", "cost_before", "cost_after", "tolerance", "rows", "n_fit_rows")
            }
            for event in model.changes_
        ],
        "model": _model_of(model, X[:20]).tolist(),
        "regret": {key: getattr(regret, key) for key in ("loss", "secondary_loss", "optimum", "rows", "weight")},
        "order": [model.order_.evidence, model.order_.rows],
    }


def _model_of(model: Any, X: np.ndarray) -> np.ndarray:
    if isinstance(model, OnlineClassifier):
        return np.asarray(model.predict_proba(X))
    if isinstance(model, OnlineClustering):
        return np.asarray(model.cluster_centers_)
    return np.asarray(model.transform(X) if isinstance(model, OnlineLowRank) else model.predict(X))


def _differences(found: Any, stored: Any, tolerance: float, at: str = "") -> list[str]:
    """Return where two results differ: numbers by more than a share, all else at all."""
    if isinstance(stored, dict) and isinstance(found, dict) and stored.keys() == found.keys():
        return [text for key in stored for text in _differences(found[key], stored[key], tolerance, f"{at}/{key}")]
    if isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        pairs = enumerate(zip(found, stored, strict=True))
        return [text for i, (one, other) in pairs for text in _differences(one, other, tolerance, f"{at}/{i}")]
    if isinstance(stored, float) and isinstance(found, float) and abs(found - stored) <= tolerance * abs(stored):
        return []
    return [] if found == stored else [f"{at}: {found!r} is not {stored!r}"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_results_are_those_of_earlier_versions(name: str) -> None:
    stored = json.loads(GOLDEN.read_text())[name]
    assert not _differences(json.loads(json.dumps(_results(name))), stored, TOLERANCE)


if __name__ == "__main__":
    results = {name: json.loads(json.dumps(_results(name))) for name in ESTIMATORS}
    if "--write" in sys.argv:
        GOLDEN.write_text(json.dumps(results, separators=(",", ":")) + "\n")
    for known, content in json.loads(GOLDEN.read_text()).items():
        print(known, len(content["changes"]), "changes:", _differences(results[known], content, 0.0)[:4] or "the same")
