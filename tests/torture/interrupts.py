"""An exception at every line of every call that changes something: the subject is as it was, or the call is done.

The exception is raised by a trace function at one line of the package that the call passes, then at another, until each
had its turn; of a line that is passed several times, one passage is chosen at random. Afterwards the state is compared
by bytes, and so is what it learns next.
"""

from __future__ import annotations

import dis
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import cycle, islice
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import batch2online
from torture.interrupted_calls import FAMILIES, Call
from torture.subjects import Subject

PACKAGE = str(Path(batch2online.__file__).parent)
WRITING = re.compile("storage|durable")
Place = tuple[str, int]
"""A file and a line."""


@contextmanager
def small_blocks():
    """Blocks of few rows, and histories that write early: all happens within short calls."""
    with (
        mock.patch("batch2online.rows._BLOCK_ROWS", (8,)),
        mock.patch("batch2online.storage.disk_history._PENDING", 1),
    ):
        yield


# -- raising ----------------------------------------------------------------------------------------------


class Injection:
    """A trace function that raises at one passage of one line of the package; it counts the passages of all lines."""

    def __init__(self, place: Place | None, passage: int = 1, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.place, self.passage, self.error = place, passage, error
        self.passages: Counter[Place] = Counter()
        self.has_raised = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        is_ours = frame.f_code.co_filename.startswith(PACKAGE) and frame.f_code.co_name != "__del__"
        return self.local if is_ours else None

    def local(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and frame.f_lasti not in out_of_reach(frame.f_code):
            place = frame.f_code.co_filename, frame.f_lineno
            self.passages[place] += 1
            if place == self.place and self.passages[place] == self.passage:
                self.has_raised = True
                raise self.error("injected")
        return self.local


@cache
def out_of_reach(code: CodeType) -> frozenset[int]:
    """Places where a trace function can raise and nothing else: the word ``try``, and the way out of a ``with``.

    The interpreter looks for signals at calls and jumps, never between the body of a ``with`` and its ``__exit__``.
    """
    steps = list(dis.get_instructions(code))
    found = {step.offset for step in steps if step.opname == "NOP"}
    for index, step in enumerate(steps):
        if [(s.opname, s.argval) for s in steps[index : index + 3]] == [("LOAD_CONST", None)] * 3:
            found |= {step.offset, steps[index - 1].offset} if steps[index - 1].opname == "SWAP" else {step.offset}
        if step.opname == "WITH_EXCEPT_START":
            found |= {before.offset for before in steps[index - 1 : index]}
    return frozenset(found)


@dataclass(frozen=True)
class Outcome:
    """Where an exception was raised, empty if it was not; and whether the call has raised."""

    where: str
    raised: BaseException | None


def injected(subject: Subject, call: Call, injection: Injection) -> Outcome:
    """Make a call, with an exception at one of its lines."""
    raised, before = None, sys.gettrace()
    sys.settrace(injection)
    try:
        call.act(subject)
    except BaseException as anything:
        sys.settrace(before)
        if not injection.has_raised:
            raise
        raised = anything
    finally:
        sys.settrace(before)
    return Outcome(":".join(map(str, injection.place or ())) if injection.has_raised else "", raised)


def passages(call: Call) -> Counter[Place]:
    """Return how often an undisturbed call passes each line."""
    subject, injection = call.new(), Injection(None)
    injected(subject, call, injection)
    subject.end()
    return injection.passages


def signalled(subject: Subject, call: Call, delay: float) -> Outcome:
    """Make a call, with a real signal after this many seconds: the timer of the processor has steps of milliseconds."""
    armed, where = True, ""

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal armed, where
        if armed and frame is not None:
            armed, where = False, f"{frame.f_code.co_filename}:{frame.f_lineno}"
            raise KeyboardInterrupt

    former, raised = signal.signal(signal.SIGALRM, handler), None
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        call.act(subject)
        armed = False
    except KeyboardInterrupt as interrupt:
        raised = interrupt
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    return Outcome(where, raised)


# -- comparing --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Expected:
    """What an undisturbed subject is before and after the call, and what it has become some rows later."""

    call: Call

    @cached_property
    def before(self) -> bytes:
        return self._state(acts=False, goes_on=False)

    @cached_property
    def after(self) -> bytes:
        return self._state(acts=True, goes_on=False)

    @cached_property
    def later(self) -> dict[bool, bytes]:
        """By whether the call was made."""
        return {acts: self._state(acts, goes_on=True) for acts in (False, True)}

    def _state(self, acts: bool, goes_on: bool) -> bytes:
        subject = self.call.new()
        try:
            if acts:
                self.call.act(subject)
            if goes_on:
                self.call.go_on(subject)
            return subject.state()
        finally:
            subject.end()

    def check(self, subject: Subject, outcome: Outcome, how: int) -> str:
        """Compare a disturbed subject; ``how`` picks what is done with it next. Return what came of the call.

        Of three subjects that are in a file, one goes on: the file was found equal, which is what it goes on from.
        """
        place = f"{self.call.name}, {outcome.where or 'undisturbed'}"
        state = subject.state()
        is_done = state == self.after and (outcome.raised is None or self.before != self.after or how % 2 == 0)
        assert is_done or (outcome.raised is not None and state == self.before), f"{place}: a third state"
        assert not subject.is_locked(), f"{place}: a lock is still held"
        subject.look_again(how)
        assert subject.state() == state, f"{place}: another state in the file"
        was_done = is_done
        if how % 9 < subject.share_going_on:
            if not is_done and how % 2:
                self.call.act(subject)
                is_done = True
            self.call.go_on(subject)
            assert subject.state() == self.later[is_done], f"{place}: other results later"
        subject.end()
        if outcome.raised is None:
            return "undisturbed"
        return "done" if was_done else "as it was"


# -- campaigns --------------------------------------------------------------------------------------------


def every_line(
    families: Iterable[str] = tuple(FAMILIES),
    errors: tuple[type[BaseException], ...] = (KeyboardInterrupt, MemoryError),
    every: int = 1,
    only: Callable[[Call], bool] = lambda call: True,
) -> dict[str, int]:
    """Raise at every line, or at one of so many lines, of all calls: the errors take turns.

    Calls on models in files also pass the lines of the estimators' own calls: of these, which had their turn, one in
    five is taken.
    """
    outcomes: Counter[str] = Counter()
    with small_blocks():
        for number, (family, call) in enumerate(chosen(families, only)):
            expected, random, turn = Expected(call), Random(number), cycle(errors)
            for place, times in islice(_taken(family, passages(call)), number * 7 % every, None, every):
                error = next(turn)
                subject = call.new()
                outcome = injected(subject, call, Injection(place, random.randint(1, times), error))
                result = expected.check(subject, outcome, random.randrange(18))
                outcomes[f"{family}, {error.__name__}: {result}"] += 1
    return dict(outcomes)


def _taken(family: str, places: Counter[Place]) -> list[tuple[Place, int]]:
    if family == "durable models":
        places = Counter({place: n for place, n in places.items() if WRITING.search(place[0]) or place[1] % 5 == 0})
    return sorted(places.items())


def signals(
    number: int, families: Iterable[str] = tuple(FAMILIES), only: Callable[[Call], bool] = lambda call: True
) -> dict[str, int]:
    """Real signals at random moments of all calls, so many for each."""
    outcomes: Counter[str] = Counter()
    random = Random(1)
    with small_blocks():
        for family, call in chosen(families, only):
            expected, longest = Expected(call), _seconds_of(call)
            for _ in range(number):
                subject = call.new()
                outcome = signalled(subject, call, random.uniform(1e-6, longest))
                outcomes[f"{family}: {expected.check(subject, outcome, random.randrange(18))}"] += 1
    return dict(outcomes)


def _seconds_of(call: Call) -> float:
    """Return the least of three turns: the first is slow, and a signal after the end of a call tests nothing."""
    return min(_once(call) for _ in range(3))


def _once(call: Call) -> float:
    subject = call.new()
    started = time.perf_counter()
    call.act(subject)
    seconds = time.perf_counter() - started
    subject.end()
    return seconds


def chosen(families: Iterable[str], only: Callable[[Call], bool]) -> list[tuple[str, Call]]:
    return [(family, call) for family in families for call in FAMILIES[family]() if only(call)]
