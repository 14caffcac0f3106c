"""A fuzz of the service: every route, access level, kind of body and kind of headers, and mixtures of them at random.

A service with tokens gets three quarters of the requests, one without tokens the others. No status is 500 or above, no
request changes a model unless a writer sent it and it succeeded, another client is served all the time, and memory is
bounded. In the end the service is restarted and compared with one that received only what had succeeded. Requests that
``KNOWN`` lists break the service today: they are left out, or sent alone (``only``).
"""

from __future__ import annotations

import itertools
import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from torture.cases import scratch
from torture.service import READ, WRITE, Files, OtherClient, Service, serving
from torture.service_bodies import MAX_BODY, MODELS, make_body, rows_of

MAX_MEMORY = 400 * 2**20
"""Bound of the memory of a service that accepts bodies of one megabyte and serves a dozen small models."""


class Report(NamedTuple):
    """How many requests had each outcome, an example of what is wrong by (route, cause), and the largest memory."""

    outcomes: Counter[str]
    findings: dict[tuple[str, str], str]
    memory: int


def service_fuzz(count: int, seed: int = 0) -> dict[str, int]:
    """Send so many requests that are not known to break the service; return how many had each outcome."""
    outcomes, findings, memory = fuzz(count, seed)
    assert not findings, "\n".join(f"{key}: {example}" for key, example in findings.items())
    n_others = outcomes.pop("predictions for another client")
    assert n_others > 20
    return {**outcomes, f"of {n_others:,} predictions for another client, and {memory / 2**20:.0f} MB at most": 1}


def fuzz(count: int, seed: int = 0, only: Known | None = None) -> Report:
    """Send so many requests, only those of a known defect if one is given."""
    whole = Report(Counter(), {}, 0)
    for guarded, share in ((True, 0.75), (False, 0.25)):
        if only is None or not whole.findings:
            campaign = _Campaign(guarded, random.Random(f"{seed} {guarded}"), only)
            campaign.run(round(count * share))
            outcomes, findings = whole.outcomes + campaign.outcomes, campaign.findings | whole.findings
            whole = Report(outcomes, findings, max(whole.memory, campaign.memory))
    return whole


class _Campaign:
    """Requests to one service, one after the other, and what is wrong with the responses."""

    def __init__(self, guarded: bool, rng: random.Random, only: Known | None) -> None:
        self.guarded, self.rng, self.only, self.memory = guarded, rng, only, 0
        self.outcomes, self.written = Counter[str](), list[Attack]()
        self.findings: dict[tuple[str, str], str] = {}
        self.other: OtherClient | None = None

    def run(self, count: int) -> None:
        with scratch() as folder:
            self.folder = Path(folder)
            self.service = self.serve("models")
            try:
                prepare(self.service)
                self.watch()
                described = self.service.ask("GET", "/openapi.json")[1]["paths"]
                for number, attack in enumerate(attacks(self.rng, count, described, self.guarded, self.only)):
                    self.send(attack, reads_all=number % 100 == 99)
                    if len(self.findings) >= (20 if self.only is None else 1):
                        break
            finally:
                self.stop()
            if self.only is None:
                self.compare()

    def serve(self, name: str) -> Service:
        options = ("--max-megabytes", str(MAX_BODY // 2**20), "--max-models", "12")
        return Service(self.folder / name, *options, guarded=self.guarded)

    def watch(self) -> None:
        self.other = OtherClient(self.service, "/models/healthy/predict", rows_of("healthy", 1))
        self.files = Files(self.service.folder)
        self.before = self.state(reads_all=True)

    def stop(self) -> None:
        if self.other is not None:
            self.other.stop()
            self.outcomes["predictions for another client"] += self.other.n_answers
        ended = self.service.end()
        if ended == -signal.SIGKILL:
            self.findings["any route", "no end after SIGTERM"] = ""

    def state(self, reads_all: bool) -> State:
        return State(self.service.ask("GET", "/models"), *self.files.hashes(reads_all))

    def send(self, attack: Attack, reads_all: bool) -> None:
        status = self.service.send(attack.content, attack.is_complete)
        self.outcomes[str(status)] += 1
        try:
            before, self.before = self.before, self.state(reads_all)
            self.memory = max(self.memory, self.service.peak_memory())
            cause = _cause(attack, status, before, self.before) or self.other.failure
            cause = cause or ("memory" if self.memory > MAX_MEMORY else "")
        except ConnectionError:
            code = self.service.process.poll()
            cause = "no answer afterwards" if code is None else f"end of the process with status {code}"
        if status in (200, 201) and attack.may_write:
            self.written.append(attack)
        if cause:
            self.findings.setdefault((attack.route, cause), f"{attack.level}, {attack.kind}: {attack.content[:600]!r}")
        if cause.startswith(("no ", "end of", "another")):
            self.stop()
            self.service = self.serve("models")
            self.watch()

    def compare(self) -> None:
        """Compare the restarted service with one that received only what had succeeded."""
        with serving(self.serve("models")) as restarted:
            found = contents(restarted)
        with serving(self.serve("expected")) as replayed:
            prepare(replayed)
            refused = [attack for attack in self.written if replayed.send(attack.content) not in (200, 201)]
            expected = contents(replayed)
        for path in expected:
            if refused or found.get(path) != expected[path]:
                self.findings[path, "differs without the refused requests"] = f"{found.get(path)} {expected[path]}"


class State(NamedTuple):
    """The list of models, hashes of the files, and hashes of what they contain."""

    models: Any
    files: dict[str, str]
    contents: dict[str, str]


def _cause(attack: Attack, status: int | str, before: State, after: State) -> str:
    """Return what is wrong with the response, or nothing; calls of a writer may rewrite a file with equal contents."""
    if isinstance(status, int) and status >= 500 and not (status == 501 and b"Transfer-Encoding" in attack.content):
        return f"status {status}"
    if status == "no response":
        return status
    succeeded = isinstance(status, int) and status < 300
    if attack.level == "none" and succeeded and "/v2/health/" not in attack.path:
        return "answered without a token"
    if attack.level == "read" and succeeded and attack.writes:
        return "written with a token for reading"
    if attack.may_write:
        before, after = before._replace(files={}), after._replace(files={})
    changed = [field for field in State._fields if getattr(before, field) != getattr(after, field)]
    if changed and not (attack.may_write and succeeded):
        return f"{', '.join(changed)} changed by a request that {'only reads' if succeeded else 'was refused'}"
    return ""


def prepare(service: Service) -> None:
    """Create the models and teach them rows."""
    for name, settings in MODELS.items():
        assert service.ask("PUT", f"/models/{name}", settings)[0] == 201
        if name != "empty":
            rows = [row | {"key": place} for place, row in enumerate(rows_of(name, 60))]
            assert service.ask("POST", f"/models/{name}/learn?key=key", rows)[0] == 200


def contents(service: Service) -> dict[str, Any]:
    """Return what the service tells about its models."""
    names = [model["name"] for model in service.ask("GET", "/models")[1]]
    paths = [f"/models/{name}{path}" for name in names for path in ("", "/changes", "/regret", "/coreset")]
    found = {path: service.ask("GET", path) for path in paths}
    return found | {name: service.ask("POST", f"/models/{name}/predict", rows_of(name, 5)) for name in MODELS}


# -- requests -------------------------------------------------------------------------------------------------


class Attack(NamedTuple):
    """A request, and what is known about it."""

    level: str
    kind: str
    route: str
    method: str
    path: str
    body: bytes
    content: bytes
    is_complete: bool

    @property
    def writes(self) -> bool:
        """Whether it changes a model if it succeeds."""
        path, _, query = self.path.partition("?")
        predicts = self.method == "POST" and path.endswith(("/predict", "/infer")) and "key=" not in query
        return self.method not in ("GET", "HEAD", "OPTIONS") and not predicts

    @property
    def may_write(self) -> bool:
        return self.writes and self.level in ("write", "open", "several")


UNDESCRIBED = (
    *("/", "/events", "/metrics", "/openapi.json", "/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/{name}"),
    *("/v2/models/{name}/ready", "/v2/models/{name}/versions/1", "/models/{name}/report", "/nothing", "//models", "*"),
    *("/models/{name}/nothing", "/models/{name}/learn/", "/models/../tokens", "/%00", "/models/%2e%2e%2ftokens"),
    *("http://other.example/models", "/models?since=1", "/" + "x" * 70_000, "/models/\xe9", "/v2/models/{name}/infer/"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "learn", "\x00")
LEVELS = {"none": 1, "wrong": 1, "read": 3, "write": 6, "several": 1}
BODIES = {"good": 4, "none": 1, "short": 2, "forged": 8, "large": 0.2, "compressed": 1}
HEADS = {"plain": 6, "more": 3, "twice": 1, "missing": 1}
NAMES = ("price", "price", "names", "kinds", "groups", "empty", "new", "more-1", "none", "predict", "x" * 65, ".")
NEW = ("price", "new", "predict", "infer", "more-1", "a.b", "%2e%2e", "x" * 65)
QUERY = ("key", "key", "", "a", "y", "%00", "%ff", "key&key=a", "k" * 5_000, "1", "-1", "1e9", "9" * 5_000, "%C2%B2")
OTHER_QUERIES = ("method=predict_proba", "method=transform", "method=__class__", "method=", "&&==", "a" * 30_000)


def attacks(
    rng: random.Random, count: int, described: dict[str, Any], guarded: bool, only: Known | None
) -> Iterator[Attack]:
    """Draw requests: first each route x level x body x headers in random order, then mixtures.

    Routes, their queries and their headers are those of the service's own description.
    """
    routes = [(m.upper(), path, o) for path, each in described.items() for m, o in each.items() if m != "parameters"]
    assert any(path == "/models/{name}/learn" for _, path, _ in routes)
    others = [("GET", path, dict[str, Any]()) for path in UNDESCRIBED]
    if only is not None:
        routes = others = [each for each in routes + others if only.concerns(f"{each[0]} {each[1]}")]
    weights = {"level": LEVELS if guarded else {"open": 1}, "body": BODIES, "head": HEADS}
    cells = list(itertools.product(routes, *weights.values())) if only is None else []
    rng.shuffle(cells)
    for _ in range(count if only is None else 5_000):
        route = rng.choice(others if rng.random() < 0.1 else routes + 3 * [each for each in routes if each[0] != "GET"])
        drawn = (rng.choices(list(each), list(each.values()))[0] for each in weights.values())
        cell = cells.pop() if cells else (route, *drawn)
        attack = _attack(rng, *cell)
        while only is None and any(each.matches(attack) for each in KNOWN):
            attack = _attack(rng, *cell)
        if only is None or (only.matches(attack) and sum(each.matches(attack) for each in KNOWN) == 1):
            count -= 1
            yield attack
        if not count:
            return


def _attack(rng: random.Random, route: tuple[str, str, Any], level: str, body_kind: str, head_kind: str) -> Attack:
    method, template, operation = route
    action = "settings" if method == "PUT" else template.rpartition("/")[2]
    name, parameters = rng.choice(NEW if method == "PUT" else NAMES), operation.get("parameters", [])
    path, own = template.replace("{name}", name), {"query": list[str](), "header": list[str]()}
    for each in parameters:
        own[each["in"]].append(each["name"])
    if rng.random() < (0.5 if own["query"] else 0.03):
        asked = [f"{query}={rng.choice(QUERY)}" for query in own["query"]]
        path += "?" + rng.choice([*asked * 2, rng.choice(OTHER_QUERIES)])
    if head_kind != "plain" and rng.random() < 0.15:
        method = rng.choice(METHODS)
    kind, type_, body = make_body(rng, body_kind, name, action)
    framing, content, is_complete = _framed(rng, body, head_kind)
    headers = [b"Host: 127.0.0.1", *_authorizations(rng, level), b"Content-Type: " + type_, framing]
    if head_kind == "more":
        described = [f"{each}: {rng.choice(KEYS)}".encode("latin-1") for each in own["header"]]
        headers.append(rng.choice([*HEADERS, *described * 12]))
    elif head_kind == "twice":
        headers.append(rng.choice(headers))
    elif head_kind == "missing":
        headers.remove(rng.choice(headers))
    rng.shuffle(headers)
    if level != "open":
        level = _level([each for each in headers if each.startswith(b"Authorization")])
    head = b"\r\n".join([f"{method} {path} HTTP/1.{rng.random() > 0.02:d}".encode("latin-1"), *headers, b"", b""])
    is_complete |= framing not in headers
    return Attack(level, kind, f"{route[0]} {template[:50]}", method, path, body, head + content, is_complete)


RIGHT = {"write": f"Authorization: Bearer {WRITE}".encode(), "read": f"Authorization: Bearer {READ}".encode()}
SCHEMES = (
    b"Bearer " + b"x" * 20,
    b"Bearer",
    b"",
    b"Basic " + WRITE.encode(),
    b"Bearer \xff",
    f"Bearer w{READ}".encode(),
)
WRONG = (*(b"Authorization: " + given for given in SCHEMES), RIGHT["write"][:-1], RIGHT["write"] + b"w")


def _authorizations(rng: random.Random, level: str) -> list[bytes]:
    if level == "several":
        return rng.sample([*RIGHT.values(), rng.choice(WRONG)], 2)
    return [rng.choice(WRONG)] if level == "wrong" else [RIGHT[level]] if level in RIGHT else []


def _level(authorizations: list[bytes]) -> str:
    """Return which right the headers give; "several" if one is right and they differ."""
    found = [level for level, right in RIGHT.items() if right in authorizations]
    return "none" if not found else found[0] if len(set(authorizations)) == 1 else "several"


def _framed(rng: random.Random, body: bytes, head_kind: str) -> tuple[bytes, bytes, bool]:
    """Return the header that tells where the body ends, the body, and whether it ends there."""
    kinds, size = ["exact", "chunked", "longer", "shorter", "wrong", "endless"], len(body)
    kind = rng.choices(kinds, [80, 8, 4, 2, 4, 2])[0] if head_kind != "plain" else "exact"
    if kind in ("chunked", "endless"):
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:9], body[9:]) if part)
        return b"Transfer-Encoding: chunked", chunks + b"0\r\n\r\n" * (kind == "chunked"), kind == "chunked"
    wrong = [b"-1", b"x", b"1e3", b"9" * 30, b"%d, 7" % (size + 1), b"7\r\nContent-Length: 8", b"+%d" % size, b""]
    length = {"wrong": rng.choice(wrong), "longer": b"%d" % (size + 5), "shorter": b"%d" % (size // 2)}
    return b"Content-Length: " + length.get(kind, b"%d" % size), body, kind != "longer"


KEYS = ("", "night 1", "night 2", "k" * 300, "\xff", "\xc3\xa9", "a,b")
HEADER_VALUES = {
    "Content-Type": ("application/json; charset=utf-16", "", "text/html", "text/csv", "\xff\xfe", "a" * 9_000),
    "Content-Encoding": ("gzip", "zstd"),
    "Accept": ("", "nothing", "text/csv;q=2", "*/*" * 3_000),
    "Host": ("", "evil.example", "127.0.0.1:99999", "x/v2/health/live?", "x/predict?", "\xff", "[::1"),
    "Origin": ("null", "http://127.0.0.1", "http://[::1", ""),
    "Connection": ("close, upgrade", "Upgrade\r\nUpgrade: websocket"),
    "Expect": ("100-continue", "nothing"),
    "Last-Event-ID": ("price:5", "a:\xb2", ":::", "price:" + "9" * 50, ",,,"),
    "Inference-Header-Content-Length": ("2", "-1", "9" * 20, "", "\xb2", "0"),
    "X-HTTP-Method-Override": ("PUT", "x" * 70_000),
    "Content-Length": ("3",),
}
HEADERS = tuple(f"{name}: {value}".encode("latin-1") for name, values in HEADER_VALUES.items() for value in values)


# -- what is known to break the service -------------------------------------------------------------------------


class Known(NamedTuple):
    """Requests that break the service today, and what they cause; an entry is removed with its defect."""

    number: str
    name: str
    route: str
    cause: str
    shows: Callable[[Attack], bool]

    def concerns(self, route: str) -> bool:
        return re.search(self.route, route) is not None

    def matches(self, attack: Attack) -> bool:
        return self.concerns(attack.route) and self.shows(attack)

    def explains(self, route: str, cause: str) -> bool:
        """Return whether a finding is the known one; SIGTERM has no route."""
        return (self.concerns(route) or route == "any route") and re.search(self.cause, cause) is not None


@cache
def _fault(body: bytes) -> str:
    """Return what is wrong with an Arrow stream that is not refused by an error of Arrow."""
    try:
        table = pa.ipc.open_stream(body).read_all()
    except (pa.ArrowException, ValueError, MemoryError):
        return ""
    except OSError:
        return "damaged"
    try:
        table.validate(full=True)
    except (pa.ArrowException, ValueError):
        return "forged"
    try:
        table.to_pylist()
    except (OverflowError, ValueError) as error:
        return "dates" if isinstance(error, OverflowError) else ""
    return ""


def _options(attack: Attack) -> dict[str, Any]:
    try:
        found = json.loads(attack.body) if attack.method == "PUT" else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_arrow(attack: Attack, fault: str) -> bool:
    return attack.kind.startswith("Arrow") and attack.kind != "Arrow, bomb" and _fault(attack.body) == fault


def _has_keys(attack: Attack) -> bool:
    return "key=" in attack.path or "/label" in attack.path


def _has_wrong_options(attack: Attack) -> bool:
    options = _options(attack)
    return options.get("estimator") == "sklearn.base.clone" or isinstance(options.get("keep_history"), list | dict)


DEATH, ROWS, MODEL = "end of the process|status 500|no |another", r"POST .*/(learn|predict|label)", r"PUT /models"
ENDS = ("dict", "nfer")  # of /predict and /infer
KNOWN = (
    Known("d50", "forged buffers of Arrow", ROWS, DEATH, lambda a: _is_arrow(a, "forged")),
    Known("d50", "damaged streams of Arrow", ROWS, "status 500", lambda a: _is_arrow(a, "damaged")),
    Known("new", "dates as keys, of no year", ROWS, "status 500", lambda a: _is_arrow(a, "dates") and _has_keys(a)),
    Known("d51", "compressed Arrow", ROWS, f"memory|{DEATH}", lambda a: a.kind == "Arrow, bomb"),
    Known("d52", "a model named predict", MODEL, "reading", lambda a: a.level == "read" and a.path[-4:] in ENDS),
    Known("d53", "keys", "POST .*/predict", "reading|changed", lambda a: a.level == "read" and "key=" in a.path),
    Known("d65", "options of wrong types", MODEL, "status 500", _has_wrong_options),
    Known("d70", "malformed headers", "", "status 500", lambda a: re.search(rb"\[::1\r|\xb2\r", a.content) is not None),
    Known("d57", "a large k", MODEL, "", lambda a: isinstance(k := _options(a).get("k"), int) and k > 10**6),
)
"""The last one needs further requests to break the service, and has a test of its own."""
