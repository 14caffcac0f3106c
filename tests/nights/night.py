"""One process of a job: ``python night.py '{"do": "night", ...}'`` opens a file, learns a night and closes the file.

``stream`` learns all nights in memory. ``after`` reads the figures of the file, forgets rows, reads them again, and
asks the commands; ``read`` does so for the file of a command, ``ask`` asks the commands alone.
"""

from __future__ import annotations

import io
import json
import re
import runpy
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from nights.cells import CELLS  # noqa: E402
from nights.tables import FORMS, TABLES, WRONG  # noqa: E402

FORGOTTEN = range(10, 60)
"""Ids of rows of the first night that are forgotten in the end."""

FAILED = "failed with"
UNEQUAL = re.compile("second|time|file|path|bytes|version|history$")
"""Names in results that differ from run to run: names of files and folders, sizes and times."""

FITTED = ("coef_", "intercept_", "cluster_centers_", "components_")


class Job:
    """What the command line of this process says."""

    def __init__(self, do, table, cell, kept, folder, path, night=None, opens=False):
        self.do, self.table, self.cell, self.kept = do, TABLES[table], CELLS[cell], kept
        self.folder, self.path, self.night, self.opens = Path(folder), Path(path), night, opens

    def estimator(self):
        """Return a new estimator."""
        return self.cell.make(self.kept, self.path.parent, self.table)

    def durable(self):
        """Open the file with the estimator, or as a job that does not know which it is."""
        from batch2online import Durable

        if self.opens and self.path.exists():
            return Durable.open(self.path)
        return Durable(self.path, self.estimator())

    def rows(self, name):
        """Return the features and the targets of a night."""
        frame = pd.read_parquet(self.folder / f"{name}.parquet")
        target = self.table.target(self.cell.task)
        if target is None:
            return self.cell.rows(frame, self.table), None
        y = frame[target].astype("float" if target == self.table.number else "str").to_numpy()
        return self.cell.rows(frame.drop(columns=target), self.table), y

    def learn(self, model, night):
        """Learn a night; return which of its wrong forms were refused."""
        refused = []
        for form in FORMS if night == WRONG else ():
            try:
                model.partial_fit(*self.rows(f"night-{night:02}-{form}"))
            except ValueError:
                refused.append(form)
        model.partial_fit(*self.rows(f"night-{night:02}"))
        return refused

    def figures(self, model):
        """Return all that a model says of itself and of rows that it has not learned."""
        regret, coreset = model.regret_, model.coreset_
        found = {name: np.asarray(getattr(model, name)).tolist() for name in FITTED if hasattr(model, name)}
        if self.do != "read":  # the model behind a command knows numbers, not the columns of a file
            X, _ = self.rows("probe")
            answers = model.transform(X) if self.cell.task == "lowrank" else model.predict(X)
            found["predictions"] = np.asarray(answers).tolist()
        return found | {
            "rows and changes": [int(model.n_seen_), int(model.n_changes_), [[e.at, e.reason] for e in model.changes_]],
            "losses": [float(regret.loss), float(regret.optimum), int(regret.rows)],
            "kept ids": np.asarray(coreset.ids).tolist(),
            "kept weights": np.asarray(coreset.weights).tolist(),
            "kept points": pd.DataFrame(coreset.points).astype(str).to_numpy().tolist(),
            "kept targets": None if coreset.targets is None else np.asarray(coreset.targets).tolist(),
        }

    def before_and_after(self, model):
        """Return the figures, and those after rows were forgotten."""
        return {
            "figures": attempt(lambda: self.figures(model)),
            "forgotten": attempt(lambda: self.figures(model.forget(FORGOTTEN))),
        }

    def asked(self):
        """Return what ``show`` and ``predict`` say of the file; no page promises ``predict`` for wrapped estimators."""
        probe, answers = self.path.with_suffix(".csv"), self.path.with_suffix(".answers.csv")
        trust = ["--trust"] if self.cell.is_wrapped else []
        found = {"show": attempt(lambda: comparable(json.loads(command("show", self.path, "--json", *trust))))}
        if self.do == "read" or not self.cell.is_wrapped:
            self.probe().to_csv(probe, index=False)
            words = ("predict", self.path, probe, "--out", answers, *trust)
            found["predict"] = attempt(lambda: command(*words) or answers.read_text())
        return found

    def probe(self):
        """Return rows to predict, with the columns of the file's nights."""
        if self.do == "read":
            return pd.read_parquet(self.folder / "probe.parquet").drop(columns=self.table.unused)
        return self.rows("probe")[0]


def attempt(call):
    """Return what a call returns, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        return {FAILED: f"{type(error).__name__}: {error}"}


def command(*words):
    """Return what a command prints."""
    sys.argv, said, wrong = ["batch2online", *map(str, words)], io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(wrong):
            runpy.run_module("batch2online", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(wrong.getvalue().strip()) from end
    return said.getvalue()


def comparable(found):
    if isinstance(found, dict):
        return {name: comparable(each) for name, each in found.items() if not UNEQUAL.search(name)}
    return [comparable(each) for each in found] if isinstance(found, list) else found


def night(job):
    with job.durable() as model:
        return job.learn(model, job.night)


def stream(job):
    """Learn all nights in memory; save the model for the commands."""
    model = job.estimator()
    refused = [form for number in range(job.night) for form in job.learn(model, number)]
    found = job.before_and_after(model)
    model.save(job.path)
    return {"refused": refused} | found | job.asked()


def after(job):
    with job.durable() as model:
        found = job.before_and_after(model)
    return found | job.asked()


def read(job):
    """Read the model that a command has written."""
    from batch2online import load

    return job.before_and_after(load(job.path)) | job.asked()


def ask(job):
    return job.asked()


if __name__ == "__main__":
    given = Job(**json.loads(sys.argv[1]))
    print(json.dumps(globals()[given.do](given)))
