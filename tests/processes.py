"""Programs in processes of their own, without the second that imports take.

A server imports the package once, and forks for each program: signals, pipes and exit codes are those of any process.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection

COMMAND = "from batch2online.app.cli import main; main()"
PATIENCE = 600
"""Seconds after which a process has surely failed, however busy the machine is."""

_SERVER = get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["processes", "batch2online", "batch2online.app.cli.app", "batch2online.app.cli.commands.run"]
)


class Started:
    """A program that runs: as ``subprocess.Popen``, with a pipe for each of its three files unless one is given."""

    def __init__(self, program, *arguments, stderr=None):
        ends, self.stdin, self.stdout, self.stderr = [], None, None, None
        read, write = os.pipe()
        self.stdin = os.fdopen(write, "wb")
        ends.append(Connection(read, writable=False))
        for name, given in (("stdout", None), ("stderr", stderr)):
            if given is None:
                read, write = os.pipe()
                setattr(self, name, os.fdopen(read, "rb"))
            else:
                write = os.dup(given)
            ends.append(Connection(write, readable=False))
        state = (program, [str(word) for word in arguments], os.getcwd(), dict(os.environ), ends)
        self._process = _SERVER.Process(target=_run, args=state)
        self._process.start()
        for end in ends:
            end.close()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, seconds=PATIENCE):
        self._process.join(seconds)
        assert self.returncode is not None, "the process does not end"
        return self.returncode

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number):
        if self.returncode is None:
            os.kill(self._process.pid, number)

    def communicate(self, content=b""):
        """Send this, then nothing more; wait for the end, close all pipes, and return what was written to both."""
        read = [_Reading(pipe) for pipe in (self.stdout, self.stderr)]
        with suppress(BrokenPipeError):
            self.stdin.write(content)
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.wait()
        return [each.content() for each in read]

    def close(self):
        """Kill it, if it has not ended, and close the pipes."""
        self.kill()
        self.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Reading(threading.Thread):
    """All that comes out of a pipe, read beside what is written."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.pipe, self.found = pipe, b""
        if pipe is not None and not pipe.closed:
            self.start()

    def run(self):
        with self.pipe:
            self.found = self.pipe.read()

    def content(self):
        if self.ident is not None:
            self.join()
        return self.found


def _run(program, arguments, folder, environment, ends):
    """Be the program, in the forked process."""
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "wb", closefd=False), encoding="utf-8", write_through=True)
    sys.argv = ["batch2online", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})


def run_to_end(program, *arguments, content=b""):
    """Run a program to its end; return its exit code and what it wrote to its two outputs."""
    with Started(program, *arguments) as process:
        out, error = process.communicate(content)
        return process.returncode, out.decode(), error.decode()
