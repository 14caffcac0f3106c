"""What is known to break, by door, cell and whether rows are kept."""

from __future__ import annotations

from fnmatch import fnmatch

MARKS = {
    ("python*", "regression", "True"): "d80: a new category ends the file",
    ("python*", "low rank", "True"): "d80: a new category ends the file",
    ("python*", "clusters", "True"): "d80: a new category ends the file",
    ("service *", "regression", "True"): "d80: a new category ends the file",
    ("service *", "low rank", "True"): "d80: a new category ends the file",
    ("service *", "clusters", "True"): "d80: a new category ends the file",
    ("service *", "wrapped LightGBM", "*"): "show fits the booster for its optimum, and its messages precede the JSON",
    ("command", "*", "*"): "d73: categories are those of the first night",
}


def reason(door, cell, kept):
    """Return why a combination is known to break, or None."""
    for patterns, why in MARKS.items():
        if all(fnmatch(str(each), pattern) for each, pattern in zip((door, cell, kept), patterns, strict=True)):
            return why
    return None
