"""What is known to break, by table, door, cell and whether rows are kept; the first line that fits."""

from __future__ import annotations

from fnmatch import fnmatch

MARKS = {
    ("*", "service *", "wrapped LightGBM", "*"): "show fits the booster for its optimum, before its JSON come messages",
}


def reason(table, door, cell, kept):
    """Return why a combination is known to break, or None."""
    for patterns, why in MARKS.items():
        if all(fnmatch(str(each), pattern) for each, pattern in zip((table, door, cell, kept), patterns, strict=True)):
            return why
    return None
