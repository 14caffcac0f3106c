"""What stored classes declare: types, shapes that agree, and messages that name what was found."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, get_type_hints

import numpy as np
import pytest

from batch2online import coresets, schema
from batch2online._types import FloatArray, IntArray
from batch2online.rows import Rows
from batch2online.schema import check_fields, check_instance, conforms, mismatch, shape


@dataclasses.dataclass(frozen=True)
class Thing:
    points: Annotated[FloatArray, shape("n", "d")]
    weights: Annotated[FloatArray, shape("n")]
    mean: Annotated[FloatArray, shape("d")] | None = None
    counts: tuple[int, ...] = ()


def thing(**changes):
    return Thing(**{"points": np.zeros((3, 2)), "weights": np.ones(3)} | changes)


def test_what_conforms_passes():
    check_instance(thing())
    check_instance(thing(mean=np.zeros(2), counts=(0, 3), points=np.zeros((0, 2)), weights=np.zeros(0)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": np.ones(4)}, "Thing.weights: found shape (4,), expected (3)"),
        ({"weights": np.ones((3, 1))}, "Thing.weights: found shape (3, 1), expected (3)"),
        ({"points": np.zeros(3)}, "Thing.points: found shape (3,), expected (3, d)"),
        ({"points": np.zeros((3, 2), dtype=int)}, "Thing.points: found an array of int64, expected"),
        ({"points": None}, "Thing.points: found 'None', expected"),
        ({"mean": np.zeros(3)}, "Thing.mean: found shape (3,), expected (2)"),
        ({"counts": [1]}, "Thing.counts: found '[1]', expected tuple"),
        ({"counts": (True,)}, "Thing.counts: found 'True', expected int"),
    ],
    ids=str,
)
def test_messages_name_what_was_found_and_where(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_instance(thing(**changes))


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
    for ids in (np.array([3]), np.array([3.0, 5.0])):
        assert isinstance(ids, IntArray.__origin__)
        with pytest.raises(ValueError, match=r"Rows\.ids: found"):
            check_fields(Rows, rows | {"ids": ids})
