"""Stream a real data set through OnlineRegression, 20 rows at a time, and print its loss."""

from __future__ import annotations

import time

import numpy as np

from batch2online import OnlineRegression, datasets

X, y = datasets.load_regression("diabetes")
rng = np.random.default_rng(0)
order = rng.permutation(np.tile(np.arange(len(X)), 50))  # a stream of 22,100 rows drawn from 442 patients
X, y = X[order], y[order]

model = OnlineRegression(random_state=0)
started = time.perf_counter()
for start in range(0, len(X), 20):
    model.partial_fit(X[start : start + 20], y[start : start + 20])
rate = len(X) / (time.perf_counter() - started)

regret = model.regret_
print(f"rows seen           {model.n_seen_:,} at {rate:,.0f} rows/s")
print(f"loss of the stream  {regret.loss:,.1f}")
print(f"best in hindsight   {regret.optimum:,.1f}  (ratio {regret.ratio:.4f})")
print(f"coreset             {len(model.coreset_):,} rows")
print(f"model changes       {model.n_changes_}, the last of them:")
for event in model.changes_[-3:]:
    print(f"  {event.reason}")
