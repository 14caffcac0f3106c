"""Formatting that the report and the terminal share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batch2online.results import ChangeEvent


def visible(value: object) -> str:
    r"""Return a value as a string with control characters escaped, so that it cannot control a terminal.

    >>> visible("naïve\x1b[31m")
    'naïve\\x1b[31m'
    """
    shown = str(value)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def reason(event: ChangeEvent) -> str:
    """Return the reason of a change, without its row count.

    >>> from batch2online.results import ChangeEvent
    >>> reason(ChangeEvent(70, "scheduled", 0.1, cost_before=102.0, cost_after=100.0, tolerance=0.01))
    'the old model costs 2.00% more than the new one, tolerance 1.00%'
    """
    if event.kind != "scheduled":
        return event.reason
    return event.comparison or "scheduled refresh"
