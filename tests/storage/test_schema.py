"""What stored classes declare: types, constraints, shapes that agree, and messages that name what was found."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, get_type_hints

import numpy as np
import pytest

from batch2online import coresets, schema
from batch2online._types import FloatArray, IntArray
from batch2online.rows import Rows
from batch2online.schema import (
    Count,
    above,
    ascending,
    at_least,
    at_most,
    below,
    check_fields,
    check_instance,
    conforms,
    finite,
    mismatch,
    number,
    one_of,
    semidefinite,
    shape,
)


@dataclasses.dataclass(frozen=True)
class Thing:
    points: Annotated[FloatArray, shape("n", "d"), finite]
    weights: Annotated[FloatArray, shape("n"), finite, at_least(0)]
    mean: Annotated[FloatArray, shape("d")] | None = None
    counts: tuple[Count, ...] = ()

    def validate(self):
        if self.weights.sum() > 10:
            raise ValueError(f"weights: found a sum of {self.weights.sum()}, expected at most 10")


def thing(**changes):
    return Thing(**{"points": np.zeros((3, 2)), "weights": np.ones(3)} | changes)


def test_what_conforms_passes():
    check_instance(thing())
    check_instance(thing(mean=np.zeros(2), counts=(0, 3), points=np.zeros((0, 2)), weights=np.zeros(0)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": np.array([1.0, 2.0, -1.0])}, "Thing.weights: found -1.0 at 2, expected at least 0"),
        ({"weights": np.array([1.0, np.nan, 2.0])}, "Thing.weights: found nan at 1, expected a finite number"),
        ({"weights": np.ones(4)}, "Thing.weights: found shape (4,), expected (3)"),
        ({"weights": np.ones((3, 1))}, "Thing.weights: found shape (3, 1), expected (3)"),
        ({"points": np.full((3, 2), np.inf)}, "Thing.points: found inf at (0, 0), expected a finite number"),
        ({"points": np.zeros(3)}, "Thing.points: found shape (3,), expected (3, d)"),
        ({"points": np.zeros((3, 2), dtype=int)}, "Thing.points: found an array of int64, expected"),
        ({"points": None}, "Thing.points: found 'None', expected"),
        ({"mean": np.zeros(3)}, "Thing.mean: found shape (3,), expected (2)"),
        ({"counts": (1, -2)}, "Thing.counts: found -2, expected at least 0"),
        ({"counts": [1]}, "Thing.counts: found '[1]', expected tuple"),
        ({"counts": (True,)}, "Thing.counts: found 'True', expected int"),
        ({"weights": np.full(3, 5.0)}, "Thing: weights: found a sum of 15.0, expected at most 10"),
    ],
    ids=str,
)
def test_messages_name_what_was_found_and_where(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_instance(thing(**changes))


@pytest.mark.parametrize(
    ("constraint", "right", "wrong"),
    [
        (at_least(1), [1, 1.5, np.inf], [0.5, np.nan, -np.inf]),
        (at_most(1), [1, -np.inf], [1.5, np.nan]),
        (above(1), [2, np.inf], [1, np.nan]),
        (below(1), [0, -np.inf], [1, np.nan]),
        (finite, [0, -1e300, 10**39], [np.inf, -np.inf, np.nan]),
        (number, [0, np.inf], [np.nan]),
        (one_of("a", "b"), ["a", "b"], ["c", ""]),
    ],
)
def test_constraints_of_numbers(constraint, right, wrong):
    assert [constraint(value, {}) for value in right] == [None] * len(right)
    assert all(f"found {value!r}, expected" in constraint(value, {}) for value in wrong)


def test_ascending_values_do_not_overflow():
    ends = np.array([-(2**63), 2**63 - 1])
    assert ascending(ends, {}) is None
    assert ascending(ends[::-1], {}).startswith(f"found {-(2**63)} after {2**63 - 1} at 1")
    assert ascending(np.array([1.0, 1.0]), {}) is not None
    assert ascending(np.array([1.0, np.nan]), {}) is not None
    assert ascending(np.empty(0), {}) is None


@pytest.mark.parametrize(
    ("gram", "is_right"),
    [
        (np.zeros((0, 0)), True),
        (np.zeros((2, 2)), True),
        (np.array([[1e200, 0], [0, 1e-200]]), True),
        (np.array([[1.0, 1], [1, 1]]), True),
        (np.array([[1.0, 2], [2, 1]]), False),
        (np.array([[-1.0, 0], [0, 1]]), False),
        (np.array([[1.0, 0.5], [0, 1]]), False),
        (np.array([[1.0, 0.9, 0], [0.9, 1, 0.9], [0, 0.9, 1]]), False),
    ],
)
def test_gram_matrices_are_symmetric_without_negative_squares(gram, is_right):
    assert (semidefinite(gram, {}) is None) == is_right


def test_types_are_exact():
    assert not conforms(True, int)
    assert conforms(1, float)
    assert not conforms(1.0, int)
    assert conforms((1, "a"), tuple[int, str])
    assert not conforms((1,), tuple[int, str])
    assert not conforms(np.zeros(2, dtype=np.float32), FloatArray)
    assert mismatch("x", int | None, {}) == "found 'x', expected int"


def test_annotations_of_all_stored_classes_can_be_resolved():
    """A field whose annotation cannot be resolved would not be checked."""
    assert coresets
    found = [cls for cls in schema.classes.values() if dataclasses.is_dataclass(cls)]
    assert len(found) > 20
    for cls in found:
        if cls.__module__.startswith("batch2online."):
            assert get_type_hints(cls, localns=schema.classes, include_extras=True).keys() >= {
                field.name for field in dataclasses.fields(cls)
            }


def test_a_field_of_rows_is_checked_where_rows_are_read():
    rows = {"points": np.zeros((2, 1)), "targets": np.zeros((2, 0)), "weights": np.ones(2)}
    check_fields(Rows, rows | {"ids": np.array([3, 5])})
    for ids in (np.array([3]), np.array([-1, 5]), np.array([3, 2**63 - 1]), np.array([3.0, 5.0])):
        assert isinstance(ids, IntArray.__origin__)
        with pytest.raises(ValueError, match=r"Rows\.ids: found"):
            check_fields(Rows, rows | {"ids": ids})
