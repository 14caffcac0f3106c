"""Declare settings of estimators: each field of a class of settings has a type, a default, bounds and a description.

A declaration gives the constructor, the docstring and the checks of an estimator, and tells the command line and the
service which values may be written. Nothing heavy is imported: ``batch2online run --help`` needs no NumPy.
"""

from __future__ import annotations

import csv
import inspect
import math
import os
import textwrap
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Setting:
    """A setting of an estimator.

    Parameters
    ----------
    brief : str
        One sentence, which is all that ``--help`` shows.
    more : str
        What the documentation of the estimator adds.
    values : str
        Describes its values where its type does not.
    ge, gt, le, lt : float, optional
        Bounds of its numbers.
    option : str or None
        Name on the command line and in requests; "" is the name of the setting, None hides it there.
    metavar : str
        What stands for a string in ``--help``.
    written : type, optional
        Its type there, if that of Python cannot be written.
    parse : callable, optional
        Returns the value in Python of one that was written.
    written_default : object
        Default there, if it differs.
    is_required : bool
        Whether it must be given there.
    largest_sent : int
        Largest integer that a request may send where there is no bound.
    needs : (str, object), optional
        Another setting, and the value that it must have for this one to matter; None is any value that was given.
    name, kind, default
        As its class declares them.
    """

    brief: str
    more: str = ""
    values: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    option: str | None = ""
    metavar: str = ""
    written: Any = None
    parse: Callable[[str], Any] | None = None
    written_default: Any = None
    is_required: bool = False
    largest_sent: int = 10**9
    needs: tuple[str, Any] | None = None
    name: str = ""
    kind: Any = None
    default: Any = None

    @property
    def bounds(self) -> dict[str, float]:
        """Bounds of its numbers, by the names that msgspec has for them."""
        return {name: bound for name in ("ge", "gt", "le", "lt") if (bound := getattr(self, name)) is not None}

    @property
    def written_parts(self) -> tuple[Any, ...]:
        """Types of the values that can be written; strings that are no choice are paths if the setting may be one."""
        parts = _parts(self.kind if self.written is None else self.written)
        return tuple(part for part in parts if (get_origin(part) or part) in (bool, int, float, str, tuple, Literal))

    @property
    def is_path(self) -> bool:
        """Whether its value may be the path of a folder: it is local, so no request may send it."""
        return any(get_origin(part) is os.PathLike for part in _parts(self.kind))

    @property
    def words(self) -> str:
        """Describe its values, such as ``between 0 and 1 or "auto"``."""
        return self.values or self._listed(_parts(self.kind), ["None"] if self.default is None else [])

    def _listed(self, parts: tuple[Any, ...], further: list[str]) -> str:
        listed = [word for part in parts for word in self._described(part)] + further
        return " or ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)

    def _described(self, part: Any) -> list[str]:
        """Describe its values of a type."""
        origin = get_origin(part) or part
        if origin is Literal:
            return [f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in get_args(part)]
        if origin not in (int, float):
            words = {bool: "True or False", str: "a string", os.PathLike: "the path of a folder", Mapping: "a mapping"}
            return [words.get(origin, "a value")]
        number = "an integer" if part is int else "a finite number"
        if None not in (self.gt, self.lt):
            return [f"between {_shown(self.gt)} and {_shown(self.lt)} (exclusive)"]
        if None not in (self.ge, self.le):
            return [f"{'an integer ' * (part is int)}between {_shown(self.ge)} and {_shown(self.le)}"]
        if part is int and self.bounds == {"ge": 1}:
            return ["a positive integer"]
        if self.bounds == {"ge": 0}:
            return [f"{number} that is not negative"]
        limits = {"of at least": self.ge, "above": self.gt, "up to": self.le, "below": self.lt}
        said = [f"{word} {_shown(bound)}" for word, bound in limits.items() if bound is not None]
        return [f"{number} {' and '.join(said)}".strip()]

    def allows(self, value: Any) -> bool:
        """Return whether the setting can have this value."""
        if value is None:
            return self.default is None or NoneType in get_args(self.kind)
        return any(self._allows(value, part) for part in _parts(self.kind))

    def _allows(self, value: Any, part: Any) -> bool:
        """Return whether a value is of a type, and within bounds if that is a number."""
        origin = get_origin(part) or part
        if origin in (Literal, bool):
            choices = get_args(part) or (True, False)
            is_right = origin is bool or not isinstance(value, bool)  # True equals 1
            return is_right and isinstance(value, Hashable) and value in choices
        if origin not in (int, float):
            return origin is Any or isinstance(value, origin)
        if isinstance(value, bool) or not isinstance(value, Integral if origin is int else Real):
            return False
        number, inf = float(value), math.inf
        is_above = number >= (-inf if self.ge is None else self.ge) and number > (-inf if self.gt is None else self.gt)
        is_below = number <= (inf if self.le is None else self.le) and number < (inf if self.lt is None else self.lt)
        return is_above and is_below

    def parsed(self, written: Any) -> Any:
        """Return what a word of the command line stands for, as a request would send it; other values stay."""
        if not isinstance(written, str):
            return written
        for part in self.written_parts:
            if get_origin(part) is tuple:
                return tuple(next(csv.reader([written], skipinitialspace=True))) if written else ()
            try:
                choices = {str(choice): choice for choice in get_args(part)}
                value = choices[written] if choices else part(written)
            except (ValueError, KeyError):
                continue
            if self._allows(value, part):
                return value
        raise ValueError(f"{self.option} must be {self.written_words(self.written_parts)}, got {written!r}.")

    def value(self, written: Any) -> Any:
        """Return the value in Python of what was written."""
        return written if self.parse is None or written is None else self.parse(written)

    def written_words(self, parts: tuple[Any, ...]) -> str:
        """Describe values of these of the types that can be written."""
        return self.values if self.values and self.written is None and not self.is_path else self._listed(parts, [])


def _shown(bound: Any) -> str:
    return f"{bound:,.0f}" if abs(bound) >= 10**6 else f"{bound:g}"


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union besides None."""
    is_union = get_origin(kind) in (Union, UnionType)
    return tuple(part for part in (get_args(kind) if is_union else (kind,)) if part is not NoneType)


def setting(brief: str, more: str = "", *, default: Any = MISSING, kw_only: bool = True, **further: Any) -> Any:
    """Declare a setting by its default and the parameters of :class:`Setting`."""
    return field(default=default, kw_only=kw_only, metadata={"setting": Setting(brief, more, **further)})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(setting,))
def declared(cls: Class) -> Class:
    """Give a class of settings the constructor that takes them."""
    return dataclass(eq=False, repr=False, match_args=False)(cls)  # type: ignore[return-value]


@cache
def settings_of(cls: Any) -> tuple[Setting, ...]:
    """Return the settings of a class, its own before those of its bases.

    An estimator with a constructor of its own has none.
    """
    made_by = next(base for base in cls.__mro__ if "__init__" in vars(base))
    if "__dataclass_fields__" not in vars(made_by):
        return ()
    kinds = get_type_hints(made_by)
    known = {each.name: each for each in fields(made_by) if "setting" in each.metadata}
    names = dict.fromkeys(name for base in made_by.__mro__ for name in inspect.get_annotations(base) if name in known)
    return tuple(_completed(known[name], kinds[name]) for name in names)


def _completed(declared_as: Any, kind: Any) -> Setting:
    """Return the setting of a field of a dataclass."""
    own: Setting = declared_as.metadata["setting"]
    option = declared_as.name if own.option == "" else own.option
    return replace(own, name=declared_as.name, kind=kind, default=declared_as.default, option=option)


def check(estimator: Any) -> None:
    """Raise ValueError for a setting of an estimator that is not as declared; called when it learns its first rows."""
    cls: Any = type(estimator)
    for each in settings_of(cls):
        value = getattr(estimator, each.name)
        if not each.allows(value):
            raise ValueError(f"{each.name} must be {each.words}, got {value!r}.")


def documented(cls: Any) -> str:
    """Return the docstring of an estimator with its parameters before its attributes, in the form of numpydoc."""
    text, found = inspect.cleandoc(cls.__doc__ or ""), settings_of(cls)
    if not found or "\nParameters\n" in text:
        return text
    lines = ["", "", "Parameters", "----------"]
    for each in found:
        has_default = each.default is not None and each.default is not MISSING
        lines.append(f"{each.name} : {each.words}{f', default {each.default!r}' if has_default else ''}")
        lines += textwrap.wrap(
            f"{each.brief} {each.more}".strip(),
            width=112,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    before, attributes, after = text.partition("\n\nAttributes\n")
    return before + "\n".join(lines) + attributes + after
