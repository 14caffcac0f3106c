"""A net over printed numbers: each one in an object, a JSON document or a sentence is expected, or a complaint."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Real

import numpy as np


@dataclass
class Between:
    """Any number from low to high, for what depends on a random draw or a bisection."""

    low: float
    high: float


@dataclass
class Near:
    """A number up to a relative error, where both sides iterate."""

    value: float
    rel: float = 1e-4


ANY = Between(-math.inf, math.inf)


def flat(value, path=""):
    """Return all leaves of nested dictionaries, sequences and arrays by their path."""
    if isinstance(value, dict):
        return {key: leaf for name, each in value.items() for key, leaf in flat(each, f"{path}.{name}").items()}
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return {key: leaf for i, each in enumerate(value) for key, leaf in flat(each, f"{path}[{i}]").items()}
    return {path.lstrip("."): value}


def agrees(found, expected, slack=0.0):
    """Return whether a number is the expected one, up to the given error of printing."""
    if isinstance(expected, Between):
        return expected.low - slack - 1e-9 <= found <= expected.high + slack + 1e-9
    rel = expected.rel if isinstance(expected, Near) else 1e-7
    expected = expected.value if isinstance(expected, Near) else expected
    if expected is None or isinstance(expected, str):
        return found == expected
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return abs(found - expected) <= slack + rel * abs(expected) + 1e-9


def complaints(printed, expected, ignored=""):
    """Return what is wrong, unexpected or absent among the numbers of a document, not those in its strings."""
    printed, expected, out = flat(printed), flat(expected), []
    for path, value in printed.items():
        if ignored and re.fullmatch(ignored, path):
            continue
        if isinstance(value, Real) and not isinstance(value, bool):
            if path not in expected:
                out.append(f"{path} = {value} is printed, but nobody recomputes it")
            elif not agrees(value, expected[path]):
                out.append(f"{path} = {value}, recomputed {expected[path]}")
        elif value is None and path in expected and not agrees(math.nan, expected[path]):
            out.append(f"{path} is empty, recomputed {expected[path]}")
    absent = [path for path, value in expected.items() if path not in printed and value is not None]
    return out + [f"{path} is not printed, recomputed {expected[path]}" for path in absent]


NUMBER = r"-?[\d,]*\.?\d+(?:e[-+]?\d+)?"
CONSTANTS = (0, 1, 3, 0.001, 0.95, 1000)  # of the sentences: limits, the level of an interval


def numbers(text):
    """Yield the numbers of a text with half a unit of their last printed digit, and whether they are in percent."""
    for match in re.finditer(rf"(?<![\w.])({NUMBER})(?![\w.]*\d)( ?%)?", text):
        plain = match[1].replace(",", "")
        decimals = len(plain.partition("e")[0].partition(".")[2])
        slack = 0.501 * 10.0 ** (int(plain.partition("e")[2] or 0) - decimals)
        slack = max(slack, 0.501 * 10.0 ** (len(plain) - 4)) if plain.isdigit() and len(plain) > 4 else slack
        yield float(plain), slack, match[2] is not None


def differ(text, *expected):
    """Return the complaint about a text whose numbers are not these, in this order."""
    found = list(numbers(text))
    same = len(found) == len(expected) and all(
        agrees(value, each, slack) for (value, slack, _), each in zip(found, expected, strict=True)
    )
    return [] if same else [f"{text!r}, recomputed {expected}"]


class Known:
    """The numbers that sentences, cells and points may show: those of documents, which are recomputed, and others.

    A share may be shown in percent, as its complement or as a multiple, and a change without its sign. ``ranges`` are
    of random draws, ``shares`` those of numbers in percent.
    """

    def __init__(self, *documents, ranges=(), shares=()):
        leaves = [value for each in documents for value in flat(each).values()]
        bounds = [
            (each.low, each.high) if isinstance(each, Between) else (value, value)
            for each in leaves
            for value in [each.value if isinstance(each, Near) else each]
            if isinstance(each, Between) or (isinstance(value, Real) and not isinstance(value, bool))
        ]
        found = np.array([*bounds, *((each, each) for each in CONSTANTS)], dtype=float)
        found = found[np.isfinite(found).all(axis=1)]
        found = np.vstack([found, -found[:, ::-1], 1 - found[:, ::-1], 1 + found])
        self.numbers = np.vstack([found, _bounds(ranges)]) + np.array([-1e-9, 1e-9])
        self.percent = 100 * np.vstack([self.numbers, _bounds(shares), -_bounds(shares)[:, ::-1]])

    def has(self, value, slack, is_percent=False):
        """Return whether a number is one of them, up to the given error of printing."""
        low, high = (self.percent if is_percent else self.numbers).T
        room = slack + 1e-7 * abs(value)
        return bool(((low <= value + room) & (value - room <= high)).any())

    def strangers(self, text):
        """Return the numbers of a text that are none of them, up to their last printed digit."""
        found = [value for value, slack, is_percent in numbers(text) if not self.has(value, slack, is_percent)]
        return [f"nobody recomputes {value} in {' '.join(text.split())!r}" for value in found]


def _bounds(ranges):
    return np.array([(each.low, each.high) for each in ranges]).reshape(-1, 2)
