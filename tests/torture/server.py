"""A service in a process of its own, that can be killed at any moment."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import socket
import time
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["batch2online.app.serve.service", "uvicorn", "redis"])
JSON = {"Content-Type": "application/json"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """``batch2online serve`` of a folder; with ``sources``, those of its models."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.port, self.settings = folder, free_port(), settings
        self.process: Any = None

    def start(self) -> None:
        self.process = CONTEXT.Process(target=_serve, args=(self.folder, self.port, self.settings), daemon=True)
        self.process.start()

    def wait(self, seconds: float = 30.0) -> None:
        """Return when it answers."""
        end = time.monotonic() + seconds
        while not self.is_live():
            assert self.process.is_alive(), "the service has ended"
            assert time.monotonic() < end, "the service does not answer"
            time.sleep(0.02)

    def is_live(self) -> bool:
        try:
            return self.ask("GET", "/v2/health/live")[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def terminate(self, seconds: float = 10.0) -> None:
        """End it as an operating system does."""
        self.process.terminate()
        self.process.join(seconds)
        assert not self.process.is_alive(), f"SIGTERM took more than {seconds} s"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send one request; return the status and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, JSON | headers)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text[:1] in b"[{" else text
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def memory(self) -> int:
        """Return the bytes of memory in use."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))


def _serve(folder: Path, port: int, settings: dict[str, Any]) -> None:
    from batch2online.app.cli.commands.serve import serve

    serve(folder, "127.0.0.1", port, None, **{"max_models": 10, "max_megabytes": 1, "estimators": None} | settings)
