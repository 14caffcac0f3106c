"""Alarms of a night: what raises one, and whom to tell; telling may fail without losing anything."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from batch2online.app.inputs import DataError

KINDS = ("order", "changes")
SECONDS = 10.0
"""Time that a webhook has, and a sixth of the time that a command has."""

_STDERR = 2
"""Where the output of a command goes: standard output may be JSON."""

_UNUSUAL = ("loss_increase", "half_life")
"""Changes that say that the rows have changed; others come with more rows as well."""


def alarms_of(kinds: Sequence[str], order: Any, first_row: int, events: Sequence[Any], excess: float) -> list[str]:
    """Return the alarms of a night as sentences.

    Parameters
    ----------
    kinds : list of {"order", "changes"}
        What to look at.
    order : OrderVerdict
        Verdict after the night.
    first_row : int
        Rows seen before the night: an older alarm is not repeated.
    events : list of ChangeEvent
        Changes of the night.
    excess : float
        Share by which a replaced model must have cost more than the new one, on all rows seen.
    """
    found = []
    if "order" in kinds and order.alarm is not None and order.alarm > first_row:
        found.append(order.sentence())
    if "changes" in kinds:
        found += [event.reason for event in events if event.kind in _UNUSUAL or event.excess >= excess]
    return found


def check_webhook(url: str | None) -> None:
    """Raise an error unless the webhook is a URL."""
    if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise DataError(f"--webhook {url!r} is not a URL: give one that begins with https:// or http://.")


def send(content: dict[str, Any], webhook: str | None, command: str | None, note: Callable[[str], None]) -> None:
    """Post a night as JSON, and run a command with the same on its standard input; a failure is noted."""
    body = json.dumps(content).encode()
    if webhook is not None:
        failure = _posted(webhook, body)
        if failure:
            note(f"the webhook was not called: {failure}; the night is learned")
    if command is not None:
        failure = _run(command, body)
        if failure:
            note(f"--on-alarm {failure}; the night is learned")


def _posted(url: str, body: bytes) -> str:
    """Return why an address could not be called, nothing if it was."""
    from urllib.request import Request, urlopen  # only here is there a network

    request = Request(url, body, {"Content-Type": "application/json", "User-Agent": "batch2online"})
    try:
        with urlopen(request, timeout=SECONDS):
            return ""
    except (OSError, ValueError) as error:  # errors of HTTP are OSErrors
        return " ".join(str(error).split()).removesuffix(".") or type(error).__name__


def _run(command: str, body: bytes) -> str:
    """Return how a command has failed, nothing if it has not."""
    try:
        words = shlex.split(command)
        done = subprocess.run(words, input=body, stdout=_STDERR, timeout=6 * SECONDS, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"has failed: {' '.join(str(error).split()).removesuffix('.')}"
    return f"has ended with exit code {done.returncode}" if done.returncode else ""
