"""``python ARGUMENTS`` in processes of their own, one thread each, with their seconds of processor time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


def environment():
    """Return an environment of one thread, where modules are compiled once, as they are after an installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    seconds: float
    out: str
    error: str

    @property
    def message(self):
        """The last line of its standard error."""
        return next((line for line in reversed(self.error.splitlines()) if line.strip()), f"exit code {self.code}")


class Interpreters:
    """Processes whose outputs are in a folder; ``forks``: arguments of ``forks.py``, None for real interpreters."""

    def __init__(self, folder, forks=()):
        self.folder, self.n_started = Path(folder), 0
        self.folder.mkdir(parents=True, exist_ok=True)
        server = [str(Path(__file__).with_name("forks.py")), *(forks or ())]
        self._server = None if forks is None else self._popen(server, subprocess.PIPE, None)

    @staticmethod
    def _popen(arguments, pipe, error):
        options = {"stdin": pipe, "stdout": pipe, "stderr": error, "env": environment(), "text": True}
        return subprocess.Popen([sys.executable, *arguments], **options)

    def _asked(self, question):
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def start(self, *arguments):
        """Start a process; return a number for :meth:`wait` and its process id."""
        self.n_started += 1
        words, files = [str(word) for word in arguments], self._files(self.n_started)
        if self._server:
            return self.n_started, self._asked([words, *map(str, files)])
        with files[0].open("w") as out, files[1].open("w") as error:
            process = subprocess.Popen([sys.executable, *words], stdin=-3, stdout=out, stderr=error, env=environment())
        process.returncode = 0  # wait4 waits for it
        return self.n_started, process.pid

    def _files(self, number):
        return self.folder / f"{number}.out", self.folder / f"{number}.error"

    def wait(self, started):
        """Wait for the end of a process."""
        number, pid = started
        if self._server:
            code, seconds = self._asked(pid)
        else:
            _, status, use = os.wait4(pid, 0)
            code, seconds = os.waitstatus_to_exitcode(status), use.ru_utime + use.ru_stime
        return Ended(code, seconds, *(file.read_text() for file in self._files(number)))

    def run(self, *arguments):
        return self.wait(self.start(*arguments))

    @staticmethod
    def signal(started, number):
        os.kill(started[1], number)

    @staticmethod
    def has_ended(started):
        """Return whether a process waits for its parent to read its exit code."""
        state = Path(f"/proc/{started[1]}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z"

    def close(self):
        if self._server:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()
