"""The service as the command runs it, in a process of its own: clients, tokens, memory, and what its files contain."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import signal
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from processes import COMMAND, Started
from torture.cases import scratch
from torture.server import PATIENCE, Answering, free_port

READ, WRITE = "r" * 20, "w" * 20
"""Tokens for reading and for writing."""


class ServiceError(Exception):
    """A service that does not start."""


class Service(Answering):
    """``batch2online serve`` of a folder in a process of its own, which executes the program ``first`` before it."""

    def __init__(self, folder: Path, *options: str, guarded: bool = False, first: str = "") -> None:
        self.folder, self.port, self.log = folder, free_port(), tempfile.TemporaryFile()  # noqa: SIM115
        self.headers = {"Content-Type": "application/json"} | (bearer(WRITE) if guarded else {})
        if guarded:
            tokens = folder.with_suffix(".tokens")
            tokens.write_text(f"{WRITE}\nread {READ}\n")
            options += ("--token-file", str(tokens))
        words = ("serve", folder, "--port", self.port, *options)
        self.process: Any = Started(f"{first}\n{COMMAND}", *words, stderr=self.log.fileno())
        end = time.monotonic() + 120
        while not self.is_live():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.close()
                with self.log:
                    raise ServiceError(f"the service does not answer: {self.logged()}")
            time.sleep(0.02)

    def send(self, content: bytes, is_complete: bool = True) -> int | str:
        """Send bytes on a connection of their own; return the status of the response, or why there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
                try:
                    connection.sendall(content)
                    if not is_complete:
                        connection.shutdown(socket.SHUT_WR)  # the client leaves
                except OSError:
                    pass  # refused before all of it was sent; the response may be there
                return _status(connection.makefile("rb"), has_body=not content.startswith(b"HEAD "))
        except TimeoutError:
            return "no response"
        except (OSError, ValueError):
            return "connection closed"

    def peak_memory(self) -> int:
        """Return the largest number of bytes of memory that were in use; 0 if the process has ended."""
        status = Path(f"/proc/{self.process._process.pid}/status").read_text(encoding="ascii")
        return int((status.partition("VmHWM:")[2].split() or ["0"])[0]) * 1024

    def logged(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-3_000:]

    def end(self, seconds: float = PATIENCE) -> int:
        """End it as an operating system does; return the status of the process, after a SIGKILL if it stays."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return int(self.process.wait(seconds))
        except AssertionError:
            return -signal.SIGKILL
        finally:
            self.process.close()
            self.log.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _status(stream: Any, has_body: bool) -> int | str:
    line = stream.readline(65_536)
    if not line:
        return "connection closed"
    status, headers = int(line.split()[1]), http.client.parse_headers(stream)
    if status == 100:
        return _status(stream, has_body)
    if has_body and "application/problem+json" in headers.get("content-type", ""):
        content = stream.read(int(headers["content-length"]))
        assert json.loads(content)["detail"], content
    return status


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    """End a service in any case."""
    try:
        yield service
    finally:
        if not service.log.closed:
            service.end()


class OtherClient(threading.Thread):
    """A client that sends one request again and again, and must get the first answer each time."""

    def __init__(self, service: Service, path: str, body: Any) -> None:
        super().__init__(daemon=True)
        self.ask = lambda: service.ask("POST", path, body)
        self.expected, self.stopped, self.n_answers, self.failure = self.ask(), threading.Event(), 0, ""
        self.start()

    def run(self) -> None:
        while not self.failure and not self.stopped.wait(0.05):
            try:
                is_served = self.ask() == self.expected
            except ConnectionError:
                is_served = False
            self.n_answers += is_served
            self.failure = "" if is_served or self.stopped.is_set() else "another client was not served"

    def stop(self) -> None:
        self.stopped.set()
        self.join()


class Files:
    """The files of a folder: hashes of their bytes, and of the rows of the databases among them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.known = folder, dict[str, tuple[Any, str]]()
        self.rows = dict[str, str]()

    def hashes(self, reads_all: bool = True) -> tuple[dict[str, str], dict[str, str]]:
        """Return both; a file is read again if its size or time has changed, or if all are."""
        found, changed = {}, set[str]()
        for path in self.folder.iterdir():
            about = path.stat()
            stamp, (old, known) = (
                (about.st_mtime_ns, about.st_size, about.st_ino),
                self.known.get(path.name, (None, "")),
            )
            if reads_all or old != stamp:
                self.known[path.name] = stamp, hashlib.blake2b(path.read_bytes()).hexdigest()
            found[path.name] = self.known[path.name][1]
            if found[path.name] != known:
                changed.add(path.name.partition(".b2o")[0])
        for name in changed:
            if (self.folder / f"{name}.b2o").exists():
                self.rows = self.rows | {name: self._rows(name)}
        return found, self.rows

    def _rows(self, name: str) -> str:
        """Return a hash of all rows but the number of the last commit, and what is computed from it."""
        with scratch() as folder:
            for suffix in ("", "-wal"):
                if (path := self.folder / f"{name}.b2o{suffix}").exists():
                    shutil.copy(path, folder)
            with closing(sqlite3.connect(Path(folder, f"{name}.b2o"))) as database:
                tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
                rows = [row for (table,) in sorted(tables) for row in database.execute(f"SELECT * FROM {table}")]
        rows = [row for row in rows if row[0] not in ("commit", "check") and row[:2] != ("next_id", "0")]
        return hashlib.blake2b(repr(rows).encode()).hexdigest()
