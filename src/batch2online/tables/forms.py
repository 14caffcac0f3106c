"""Forms: how a column was written in its container."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from batch2online.schema import storable
from batch2online.tables.columns import KINDS, STRING, TIME, ZONED, is_missing

CATEGORICAL = ("category", "Categorical", "Enum")
"""Forms of columns of categories."""

_ZONE = r"[A-Za-z0-9_+\-/:]{1,64}"
_PANDAS_FORMS = re.compile(
    r"u?int(8|16|32|64)|U?Int(8|16|32|64)|float(16|32|64)|Float(32|64)|bool|boolean|object( bool| date)?|str|string"
    rf"|category|(datetime|timedelta)64\[(s|ms|us|ns)\]|datetime64\[(s|ms|us|ns), {_ZONE}\]"
)
_ARROW_FORMS = re.compile(  # and those of polars
    r"u?int(8|16|32|64)|halffloat|float|double|bool|null|(large_)?string(_view)?|date(32|64)\[(day|ms)\]|category"
    rf"|duration\[(s|ms|us|ns)\]|timestamp\[(s|ms|us|ns)(, tz={_ZONE})?\]|[A-Z][A-Za-z0-9]*"
)


@storable
@dataclass(frozen=True)
class Form:
    """The kind of a column, the name of its type in the container, and the names of ordered categories."""

    name: str | int | None
    kind: str
    form: str
    categories: tuple[str, ...] = ()

    def validate(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: found {self.kind[:40]!r}, expected a kind of column")
        if not (_PANDAS_FORMS.fullmatch(self.form) or _ARROW_FORMS.fullmatch(self.form)):
            raise ValueError(f"form: found {self.form[:40]!r}, expected a type of pandas, polars or Arrow")
        if self.kind == TIME and "," in self.form:
            raise ValueError(f"kind: found a time without a zone in the form {self.form}")
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("categories: found one of them twice")


def form_of(values: Any, kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of the type of a column in its container, and the names of ordered categories."""
    module = type(values).__module__.partition(".")[0]
    if module == "pandas":
        dtype = values.dtype
        if type(dtype).__name__ == "CategoricalDtype":
            return "category", tuple(map(str, dtype.categories)) if dtype.ordered and kind == STRING else ()
        if kind == ZONED and dtype.kind == "M" and not _PANDAS_FORMS.fullmatch(str(dtype)):
            return f"datetime64[{dtype.unit}, UTC]", ()  # its zone has no name
        is_string = type(dtype).__name__ == "StringDtype"
        return "string" if is_string else str(dtype) if dtype.kind != "O" else _form_of_objects(values), ()
    if module == "polars":
        dtype, name = values.dtype, values.dtype.base_type().__name__
        categories = tuple(dtype.categories.to_list()) if name == "Enum" else ()
        return str(values.to_arrow().type) if dtype.is_temporal() else name, categories
    if module == "pyarrow":
        import pyarrow as pa

        if not pa.types.is_dictionary(values.type):
            return str(values.type), ()
        chunks = values.unify_dictionaries().chunks if isinstance(values, pa.ChunkedArray) else [values]
        is_listed = values.type.ordered and kind == STRING and chunks
        return "category", tuple(map(str, chunks[0].dictionary.to_pylist())) if is_listed else ()
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return "float64", ()
    return _form_of_objects(values), ()


def _form_of_objects(values: Any) -> str:
    first = next((value for value in values if not is_missing(value)), None)
    if isinstance(first, bool | np.bool_):
        return "object bool"
    return "object date" if isinstance(first, dt.date) and not isinstance(first, dt.datetime) else "object"
