"""The progress line of a run: rows, rows a second of the last seconds, and the time that is left."""

import io
import re
import sys
import time
from datetime import timedelta

import numpy as np
import pytest

from batch2online.app.cli.app import run_safely

N, CHUNK = 2_000, 100
SHOWN = (300, 900, 1_100, 1_900)
LINE = r"([\d,]+) rows ([\d,]+)/s [━╺╸ ]+ (\d+)%, ([\d:]+) left \S+ x optimum \d+ changes? rows.csv$"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Output:
    """Standard output of a slow reader: so many rows a second, in the time of the test, before and after row 1,000.

    The time stands still after some rows until the progress line has been drawn twice: once may have begun before.
    """

    def __init__(self, terminal, speeds):
        self.terminal, self.speeds, self.buffer = terminal, speeds, self
        self.rows, self.now, self.lines = 0, 1e6, {}

    def write(self, text):
        if self.rows in SHOWN and self.rows not in self.lines:
            self.lines[self.rows] = self.drawn()
        for _ in range(text.count(b"\n")):
            self.rows += 1
            self.now += 1 / self.speeds[self.rows > N // 2]

    def flush(self):
        pass

    def drawn(self):
        before, end = self.n_lines(), time.perf_counter() + 60
        while self.n_lines() < before + 2:
            assert time.perf_counter() < end, "the line is not drawn"
            time.sleep(0.01)
        return " ".join(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\n", self.terminal.getvalue()).split("\r")[-1].split())

    def n_lines(self):
        return self.terminal.getvalue().count("left")


@pytest.mark.parametrize("speeds", [(20.0, 100.0), (0.2, 1.0)], ids=["minutes", "hours"])
def test_rate_and_time_left_are_those_of_the_rows(speeds, tmp_path, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(N, 3)).round(3)
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,y", comments="", fmt="%g")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(sys, "stdout", output := Output(terminal, speeds))
    monkeypatch.setattr(time, "monotonic", lambda: output.now)
    words = ["--task", "regression", "--target", "y", "--emit", "predictions", "--chunk", str(CHUNK)]
    assert run_safely(["run", str(tmp_path / "rows.csv"), *words]) == 0
    seconds = np.cumsum(np.repeat(1 / np.array(speeds), N // 2))
    for n, line in output.lines.items():
        found = re.match(LINE, line)
        assert found, line
        assert int(found[1].replace(",", "")) == n
        since = np.searchsorted(seconds, seconds[n - 1] - 5.0) // CHUNK * CHUNK or CHUNK
        recent = (n - since) / (seconds[n - 1] - seconds[since - 1])
        assert float(found[2]) == pytest.approx(recent, abs=0.51, rel=0.01)
        assert float(found[3]) == pytest.approx(100 * n / N, abs=0.51)
        left = seconds[n - 1] * (N - n) / n
        assert found[4] == str(timedelta(seconds=round(left))).removeprefix("0:").removeprefix("0")
    assert list(output.lines) == list(SHOWN)
    assert f"2,000 at {N / seconds[-1]:.0f} rows/s" in terminal.getvalue()
