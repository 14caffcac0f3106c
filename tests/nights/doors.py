"""The nights of a cell through each door, and one stream of the same nights through the same door."""

from __future__ import annotations

import http.client
import io
import json
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from nights import tables
from nights.cells import CELLS
from nights.night import FAILED, FORGOTTEN, comparable

NIGHT, REFIT = (Path(__file__).with_name(f"{name}.py") for name in ("night", "refit"))
BODIES = {"json": "application/json", "csv": "text/csv", "arrow": "application/vnd.apache.arrow.stream"}
DOORS = ("python", "python open", "command", "command lookahead", *(f"service {body}" for body in BODIES))


def combinations(doors=DOORS):
    """Return each door with each cell, and whether rows are kept; the command keeps rows of clusters alone."""
    for door in doors:
        for cell, its in CELLS.items():
            for kept in its.keeps:
                is_option = not door.startswith("command") or not kept or its.task == "clustering"
                if is_option and not (door.startswith("service") and cell == "clusters on disk"):
                    yield door, cell, kept


class BrokenError(Exception):
    """A night did not come through."""


@dataclass
class Nights:
    """What came of the nights of a cell, or of one stream."""

    seconds: list[float] = field(default_factory=list)
    """Of the processes of each night that came through."""

    found: dict[str, Any] = field(default_factory=dict)
    broken: str = ""
    """Night and message, if one did not come through; ``after`` for the file behind the last one."""

    def step(self, name, call):
        """Return what a call returns; a process that fails has broken the nights."""
        try:
            return None if self.broken else call()
        except BrokenError as error:
            self.broken = f"{name}: {error}"
            return None


def differences(nights, stream, kept):
    """Return how the nights of a file differ from one stream."""
    if nights.broken or stream.broken:
        return [nights.broken or f"one stream, {stream.broken}"]
    found = []
    for name, expected in stream.found.items():
        ours = nights.found.get(name)
        refused = name == "forgotten" and not kept  # rows that are not kept cannot be forgotten
        for whose, each in (("", ours), ("one stream, ", expected)):
            if isinstance(each, dict) and FAILED in each and not refused:
                found.append(f"{whose}{name}: {each[FAILED]}")
        if ours != expected and not found:
            both = isinstance(ours, dict) and isinstance(expected, dict)
            unequal = [key for key in expected | ours if ours.get(key) != expected.get(key)] if both else "all"
            found.append(f"{name} differs from one stream: {', '.join(unequal) if both else unequal}")
    return found


class Jobs:
    """A table cut into nights, in a folder; ``interpreters`` starts the processes."""

    def __init__(self, interpreters, folder, table, n_nights, n_rows):
        self.interpreters, self.folder, self.table, self.n_nights = interpreters, Path(folder), table, n_nights
        self.nights = self.folder / table
        self.nights.mkdir(parents=True)
        tables.write(table, self.nights, n_nights, n_rows)
        self._streams = {}

    def run(self, door, cell, kept):
        """Return what came of the nights, each in a process of its own, and of one stream."""
        own = self.folder / f"{self.table} {door} {cell} {kept}"
        own.mkdir()
        if door.startswith("python"):
            return self._python(own, door == "python open", cell, kept), self._stream(cell, kept)
        through = self._command if door.startswith("command") else self._served
        return through(own / "nights", door, cell, kept, False), through(own / "one", door, cell, kept, True)

    def _python(self, own, opens, cell, kept):
        nights, path = Nights(), own / "m.b2o"
        refused = []
        for night in range(self.n_nights):
            done = nights.step(
                f"night {night + 1}", lambda n=night: self.job("night", cell, kept, path, night=n, opens=opens)
            )
            if done:
                nights.seconds.append(done[0])
                refused += done[1]
        done = nights.step("after", lambda: self.job("after", cell, kept, path, opens=opens))
        nights.found = {"refused": refused} | (done[1] if done else {})
        return nights

    def _stream(self, cell, kept):
        if (cell, kept) not in self._streams:
            own, nights = self.folder / f"{self.table} stream {cell} {kept}", Nights()
            own.mkdir()
            done = nights.step("", lambda: self.job("stream", cell, kept, own / "m.b2o", night=self.n_nights))
            nights.seconds, nights.found = ([done[0]], done[1]) if done else ([], {})
            self._streams[cell, kept] = nights
        return self._streams[cell, kept]

    def _command(self, own, door, cell, kept, at_once):
        """Append nights with ``learn``, or read all of them with one ``run``."""
        nights, path, its, table = Nights(), own / "m.b2o", CELLS[cell], tables.TABLES[self.table]
        own.mkdir()
        files = [self.nights / f"night-{night:02}.csv" for night in range(self.n_nights)]
        words = ["--task", its.task, "--state", path, "--quiet", "--exclude", ",".join(table.unused)]
        words += ["--missing", "keep" if its.boosts else "mean"]
        for name, value in its.options.items():
            words += [f"--{name}", value]
        for setting in its.settings:
            words += ["--set", setting]
        if (target := table.target(its.task)) is not None:
            words += ["--target", target]
        if its.task == "clustering":
            words += ["--history", own / "rows" if cell == "clusters on disk" else "memory" if kept else "coreset"]
        if door.endswith("lookahead"):
            words += ["--lookahead", len(pd.read_csv(files[0]))]
        if at_once:
            nights.step("run", lambda: self._do("run", *files, *words))
        for night, file in enumerate(() if at_once else files):
            arguments = ("run", file, *words) if night == 0 else ("learn", path, file, "--alarms", "none", "--quiet")
            if night == tables.WRONG:  # an additional column is ignored
                wrong = file.with_name(f"{file.stem}-strings.csv")
                nights.step(f"night {night + 1}", lambda w=wrong: self._do("learn", path, w, "--quiet", code=2))
            done = nights.step(f"night {night + 1}", lambda a=arguments: self._do(*a))
            nights.seconds += [] if done is None else [done]
        done = nights.step("after", lambda: self.job("read", cell, kept, path))
        nights.found = done[1] if done else {}
        return nights

    def _do(self, *words, code=0):
        """Run a command; return its seconds."""
        ended = self.interpreters.run("-m", "batch2online", *words)
        if ended.code != code:
            raise BrokenError(ended.message if ended.code else f"{words[:3]} was not refused")
        return ended.seconds

    def _served(self, own, door, cell, kept, at_once):
        """Send the nights to a service that is started anew for each of them, or for none."""
        nights, its, table, kind = Nights(), CELLS[cell], tables.TABLES[self.table], door.split()[1]
        options = {"task": its.task, "seed": 0} | dict(its.options)
        if (target := table.target(its.task)) is not None:
            options["target"] = target
        kept_by = {"history": "memory" if kept else "coreset"} if its.task == "clustering" else {"keep_history": kept}
        service = None

        def learn(night):
            if night == 0:
                service.ask("PUT", "/models/m", json.dumps(options | kept_by).encode())
            for form in tables.FORMS if night == tables.WRONG and not its.is_wrapped else ():
                service.ask(
                    "POST", "/models/m/learn", self._body(f"night-{night:02}-{form}", kind, its), kind, refused=True
                )
            service.ask("POST", "/models/m/learn", self._body(f"night-{night:02}", kind, its), kind)

        def ask():
            return {"figures": figures(), "forgotten": service.attempt(forget)}

        def forget():
            service.ask("POST", "/models/m/forget", json.dumps({"ids": list(FORGOTTEN)}).encode())
            return figures()

        def figures():
            found = {
                path: comparable(service.ask("GET", f"/models/m/{path}"))
                for path in ("regret", "coreset", "changes?since=0")
            }
            return found | {
                "predictions": service.ask("POST", "/models/m/predict", self._body("probe", kind, its), kind)
            }

        def one(call):
            nonlocal service
            service = Service(self.interpreters, own)
            try:
                return call(), service.stop()
            finally:
                service.kill()

        if at_once:
            done = nights.step("", lambda: one(lambda: [learn(night) for night in range(self.n_nights)] and ask()))
        else:
            for night in range(self.n_nights):
                done = nights.step(f"night {night + 1}", lambda n=night: one(lambda: learn(n)))
                nights.seconds += [done[1]] if done else []
            done = nights.step("after", lambda: one(ask))
        if done:
            nights.found = done[0]
            done = nights.step("after", lambda: self.job("ask", cell, kept, own / "m.b2o"))
            nights.found |= done[1] if done else {}
        return nights

    def _body(self, name, kind, its):
        """Return rows as a body of a request."""
        frame, target = pd.read_parquet(self.nights / f"{name}.parquet"), tables.TABLES[self.table].target(its.task)
        if its.is_wrapped:  # an estimator without a pipeline reads numbers
            y = frame[[target]]
            frame = its.served_rows(frame.drop(columns=target), tables.TABLES[self.table]).join(y)
            frame = frame[sorted(frame)]
        if kind == "json":
            return frame.to_json(orient="records", date_format="iso").encode()
        if kind == "csv":
            return frame.to_csv(index=False).encode()
        content, rows = io.BytesIO(), pa.Table.from_pandas(frame, preserve_index=False)
        with pa.ipc.new_stream(content, rows.schema) as writer:
            writer.write_table(rows)
        return content.getvalue()

    def script(self, cell):
        """Return seconds of the nightly script, for each night."""
        files = [str(self.nights / f"night-{night:02}.csv") for night in range(self.n_nights)]
        its, table, seconds = CELLS[cell], tables.TABLES[self.table], []
        for night in range(self.n_nights):
            given = {
                "files": files[: night + 1],
                "drop": table.unused,
                "date": table.date,
                "target": table.target(its.task),
            }
            given |= {"estimator": its.script, "settings": dict(its.script_settings), "boosts": its.boosts}
            ended = self.interpreters.run(REFIT, json.dumps(given | {"out": str(self.folder / "script.joblib")}))
            if ended.code:
                raise BrokenError(ended.message)
            seconds.append(ended.seconds)
        return seconds

    def job(self, do, cell, kept, path, **more):
        """Run ``night.py``; return its seconds and what it has printed."""
        given = {
            "do": do,
            "table": self.table,
            "cell": cell,
            "kept": kept,
            "folder": str(self.nights),
            "path": str(path),
        }
        ended = self.interpreters.run(NIGHT, json.dumps(given | more))
        if ended.code:
            raise BrokenError(ended.message)
        return ended.seconds, json.loads(ended.out)


class Service:
    """``batch2online serve`` in a process of its own."""

    def __init__(self, interpreters, folder):
        self.interpreters = interpreters
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        words = ("-m", "batch2online", "serve", folder, "--port", self.port, "--estimators", "sklearn,lightgbm")
        self.started = interpreters.start(*words)
        end = time.monotonic() + 120
        while not self._is_live():
            if time.monotonic() > end or interpreters.has_ended(self.started):
                self.started, ended = None, interpreters.wait(self.started)
                raise BrokenError(f"the service does not start: {ended.message}")
            time.sleep(0.02)

    def _is_live(self):
        with suppress(OSError):
            return self._send("GET", "/v2/health/live")[0] == 200
        return False

    def _send(self, method, path, body=None, kind="json"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {"Content-Type": BODIES[kind]})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def ask(self, method, path, body=None, kind="json", refused=False):
        """Return the answer to a request."""
        try:
            status, text = self._send(method, path, body, kind)
        except OSError as error:
            raise BrokenError(f"{method} {path}: {error}") from error
        if (400 <= status < 500) != refused or status >= 500:
            raise BrokenError(f"{method} {path}: {status} {text[:300]}")
        return json.loads(text)

    @staticmethod
    def attempt(call):
        try:
            return call()
        except BrokenError as error:
            return {FAILED: str(error)}

    def stop(self):
        """End it as an operating system does; return its seconds."""
        self.interpreters.signal(self.started, signal.SIGTERM)
        started, self.started = self.started, None
        return self.interpreters.wait(started).seconds

    def kill(self):
        if self.started:
            self.interpreters.signal(self.started, signal.SIGKILL)
            self.interpreters.wait(self.started)
