"""Pipes, files that grow, several files: learned as they come, resumed exactly."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import threading
import time
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest

import batch2online
from batch2online import Durable, OnlineRegression
from batch2online.app.cli.app import run_safely
from processes import COMMAND, PATIENCE, Started

REGRESSION = ("--task", "regression", "--target", "y")
FEW = ("--refresh", "geometric:1.5")


def rows_of(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 2)).round(4)
    return np.column_stack([X, (X @ [2.0, -1.0] + 0.1 * X[:, 0] ** 2).round(4)])


def text_of(rows, header=True):
    lines = [",".join(map(str, row)) for row in rows.tolist()]
    return ("a,b,y\n" if header else "") + "".join(f"{line}\n" for line in lines)


@contextmanager
def command(*words, **options):
    with patch.dict(os.environ, TERM="xterm"), Started(COMMAND, *words, **options) as process:
        yield process


def send(process, text):
    process.stdin.write(text.encode())
    process.stdin.flush()


def result_of(words, capsys):
    assert run_safely([str(word) for word in (*words, "--json")]) == 0
    return json.loads(capsys.readouterr().out)


def without(result, *keys):
    return {key: value for key, value in result.items() if key not in keys}


# -- a pipe is live ---------------------------------------------------------------------------------


def test_a_pipe_is_learned_as_rows_come_and_a_bad_value_is_reported_when_it_comes():
    rows = rows_of(60)
    with command("run", "-", *REGRESSION, "--emit", "predictions", "--flush", "0.1") as process:
        send(process, text_of(rows[:1]))
        assert json.loads(process.stdout.readline())["row"] == 1  # long before the pipe is full or ends
        send(process, text_of(rows[1:], header=False))
        lines = [json.loads(process.stdout.readline()) for _ in range(59)]
        assert lines[-1]["row"] == 60
        send(process, "1,oops,3\n")
        assert process.wait(PATIENCE) == 2  # its input is still open
        assert process.stderr.read().decode() == (
            "Error: standard input, line 62, column 'b': 'oops' is not a number; --na-values oops reads it as missing, "
            "--exclude b ignores the column, --lookahead N infers types and categories from more rows.\n"
        )


def test_the_live_line_shows_rows_while_the_pipe_is_open():
    master, slave = pty.openpty()
    seen, shown = [], threading.Event()

    def read():
        while not shown.is_set():
            seen.append(os.read(master, 65536).decode())
            text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", "".join(seen))
            if re.search(r"1 rows +[\d,]+/s +.*standard input", text):
                shown.set()

    with command("run", "-", *REGRESSION, stderr=slave) as process:
        threading.Thread(target=read, daemon=True).start()
        while "waiting for rows" not in "".join(seen):
            assert process.poll() is None
            time.sleep(0.02)
        send(process, text_of(rows_of(1)))
        assert shown.wait(PATIENCE)
    os.close(slave)


def test_a_pipe_gives_the_result_of_the_file(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text(text_of(rows_of(400)))
    from_file = result_of(["run", path, *REGRESSION], capsys)
    with command("run", "-", *REGRESSION, "--json", "--flush", "0.05") as process:
        for start in range(0, 400, 80):
            send(process, text_of(rows_of(400)[start : start + 80], header=start == 0))
            time.sleep(0.1)
        process.stdin.close()
        from_pipe = json.loads(process.stdout.read())
    told = ("source", "command", "preparation", "settings")
    assert without(from_pipe, *told) == without(from_file, *told)


def test_levels_of_a_pipe_are_learned_as_they_come_and_after_resuming(tmp_path):
    """A pipe that is killed and sent again goes on with what its rows have decided."""
    lines = [f"{'red' if i % 2 else 'blue'},{i % 7},{i % 5}\n" for i in range(50)]
    late = [f"green,{i % 3},{i % 4}\n" for i in range(50)]
    words = ["run", "-", *REGRESSION, "--state", tmp_path / "state.b2o", "--flush", "0.1", "--emit", "predictions"]
    with command(*words) as process:
        send(process, "colour,a,y\n" + "".join(lines))
        for _ in lines:
            process.stdout.readline()
        send(process, "".join(late[:25]))
        for _ in late[:25]:
            process.stdout.readline()
        process.kill()
        process.wait()
    with command(*words, "--json") as process:
        out, error = process.communicate(("colour,a,y\n" + "".join([*lines, *late])).encode())
    *emitted, result = map(json.loads, out.splitlines())
    assert b"first 50 rows, which came at once" not in error  # --json: notes are in the result
    assert result["inputs"] == ["a", "colour=green", "colour=red", "colour=other"]
    assert result["rows"] == 100
    assert emitted[-1]["row"] == 100
    assert len(emitted) in range(25, 51)  # what was emitted and not learned is emitted again
    X = np.array([[i % 7, 0, i % 2, 0] for i in range(50)] + [[i % 3, 1, 0, 0] for i in range(50)], dtype=float)
    y = np.array([i % 5 for i in range(50)] + [i % 4 for i in range(50)], dtype=float)
    assert result["last_model"]["coef"] == OnlineRegression(random_state=0).partial_fit(X, y).coef_.tolist()


# -- what is emitted --------------------------------------------------------------------------------


def emitted(words, capsys):
    assert run_safely([str(word) for word in words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_row_is_predicted_by_the_model_before_it_whatever_the_chunks(tmp_path, capsys, chunk):
    rows, path = rows_of(200), tmp_path / "rows.csv"
    path.write_text(text_of(rows))
    lines = emitted(["run", path, *REGRESSION, *FEW, "--emit", "predictions", "--chunk", chunk], capsys)
    assert [line["row"] for line in lines] == list(range(1, 201))
    assert [line["target"] for line in lines] == rows[:, 2].tolist()
    model = OnlineRegression(random_state=0, refresh=batch2online.refresh.Geometric(1.5))
    for line, row in zip(lines, rows, strict=True):
        solved = model.__sklearn_is_fitted__() and model._stream.has_model
        said = model.predict(row[None, :2])[0] if solved else None
        assert line["prediction"] == (pytest.approx(said, abs=1e-12) if solved else None)
        model.partial_fit(row[None, :2], row[2:])


def test_changes_are_emitted_once_each(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text(text_of(rows_of(300)))
    lines = emitted(["run", path, *REGRESSION, *FEW, "--emit", "changes"], capsys)
    model = OnlineRegression(random_state=0, refresh=batch2online.refresh.Geometric(1.5))
    model.partial_fit(rows_of(300)[:, :2], rows_of(300)[:, 2])
    assert [line["row"] for line in lines] == [event.at for event in model.changes_]
    assert len(lines) > 2


# -- a file that grows ------------------------------------------------------------------------------


def test_a_file_is_followed_until_an_interrupt(tmp_path, capsys):
    rows, path, state = rows_of(300), tmp_path / "growing.csv", tmp_path / "state.b2o"
    path.write_text(text_of(rows[:100]))
    words = ["run", "--follow", path, *REGRESSION, "--state", state, "--flush", "0.05"]
    with command(*words, "--emit", "predictions") as process:
        for _ in range(100):
            process.stdout.readline()
        with open(path, "a") as file:
            file.write(text_of(rows[100:200], header=False) + "0.5,0.")  # half a line waits for its end
        assert json.loads([process.stdout.readline() for _ in range(100)][-1])["row"] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert b"200 at" in process.stderr.read()
    with Durable.open(state) as durable:
        assert durable.model.n_seen_ == 200
    path.write_text(text_of(rows))
    with command(*words, "--json", "--emit", "predictions") as process:
        for _ in range(100):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        result = json.loads(process.stdout.read())
    plain = result_of(["run", path, *REGRESSION], capsys)
    told = ("command", "source", "preparation", "settings")
    assert without(result, *told) == without(plain, *told)


REFUSED = {
    "random order": (["--order", "random"], "remove --follow or --order"),
    "a packed file": ([], "cannot be followed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_followed(tmp_path, capsys, case):
    import gzip

    options, message = REFUSED[case]
    path = tmp_path / "rows.csv"
    path.write_bytes(gzip.compress(b"a,y\n1,2\n"))
    assert run_safely(["run", str(path), "--follow", *REGRESSION, *options]) == 2
    assert message in capsys.readouterr().err


# -- several files ----------------------------------------------------------------------------------


def test_several_files_are_one_stream_and_resumed_as_one(tmp_path, capsys):
    rows = rows_of(300)
    whole = tmp_path / "whole.csv"
    whole.write_text(text_of(rows))
    for part in range(3):
        (tmp_path / f"part-{part}.csv").write_text(text_of(rows[100 * part : 100 * part + 100]))
    told = ("command", "source", "preparation", "settings")
    expected = without(result_of(["run", whole, *REGRESSION], capsys), *told)
    pattern = tmp_path / "part-*.csv"
    result = result_of(["run", pattern, *REGRESSION], capsys)
    assert without(result, *told) == expected
    assert result["source"] == "part-0.csv and 2 more"
    state = ("--state", tmp_path / "state.b2o")
    result_of(["run", *(tmp_path / f"part-{i}.csv" for i in range(2)), *REGRESSION, *state], capsys)
    resumed = result_of(["run", *(tmp_path / f"part-{i}.csv" for i in range(3)), *REGRESSION, *state], capsys)
    assert without(resumed, *told) == expected


def test_a_value_in_the_second_file_is_named_with_it(tmp_path, capsys):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "2.csv").write_text("b,a\n1,2\n3,x\n")
    (tmp_path / "3.csv").write_text("b\n1\n")
    task = ["--task", "lowrank", "--k", "1"]
    assert run_safely(["run", str(tmp_path / "1.csv"), str(tmp_path / "2.csv"), *task]) == 2
    assert "2.csv, line 3, column 'a': 'x' is not a number" in capsys.readouterr().err
    assert run_safely(["run", str(tmp_path / "1.csv"), str(tmp_path / "3.csv"), *task]) == 2
    assert "3.csv has no column 'a', which 1.csv has; --exclude a ignores" in capsys.readouterr().err
    assert run_safely(["run", str(tmp_path / "*.tsv"), *task]) == 2
    assert "There is no file" in capsys.readouterr().err


def test_addresses_are_left_to_fsspec(capsys):
    fsspec = pytest.importorskip("fsspec")
    rows = text_of(rows_of(50)).encode()
    with fsspec.open("memory://here/rows.csv", "wb") as file:
        file.write(rows)
    assert result_of(["run", "memory://here/rows.csv", *REGRESSION], capsys)["rows"] == 50
    assert run_safely(["run", "memory://here/nothing.csv", *REGRESSION]) == 2
    assert "cannot be read" in capsys.readouterr().err
