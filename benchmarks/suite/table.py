"""All learners of a problem on its real data: speed against the limits, loss against hindsight, changes, memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from batch2online import evaluate
from batch2online.baselines.peers import PEERS, SPEED, PeerSettings, learners
from batch2online.evaluate.adapters import Adapter, fresh
from benchmarks.suite.contest import Run, contest
from benchmarks.suite.form import Form
from benchmarks.suite.peers import SPEED_ONLY

Data = tuple[np.ndarray, np.ndarray | None]


def table(problem: Any, form: Form) -> dict[str, Any]:
    X, y = problem.data(form)
    chunk = form.choose(tiny=100, quick=problem.CHUNK, full=problem.CHUNK)
    peers = (*PEERS, *SPEED_ONLY)
    limits, models = problem.limits(X, chunk), learners(problem.NAME, PeerSettings(problem.K), SPEED, peers=peers)
    rows_of = {peer.name: peer.most_rows for peer in peers if peer.name in models}
    runs: dict[str, tuple[int, Run]] = {name: (len(X), run) for name, run in limits.items()}
    for name, model in models.items():
        data = _first((X, y), rows_of[name])
        runs[name] = len(data[0]), _learning(model, data, chunk)
    timings = contest(runs, form.repeats)
    measured = {name: timing.record() for name, timing in timings.items()}
    for name, record in measured.items():
        for limit in limits:
            record[f"time / {limit}"] = float(timings[name] / timings[limit])
    for most in set(rows_of.values()):
        group = {name: model for name, model in models.items() if rows_of[name] == most}
        for run in _quality(problem, group, _first((X, y), most), chunk):
            measured[run.model] |= {"loss_ratio": run.ratio, "changes": run.changes, "peak_memory": run.peak_memory}
    shape = {
        "set": form.choose(tiny="tiny", quick=problem.SET, full=problem.SET),
        "rows": len(X),
        "columns": X.shape[1],
    }
    return shape | {"chunk": chunk, "limits": list(limits), "learners": measured}


def _first(data: Data, most: int | None) -> Data:
    X, y = data
    return X[:most], None if y is None else y[:most]


def _learning(model: Any, data: Data, chunk: int) -> Run:
    X, y = data

    def run() -> None:
        learner = Adapter(fresh(model, 0))
        for start in range(0, len(X), chunk):
            rows = slice(start, start + chunk)
            learner.learn(X[rows], None if y is None else y[rows])

    return run


def _quality(problem: Any, models: dict[str, Any], data: Data, chunk: int) -> Any:
    X, y = data
    result = evaluate.prequential(
        models, X, y, loss=problem.LOSS, order="given", seeds=[0], chunk=chunk, warmup=chunk, memory=True
    )
    return result.rows
