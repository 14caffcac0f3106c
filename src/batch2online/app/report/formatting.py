"""Formatting that the report and the terminal share."""

from __future__ import annotations

import math
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
    if event.tolerance is None:
        return "scheduled refresh"
    more = f"{percent(event.excess)} more than the new one"
    if event.excess >= 1:
        more = f"{1 + event.excess:,.3g} times as much as the new one"
    if math.isinf(event.excess):
        more = "more than the new one, which has no loss"
    return f"the old model costs {more}, tolerance {percent(event.tolerance)}"


def percent(fraction: float) -> str:
    """Return a fraction in percent, with two digits if it is small.

    >>> percent(0.0215), percent(0.0000321)
    ('2.15%', '0.0032%')
    """
    return f"{fraction:.2%}" if abs(fraction) >= 0.0005 or fraction == 0 else f"{100 * fraction:.2g}%"
