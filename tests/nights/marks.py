"""What is known to break, by table, door, cell and whether rows are kept; the first line that fits."""

from __future__ import annotations

from fnmatch import fnmatch

MARKS = {
    ("*", "python open", "*", "*"): "d62: a file opens only where its estimator was imported before",
    ("*", "python", "wrapped Ridge", "*"): "d76: the second night needs trust",
    ("*", "python", "wrapped LogisticRegression", "*"): "d76: the second night needs trust",
    ("*", "service *", "wrapped LightGBM", "*"): "d82: show refits the booster, whose messages precede the JSON",
    ("*", "command", "*", "*"): "d73: categories are those of the first night",
}


def reason(table, door, cell, kept):
    """Return why a combination is known to break, or None."""
    for patterns, why in MARKS.items():
        if all(fnmatch(str(each), pattern) for each, pattern in zip((table, door, cell, kept), patterns, strict=True)):
            return why
    return None
