"""Tables with text and categories: batch algorithms on coresets against refits on all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from batch2online import BatchToOnline, datasets
from benchmarks.suite import table_streams as streams
from benchmarks.suite.form import Form
from benchmarks.suite.study import Study

NIGHTS = 100
SIZES = (5_000, 20_000, 50_000)
FORMATS = {"/ refits": ".3f", "/ nightly": ".3f", "solve s": ".1f", "all s": ".1f", "times less": ".1f", "MB": ".1f"}
TEXT = (
    "Tables and strings in random order, chunks of 1,000, losses from row 1,000 on: flights (arrival delay; carrier, "
    "origin and destination as categories) and diamonds (logarithm of the price; cut, colour and clarity), squared "
    "loss of boosted trees; docstrings classified by package, for five packages, log loss of a linear model of "
    f"words. `refits` fits on all rows at doublings, `nightly` {NIGHTS} times at equal steps, `BatchToOnline` on a "
    "coreset of the given size, with its defaults. Processor seconds of the fits, and of all learning and "
    "predicting; `times less`: time of the fits of `nightly` over these; MB: memory of the stored rows, which are "
    "all rows for refits."
)


def squared(model: Any, X: Any, y: Any) -> Any:
    return np.square(model.predict(X) - y)


def log_loss(model: Any, X: Any, y: Any) -> Any:
    places = np.searchsorted(model.classes_, y)
    known = model.classes_[np.minimum(places, len(model.classes_) - 1)] == y
    chances = model.predict_proba(X)[np.arange(len(y)), np.minimum(places, len(model.classes_) - 1)]
    return -np.log(np.where(known, np.maximum(chances, 1e-15), 1e-15))


def lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_jobs=1, verbose=-1)


@dataclass(frozen=True)
class Contest:
    load: Any
    batch: Any
    loss: Any


def words() -> Any:
    return make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10.0, max_iter=200))


CONTESTS = {
    "flights, HistGradientBoosting": Contest(streams.flights, HistGradientBoostingRegressor, squared),
    "flights, LightGBM": Contest(streams.flights, lightgbm, squared),
    "diamonds, HistGradientBoosting": Contest(streams.diamonds, HistGradientBoostingRegressor, squared),
    "docstrings, TfidfVectorizer": Contest(streams.docstrings, words, log_loss),
}


def measure(form: Form) -> Iterator[Study]:
    names = form.sets or form.choose(tiny=tuple(CONTESTS)[2:3], quick=tuple(CONTESTS)[2:], full=tuple(CONTESTS))
    records = [record for name in names for record in compared(name, form)]
    columns = ["data and estimator", "rows", "solved on", "/ refits", "/ nightly", "changes", "solve s", "times less"]
    columns += ["all s", "MB"]
    yield Study("", TEXT, columns, records, formats=FORMATS)


def compared(name: str, form: Form) -> Iterator[dict[str, Any]]:
    contest = CONTESTS[name]
    try:
        X, y = shuffled(contest, form)
    except (datasets.MissingPackageError, ImportError) as missing:
        print(f"left out: {missing}", flush=True)
        return
    given = contest.loss, X, y, form.chunk
    outcomes = {"all rows at doublings": streams.refitted(contest.batch(), streams.doublings, *given)}
    show(name, outcomes)
    for size in form.choose(tiny=(200,), quick=SIZES, full=SIZES):
        if size < len(y):
            model = BatchToOnline(contest.batch(), coreset_size=size, random_state=form.first_seed)
            outcomes[f"{size:,}"] = streams.streamed(model, *given)
            show(name, outcomes)
    outcomes["all rows nightly"] = streams.refitted(contest.batch(), streams.every(len(y) // NIGHTS), *given)
    show(name, outcomes)
    refits, nightly = outcomes["all rows at doublings"], outcomes["all rows nightly"]
    for kind, found in outcomes.items():
        yield {
            "data and estimator": name,
            "rows": len(y),
            "solved on": kind,
            "/ refits": found.loss / refits.loss,
            "/ nightly": found.loss / nightly.loss,
            "changes": found.changes,
            "solve s": found.solves,
            "times less": nightly.solves / found.solves,
            "all s": found.seconds,
            "MB": found.megabytes,
        }


def shuffled(contest: Contest, form: Form) -> tuple[Any, Any]:
    X, y = contest.load()
    rows = np.random.default_rng(form.first_seed).permutation(len(y))[: form.choose(tiny=600, quick=None, full=None)]
    return (X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows]), y[rows]


def show(name: str, outcomes: dict[str, Any]) -> None:
    kind, found = list(outcomes.items())[-1]
    first = next(iter(outcomes.values()))
    print(f"{name}: {kind}: {found.loss / first.loss:.4f} {found}", flush=True)
