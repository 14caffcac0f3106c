"""Files are opened by processes that have imported nothing but what opens them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from batch2online import BatchToOnline, Durable, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
Y = X @ [1.0, 2.0, 3.0]
TABLE = pd.DataFrame({"number": X[:, 0], "string": rng.choice(["u", "v"], 200)})
MODELS = {
    "regression": (OnlineRegression, X, Y),
    "huber": (lambda **settings: OnlineRegression(loss="huber", **settings), X, Y),
    "table": (lambda **settings: OnlineRegression(columns="auto", **settings), TABLE, Y),
    "classifier": (OnlineClassifier, X, Y > 0),
    "clustering": (lambda **settings: OnlineClustering(2, **settings), X, None),
    "low rank": (lambda **settings: OnlineLowRank(1, **settings), X, None),
    "wrapped": (lambda **settings: BatchToOnline(Ridge(), **settings), X, Y),
    "booster": (lambda **settings: BatchToOnline(HistGradientBoostingRegressor(max_iter=3), **settings), X, Y),
}

OPENED = """
import json, os, sys
from batch2online import Durable, load
for name in json.loads(sys.argv[2]):
    for way in (load, Durable.open):
        if not os.fork():  # each has imported nothing else
            model = way(os.path.join(sys.argv[1], name))
            print(name, type(model).__name__, model.n_seen_, flush=True)
            os._exit(0)
        os.wait()
"""


def test_any_file_is_opened_where_no_estimator_was_imported(tmp_path):
    for name, (make, rows, targets) in MODELS.items():
        with Durable(tmp_path / name, make(random_state=0)) as durable:
            durable.partial_fit(rows, targets)
    words = [sys.executable, "-W", "ignore", "-c", OPENED, str(tmp_path), json.dumps(list(MODELS))]
    run = subprocess.run(words, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert [line.rsplit(" ", 2)[0] for line in lines] == [name for name in MODELS for _ in range(2)], run.stderr
    assert all(line.endswith(" 200") for line in lines)
