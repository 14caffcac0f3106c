"""``batch2online learn``: nights are appended, each once and as a whole, and alarms reach somebody."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import numpy as np
import pytest

from batch2online import Durable, load
from batch2online.app.cli.app import run_safely
from state_bytes import serialise

RNG = np.random.default_rng(0)
N = 400


def write(path, n, slope=1.0, seed=0, colors=("red", "green", "blue"), header="a,b,color,y"):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n)).round(4)
    color = rng.choice(colors, n)
    y = (slope * a - 2 * b + (color == "red") + rng.normal(size=n)).round(4)
    lines = [f"{i},{j},{k},{m}" for i, j, k, m in zip(a, b, color, y, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return lines


@pytest.fixture
def nights(tmp_path, monkeypatch):
    """Five files, the model of the first one, and one file of all rows."""
    monkeypatch.chdir(tmp_path)
    lines = []
    for number in range(1, 6):
        lines += write(tmp_path / f"night-{number}.csv", N, seed=number)
    (tmp_path / "all.csv").write_text("\n".join(["a,b,color,y", *lines]) + "\n")
    assert run_safely(["run", "night-1.csv", *TASK, "--state", "m.b2o", "-q"]) == 0
    return tmp_path


TASK = ["--task", "regression", "--target", "y", "--lookahead", "300"]


def learned(capfd, *arguments, code=0):
    assert run_safely(["learn", "m.b2o", *arguments, "--json"]) == code
    return json.loads(capfd.readouterr().out)


def test_nights_make_the_model_of_one_stream(nights, capfd):
    capfd.readouterr()
    found = [learned(capfd, f"night-{number}.csv") for number in range(2, 6)]
    assert [each["night"] for each in found] == [2, 3, 4, 5]
    assert [each["rows_seen"] for each in found] == [800, 1200, 1600, 2000]
    assert run_safely(["run", "all.csv", *TASK, "--state", "one.b2o", "-q"]) == 0
    assert serialise(load("m.b2o")._state()) == serialise(load("one.b2o")._state())
    assert run_safely(["predict", "m.b2o", "night-2.csv", "--out", "p.csv"]) == 0


def test_several_files_are_one_night(nights, capfd):
    capfd.readouterr()
    found = learned(capfd, "night-[2-5].csv")
    assert (found["night"], found["rows"], found["files"][0]) == (2, 1600, "night-2.csv")
    assert run_safely(["run", "all.csv", *TASK, "--state", "one.b2o", "-q"]) == 0
    assert serialise(load("m.b2o")._state()) == serialise(load("one.b2o")._state())


def test_a_file_is_learned_once(nights, capfd):
    capfd.readouterr()
    learned(capfd, "night-2.csv")
    (nights / "renamed.csv").write_bytes((nights / "night-2.csv").read_bytes())
    for name in ("night-1.csv", "night-2.csv", "renamed.csv"):
        assert run_safely(["learn", "m.b2o", name]) == 2
        assert f"{name} was learned before: m.b2o knows its content. --again" in capfd.readouterr().err
    assert run_safely(["learn", "m.b2o", "night-3.csv", "renamed.csv"]) == 2
    assert load("m.b2o").n_seen_ == 2 * N
    (nights / "copy.csv").write_bytes((nights / "night-3.csv").read_bytes())
    assert run_safely(["learn", "m.b2o", "night-3.csv", "copy.csv"]) == 2
    assert "copy.csv has the same content as night-3.csv: give one" in capfd.readouterr().err
    assert learned(capfd, "renamed.csv", "--again", "--alarms", "none")["rows_seen"] == 3 * N


def test_a_night_is_learned_as_a_whole_or_not_at_all(nights, capfd):
    before = (nights / "m.b2o").read_bytes()
    state = serialise(load("m.b2o")._state())
    with (nights / "night-3.csv").open("a") as file:
        file.write("1,many,red,3\n")
    capfd.readouterr()
    assert run_safely(["learn", "m.b2o", "night-2.csv", "night-3.csv"]) == 2
    assert "night-3.csv, line 402, column 'b': 'many' is not a number" in capfd.readouterr().err
    assert serialise(load("m.b2o")._state()) == state
    assert len(before) == len((nights / "m.b2o").read_bytes())
    learned(capfd, "night-2.csv")
    write(nights / "other.csv", 10, header="a,b,colour,y")
    assert run_safely(["learn", "m.b2o", "other.csv"]) == 2
    assert "other.csv has no column 'color', which the model needs" in capfd.readouterr().err
    (nights / "empty.csv").write_text("a,b,color,y\n")
    assert run_safely(["learn", "m.b2o", "empty.csv"]) == 0  # an empty night
    assert load("m.b2o").n_seen_ == 2 * N


def test_run_on_a_model_of_another_source_says_learn(nights, capfd):
    assert run_safely(["run", "night-2.csv", *TASK, "--state", "m.b2o"]) == 2
    assert "has learned night-1.csv: use batch2online learn" in capfd.readouterr().err
    assert run_safely(["run", "night-1.csv", *TASK, "--state", "m.b2o", "-q"]) == 0
    capfd.readouterr()
    learned(capfd, "night-2.csv")
    assert run_safely(["run", "night-1.csv", *TASK, "--state", "m.b2o"]) == 2
    assert "has learned further files since its run: use batch2online learn" in capfd.readouterr().err


def test_other_models_are_refused(nights, capfd):
    assert run_safely(["learn", "none.b2o", "night-2.csv"]) == 2
    assert "none.b2o is no model: batch2online run FILE --state none.b2o creates one" in capfd.readouterr().err
    load("m.b2o").save("plain.b2o")
    assert run_safely(["learn", "plain.b2o", "night-2.csv"]) == 2
    assert "was not written by a run" in capfd.readouterr().err
    with Durable.open("m.b2o") as durable:
        position = durable.positions["input"] | {"finished": False}
        durable.note(source=("input", position))
        assert run_safely(["learn", "m.b2o", "night-2.csv"]) == 2
        assert "is open in another process" in capfd.readouterr().err
    assert run_safely(["learn", "m.b2o", "night-2.csv"]) == 2
    assert "has learned night-1.csv in part: end that run first" in capfd.readouterr().err


def test_new_columns_are_noted(nights, capfd):
    write(nights / "night-6.csv", N, seed=6, colors=("red", "violet"), header="a,b,color,y,remark")
    lines = (nights / "night-6.csv").read_text().splitlines()
    (nights / "night-6.csv").write_text("\n".join([lines[0], *(f"{line},seen" for line in lines[1:])]) + "\n")
    capfd.readouterr()
    found = learned(capfd, "night-6.csv", "--alarms", "none")
    assert any("columns ['remark'] are ignored" in note for note in found["notes"])


class _Hook(BaseHTTPRequestHandler):
    got: ClassVar[list] = []

    def do_POST(self):
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def webhook():
    server = HTTPServer(("127.0.0.1", 0), _Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/alarm"
    server.shutdown()
    server.server_close()


def test_alarms_of_changed_rows(nights, capfd, webhook):
    write(nights / "changed.csv", 3 * N, slope=8.0, seed=9)
    capfd.readouterr()
    assert learned(capfd, "night-2.csv", "--webhook", webhook, "--on-alarm", "touch never")["alarms"] == []
    found = learned(capfd, "changed.csv", "--webhook", webhook, "--on-alarm", "tee told.json", code=3)
    assert any("not in random order" in alarm for alarm in found["alarms"])
    assert any("the old model costs" in alarm for alarm in found["alarms"])
    assert [each["files"] for each in _Hook.got] == [["changed.csv"]]
    assert json.loads((nights / "told.json").read_text())["alarms"] == found["alarms"]
    assert not (nights / "never").exists()
    write(nights / "as-before.csv", 50, slope=8.0, seed=10)
    assert learned(capfd, "as-before.csv", "--alarms", "order")["order"]["looks_random"] is False


def test_a_failing_webhook_or_command_loses_nothing(nights, capfd):
    write(nights / "changed.csv", 3 * N, slope=8.0, seed=9)
    capfd.readouterr()
    arguments = ["--webhook", "http://127.0.0.1:9/x", "--on-alarm", "false"]
    assert run_safely(["learn", "m.b2o", "changed.csv", *arguments]) == 3
    said = capfd.readouterr()
    assert "the webhook was not called" in said.err
    assert "--on-alarm has ended with exit code 1" in said.err
    assert "night 2" in said.out
    assert "before it" in said.out
    assert "alarm" in said.out
    assert load("m.b2o").n_seen_ == 4 * N
    for url in ("file:///etc/passwd", "ftp://x/y", "here"):
        assert run_safely(["learn", "m.b2o", "night-2.csv", "--webhook", url]) == 2
    assert run_safely(["learn", "m.b2o", "night-2.csv", "--alarms", "noise"]) == 2
    assert "--alarms noise is unknown" in capfd.readouterr().err
    assert load("m.b2o").n_seen_ == 4 * N


@pytest.mark.parametrize(
    "task",
    [
        ["--task", "classification", "--target", "color"],
        ["--task", "clustering", "--k", "3", "--columns", "a,b,y"],
        ["--task", "lowrank", "--k", "2", "--columns", "a,b,y"],
        ["--task", "regression", "--target", "y", "--half-life", "auto"],
        ["--task", "regression", "--target", "y", "--estimator", "sklearn.linear_model.Ridge"],
    ],
)
def test_every_task_learns_nights(task, nights, capfd):
    (nights / "m.b2o").unlink()
    assert run_safely(["run", "night-1.csv", *task, "--state", "m.b2o", "-q"]) == 0
    capfd.readouterr()
    for number in (2, 3):
        found = learned(capfd, f"night-{number}.csv", "--alarms", "none")
        assert found["quality_before"]
        assert found["quality_learning"]
    one = "night-1.csv", "night-2.csv", "night-3.csv"
    assert run_safely(["run", *one, *task, "--state", "one.b2o", "-q"]) == 0
    states = []
    for name in ("m.b2o", "one.b2o"):
        model = load(name, trusted=True)
        states.append((model.n_seen_, serialise(model._stream.flushed().current.sketch)))
    assert states[0] == states[1]


def test_a_night_that_changes_the_features_says_so(tmp_path, monkeypatch, capfd):
    """Its rows were scored, but under the features of before: the line on learning it names the reason."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, colors in (("one.csv", "ab"), ("two.csv", "abc")):
        rows = [f"{rng.normal():.3f},{rng.choice(list(colors))},{rng.normal():.3f}" for _ in range(200)]
        (tmp_path / name).write_text("\n".join(["a,color,y", *rows]) + "\n")
    assert run_safely(["run", "one.csv", "--task", "regression", "--target", "y", "--state", "m.b2o", "--quiet"]) == 0
    capfd.readouterr()
    assert run_safely(["learn", "m.b2o", "two.csv", "--alarms", "none"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "learning it not known: the night changed the features" in shown
    assert "before it R2" in shown
