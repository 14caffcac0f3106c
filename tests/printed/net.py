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


def complaints(printed, expected, phrases=None, ignored=""):
    """Return what is wrong, unexpected or absent among the numbers of a document.

    ``phrases`` maps a pattern of the beginning of a place to the phrases of sentences there, see ``words``.
    """
    printed, expected, out = flat(printed), flat(expected), []
    for path, value in printed.items():
        if ignored and re.fullmatch(ignored, path):
            continue
        if isinstance(value, str):
            known = [facts for place, facts in (phrases or {}).items() if re.match(rf"(?:{place})(?!\d)", path)]
            out += [f"{path}: {each}" for each in words(value, {k: v for facts in known for k, v in facts.items()})]
        elif isinstance(value, Real) and not isinstance(value, bool):
            if path not in expected:
                out.append(f"{path} = {value} is printed, but nobody recomputes it")
            elif not agrees(value, expected[path]):
                out.append(f"{path} = {value}, recomputed {expected[path]}")
        elif value is None and path in expected and not agrees(math.nan, expected[path]):
            out.append(f"{path} is empty, recomputed {expected[path]}")
    absent = [path for path, value in expected.items() if path not in printed and value is not None]
    return out + [f"{path} is not printed, recomputed {expected[path]}" for path in absent]


NUMBER = r"-?[\d,]*\.?\d+(?:e[-+]?\d+)?"


def words(text, facts):
    """Return the numbers of a text that are wrong or unexpected.

    ``facts`` maps a phrase to its numbers: ``#`` is a number with fixed decimals, ``~`` one of four significant digits.
    Longer phrases come first, and what a phrase matches is done with.
    """
    text, out = " ".join(text.split()), []
    for phrase, values in sorted(facts.items(), key=lambda each: -len(each[0])):
        regex = re.escape(phrase).replace(r"\#", f"({NUMBER})").replace(r"\~", f"({NUMBER})")
        regex = rf"(?<![\w.]){regex}(?![\w.]*\d)"
        for match in re.finditer(regex, text):
            for mark, number, value in zip(re.findall("[#~]", phrase), match.groups(), values, strict=True):
                plain = number.replace(",", "")
                if not agrees(float(plain), value, _slack(plain, mark)):
                    out.append(f"{match[0]!r}: {number}, recomputed {value}")
        text = re.sub(regex, "", text)
    return out + [f"nobody recomputes the number in {each.strip()!r}" for each in re.findall(r"[^;]*\d[^;]*", text)]


def _slack(number, mark):
    """Return half a unit of the last digit printed; ``~`` drops trailing zeros."""
    decimals = len(number.partition("e")[0].partition(".")[2])
    if mark == "~" and (digits := number.replace(".", "").lstrip("-0")) and float(number):
        decimals += max(0, 4 - len(digits))
    return 0.501 * 10.0**-decimals * 10.0 ** int(number.partition("e")[2] or 0)
