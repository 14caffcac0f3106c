"""SIGKILL at random moments: every acknowledged call is there, at most the one in flight besides, bit for bit.

A worker is forked, opens what the one before it has left, says what it found, and goes on through a script of calls;
what it says goes through a pipe, which outlives it. Between its calls it tries to change the model past its file, which
must be refused.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np
from sklearn.exceptions import NotFittedError

from batch2online import Durable, load
from batch2online.app.cli.app import run_safely
from batch2online.storage.errors import StoreError
from torture.cases import ESTIMATORS, X, carry_out, digest, expected, model, scratch, script, small_blocks, targets

DURABILITY = ("every", "batch", "os")
SECONDS, LINES = 0.2, 6000
WHERE = re.compile(r"batch2online/(storage/|durable)")


def killed(work, seconds: float | None = None, lines: int | None = None, first: bool = False) -> tuple[list[str], bool]:
    """Fork a worker, which gets a function to say things; return what it said, and whether it was killed in time.

    It is killed after so many seconds, counted from its ``first`` word if wanted, or before so many lines of the
    storage were run.
    """
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        _work(work, read, write, lines)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.readline() if first else ""
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
        words = (text + said.read()).split("\n")[:-1]
    status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL), f"the worker ended with {status}: {words}"
    errors = [json.loads(word[6:]) for word in words if word.startswith("error ")]
    assert not errors, errors[0]
    return words, os.WIFSIGNALED(status)


def _work(work, read: int, write: int, lines: int | None) -> None:
    os.close(read)
    try:
        if lines is not None:
            sys.settrace(_trap(lines))
        work(lambda word: os.write(write, f"{word}\n".encode()))
    except BaseException:
        os.write(write, f"error {json.dumps(traceback.format_exc())}\n".encode())
    finally:
        os._exit(0)


def _trap(lines: int):
    left = [lines]

    def on_line(frame, event, argument):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return on_line

    return lambda frame, event, argument: on_line if WHERE.search(frame.f_code.co_filename) else None


# -- durable models -----------------------------------------------------------------------------------------


@small_blocks
def durables(count: int, seed: int = 0) -> dict[str, int]:
    """Models of every kind, each killed in turn until so many were killed."""
    return deaths(Life, tuple(ESTIMATORS), count, seed)


def deaths(kind: type[Life], names: tuple[str, ...], count: int, seed: int) -> dict[str, int]:
    """Let models of this kind die in turn, so many times in all."""
    rng, outcomes = random.Random(seed), Counter()
    with scratch() as folder:
        lives = {name: kind(name, Path(folder, f"{index}.b2o"), rng) for index, name in enumerate(names)}
        while sum(outcomes.values()) < count:
            for name, life in lives.items():
                outcome = life.next()
                if outcome:
                    outcomes[f"{name}: {outcome}"] += 1
    return dict(outcomes)


class Life:
    """One model through many deaths; ``done`` calls are known to be there."""

    lines = LINES

    def __init__(self, name: str, path: Path, rng: random.Random) -> None:
        self.name, self.path, self.rng, self.done = name, path, rng, 0
        self.states = self.expected()

    def expected(self) -> tuple[str, ...]:
        return expected(self.name)

    def next(self) -> str:
        """Let a worker go on; return what came of its death, nothing if it was faster than its killer."""
        way = self.rng.random()
        if way < 0.5:
            said, was_killed = killed(self._go_on, self.rng.uniform(0, SECONDS), first=way < 0.3)
        else:
            said, was_killed = killed(self._go_on, lines=self.rng.randrange(1, self.lines) if way < 0.97 else None)
        if said:
            self.done = int(said[0]) + said.count("done")
        if "end" in said:
            for path in self.path.parent.glob(f"{self.path.name}*"):
                path.unlink()
            self.done = 0
        if not was_killed:
            return ""
        return "killed while opening" if not said else "killed at work"

    def settings(self, rng: random.Random) -> dict:
        return {"durability": rng.choice(DURABILITY), "checkpoint_rows": rng.choice((5, 20, 60))}

    def found(self, state: str) -> int:
        """Return after which call a file is in this state: the last acknowledged one, or the one after it."""
        place = self.states.index(state) if state in self.states else "no prefix of the calls"
        assert place in (self.done, self.done + 1), f"acknowledged: {self.done}, found: {place}"
        return place

    def _go_on(self, say) -> None:
        rng = random.Random(self.rng.random())
        settings = self.settings(rng) | {"worker": rng.random() < 0.5}
        durable = Durable(self.path, model(self.name), **settings)
        at = self.found(digest(durable.model))
        say(at)
        for call in script(self.name)[at:]:
            change_past(self.name, durable.model, rng)
            carry_out(self.name, call, durable)
            say("done")
            change_past(self.name, durable.model, rng)
            act = rng.random()
            if act < 0.1:
                durable.checkpoint()
            elif act < 0.2:
                durable.close()
                durable = Durable(self.path, **settings)
        durable.close()
        say("end")


def change_past(name: str, estimator, rng: random.Random) -> None:
    """Try one of the calls that would change the model of a Durable without its file; each must be refused."""
    rows, y = X[:7], targets(name, slice(0, 7))
    one = None if y is None else y[0] if isinstance(y[0], str) else float(y[0])
    changes = {
        "fit": lambda: estimator.fit(rows, y),
        "partial_fit": lambda: estimator.partial_fit(rows, y),
        "learn_one": lambda: estimator.learn_one(rows[0].tolist(), one),
        "merge": lambda: estimator.merge(model(name, first_id=10**6).partial_fit(rows, y)),
        "forget": lambda: estimator.forget([0]),
        "set_params": lambda: estimator.set_params(coreset_size=99),
        "assignment": lambda: setattr(estimator, "coreset_size", 99),
        "engine": lambda: setattr(estimator, "_stream", model(name).partial_fit(rows, y)._stream),
    }
    change = rng.choice(tuple(changes))
    try:
        changes[change]()
    except (StoreError, NotFittedError):
        return
    raise AssertionError(f"{change} past the file was carried out")


def _place(found: str, states: tuple[str, ...]) -> str:
    return str(states.index(found)) if found in states else "no prefix of the calls"


# -- saved files, with rows on disk ---------------------------------------------------------------------------


@small_blocks
def saves(count: int, seed: int = 1) -> dict[str, int]:
    """Killed while saving over an older file: the file is that of the last call that returned, or of the next."""
    rng, outcomes = random.Random(seed), Counter()
    with scratch() as folder:
        path = Path(folder, "model.b2o")
        while sum(outcomes.values()) < count:
            name = rng.choice(tuple(ESTIMATORS))
            states = expected(name)
            said, was_killed = killed(lambda say, n=name: _save_often(n, path, say), rng.uniform(0, SECONDS))
            found = digest(load(path)) if path.exists() else "nothing"
            assert found in states[len(said) : len(said) + 2], f"{len(said)} saved, found: {_place(found, states)}"
            outcomes[f"{name}: the last file or the next"] += was_killed
            for left in os.listdir(folder):
                os.unlink(Path(folder, left))
    return dict(outcomes)


def _save_often(name: str, path: Path, say) -> None:
    learner = model(name)
    for call in script(name):
        carry_out(name, call, learner)
        learner.save(path)
        say("saved")


# -- the command line ---------------------------------------------------------------------------------------

TASKS = {
    "regression": ("--task", "regression", "--target", "y"),
    "regression, half-life": ("--task", "regression", "--target", "y", "--half-life", "900"),
    "classification": ("--task", "classification", "--target", "up"),
    "low rank": ("--task", "lowrank", "--k", "2"),
    "clustering": ("--task", "clustering", "--k", "3"),
    "clustering, disk": ("--task", "clustering", "--k", "3", "--history", "rows"),
}


def command_line(count: int, seed: int = 2) -> dict[str, int]:
    """Runs with ``--state``, killed and started again until they end: they print what an undisturbed run prints."""
    rng, outcomes = random.Random(seed), Counter()
    with scratch() as name:
        folder, before = Path(name), os.getcwd()
        os.chdir(folder)
        try:
            y = _ROWS @ [1, 2, 3]
            np.savetxt("rows.csv", np.column_stack([_ROWS, y, y > 0]), "%.5f", ",", header="a,b,c,y,up", comments="")
            runs = [_Run(task, folder, rng) for task in TASKS]
            while sum(n for outcome, n in outcomes.items() if "killed" in outcome) < count:
                for run in runs:
                    outcomes[f"{run.task}: {run.next()}"] += 1
        finally:
            os.chdir(before)
    return dict(outcomes)


_ROWS = np.resize(X, (4000, 3)) + np.random.default_rng(5).normal(size=(4000, 3))


class _Run:
    """One command, started again after each death."""

    def __init__(self, task: str, folder: Path, rng: random.Random) -> None:
        self.task, self.folder, self.rng = task, folder / f"state of {task}", rng
        started = time.monotonic()
        self.undisturbed = self._finished(killed(lambda say: self._run(say, None), None)[0])
        self.seconds = time.monotonic() - started

    def next(self) -> str:
        said, was_killed = killed(lambda say: self._run(say, self.folder), self.rng.uniform(0, 1.5 * self.seconds))
        if was_killed:
            self._check_rows()
            return "killed, resumable"
        assert self._finished(said) == self.undisturbed, "killed runs: another result"
        shutil.rmtree(self.folder)
        return "resumed to the end, same result"

    def _run(self, say, state: Path | None) -> None:
        words = () if state is None else ("--state", str(state / "model.b2o"), "--state-every", "0.05")
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
            code = run_safely(["run", "rows.csv", *TASKS[self.task], "--chunk", "100", "--json", *words])
        say(json.dumps({"code": code, "out": out.getvalue(), "errors": errors.getvalue()}))

    def _finished(self, said: list[str]):
        result = json.loads(said[0])
        assert result["code"] == 0, result
        return json.loads(result["out"])

    def _check_rows(self) -> None:
        """What a killed run leaves opens, and holds the rows up to its position."""
        copy = self.folder.with_name("copy")
        if self.rng.random() < 0.2 and (self.folder / "model.b2o").exists():
            shutil.copytree(self.folder, copy)
            with suppress(StoreError), Durable.open(copy / "model.b2o") as durable:
                found, at = durable.model.n_seen_, durable.positions["input"]["rows"]
                assert found == at, f"rows learned: {found}, the position is after {at}"
            shutil.rmtree(copy)
