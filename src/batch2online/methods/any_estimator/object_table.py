"""Objects as a table of plain data and arrays, and back, without pickle.

Each object is one entry, made of the entries before it: its kind and its content, in which other entries are named by
their places. A table names the types of its objects; which of them are made is for the caller to decide.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from batch2online.methods.any_estimator.compiled_parts import PACKINGS
from batch2online.methods.any_estimator.model_checks import UnusableError, check_fitted, require_sound
from batch2online.storage.tree import Array, array_header

_MODULES = re.compile(r"sklearn(\.(?!tests|conftest|datasets|externals)[a-z]\w*)+|lightgbm\.sklearn|xgboost\.sklearn")
"""Public modules of estimators, which a file may have imported."""

_SAFE = re.compile(
    r"builtins\.(bool|dict|float|int|object|str)|collections\.(OrderedDict|defaultdict)|lightgbm\.compat\._LGBMLabelEncoder"
    r"|sklearn\._loss\.(link|loss)\.\w+|sklearn\.calibration\._(CalibratedClassifier|SigmoidCalibration)"
    r"|sklearn\.ensemble\._hist_gradient_boosting\.binning\._BinMapper|sklearn\.utils\._bunch\.Bunch"
    r"|sklearn\.neural_network\._stochastic_optimizers\.(Adam|SGD)Optimizer|sklearn\.multiclass\._ConstantPredictor"
)
"""Types that hold plain data, beside public estimators."""

SEQUENCES: dict[str, Any] = {each.__name__: each for each in (list, tuple, set, frozenset)}
_RANDOM = {each.__name__: each for each in (np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64)}
_MOST_VISITS = 10

Entries = list[tuple[str, Any]]
"""The kind of each object, and its content."""


class UnnameableError(ValueError):
    """A file names what is no estimator, or what is not there."""


# -- types ------------------------------------------------------------------------------------------------------


def estimator_class(name: str) -> type[BaseEstimator]:
    """Return an estimator by its name, from where it can be imported in any version: without private modules."""
    module, _, own_name = name.rpartition(".")
    public = module.partition("._")[0]
    if not _MODULES.fullmatch(public) or not own_name.isidentifier():
        raise UnnameableError(f"a checkpoint cannot name {name}.")
    try:
        found = getattr(import_module(public), own_name)
    except (ImportError, AttributeError) as error:
        raise UnnameableError(f"{public.split('.')[0]} as it is installed has no {name}.") from error
    if not (isinstance(found, type) and issubclass(found, BaseEstimator)):
        raise UnnameableError(f"{name} is no estimator.")
    return found


def is_public(kind: type) -> bool:
    """Return whether a type is an estimator that a file may name."""
    with suppress(UnnameableError):
        return estimator_class(name_of(kind)) is kind
    return False


def name_of(kind: Any) -> str:
    """Return the full name of a type or function."""
    is_of_numpy = isinstance(kind, type | np.ufunc) and getattr(np, kind.__name__, None) is kind
    return f"numpy.{kind.__name__}" if is_of_numpy else f"{kind.__module__}.{kind.__qualname__}"


def _is_safe(name: str) -> bool:
    module, _, own_name = name.rpartition(".")
    if module == "numpy":
        found = getattr(np, own_name, None)
        return isinstance(found, np.ufunc) or (isinstance(found, type) and issubclass(found, np.generic))
    try:
        return _SAFE.fullmatch(name) is not None or estimator_class(name) is not None
    except UnnameableError:
        return False


def types_beside(entries: Entries) -> list[str]:
    """Return the types and functions in a file that are not known to be safe."""
    names = {content[0] for kind, content in entries if kind in ("object", "mapping", "named")}
    return sorted(name for name in names if not _is_safe(name))


def _found(name: str) -> Any:
    """Return the type or function of a name that is safe or trusted."""
    with suppress(UnnameableError):
        return estimator_class(name)
    module, _, own_name = name.rpartition(".")
    return getattr(import_module(module), own_name)


# -- writing -------------------------------------------------------------------------------------------------------


class Writer:
    """The table of a model: an entry is its kind and its content, in which other entries are named by their places."""

    def __init__(self) -> None:
        self.entries: Entries = []
        self.arrays: list[Array] = []
        self.places: dict[int, tuple[int, Any]] = {}
        """The place of each object by its id, and the object itself, so that no id is used again."""

    def reference(self, value: Any) -> Any:
        """Return a plain value as it is, or the place of an object, which is written first."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) not in self.places:
            entry = self.entry(value)
            self.places[id(value)] = len(self.entries), value
            self.entries.append(entry)
        return {"at": self.places[id(value)][0]}

    def entry(self, value: Any) -> tuple[str, Any]:
        """Return kind and content of an object."""
        name, every = name_of(type(value)), self.reference
        if name in PACKINGS:
            return "packed", [name, every(PACKINGS[name].pack(value))]
        if type(value) is np.ndarray or isinstance(value, np.generic):
            return self._array(value)
        if isinstance(value, np.dtype):
            return "dtype", value.str
        if isinstance(value, np.random.RandomState):
            return "RandomState", every(value.get_state(legacy=False))
        if isinstance(value, np.random.Generator):
            return "Generator", every(value.bit_generator.state)
        if isinstance(value, FunctionType | BuiltinFunctionType):
            return "named", [name_of(value)]
        if (plain := self.plain_entry(value)) is not None:
            return plain
        has_own = any("__getstate__" in vars(kind) for kind in type(value).__mro__[:-1])
        if not (has_own or hasattr(value, "__dict__")):
            raise TypeError(f"no file can hold a {name}")
        return "object", [name, every(value.__getstate__())]

    def plain_entry(self, value: Any) -> tuple[str, Any] | None:
        """Return kind and content of a collection, slice, type or NumPy function; None for all else."""
        every = self.reference
        if type(value) in SEQUENCES.values():
            return type(value).__name__, [every(item) for item in value]
        if isinstance(value, dict):
            return "mapping", [name_of(type(value)), [[every(key), every(item)] for key, item in value.items()]]
        if isinstance(value, slice):
            return "slice", [every(value.start), every(value.stop), every(value.step)]
        if isinstance(value, type | np.ufunc):
            return "named", [name_of(value)]
        return None

    def _array(self, array: Any) -> tuple[str, Any]:
        if array.dtype == object:
            return "objects", [list(array.shape), [self.reference(item) for item in array.ravel()]]
        content = io.BytesIO()
        np.lib.format.write_array(content, np.asarray(array), allow_pickle=False)
        self.arrays.append(np.frombuffer(content.getvalue(), dtype=np.uint8))
        return "array" if isinstance(array, np.ndarray) else "scalar", len(self.arrays) - 1


# -- reading ----------------------------------------------------------------------------------------------------


def checked_entries(text: str) -> Entries:
    """Return the entries in JSON; each names those before it, and few so often that a copy would be huge."""
    entries: Entries = json.loads(text)
    sizes: list[int] = []
    for _, content in entries:
        places = list(_places_in(content))
        require_sound(all(type(at) is int and 0 <= at < len(sizes) for at in places), "a part of it is not there.")
        sizes.append(1 + sum(sizes[at] for at in places))
        require_sound(sizes[-1] <= _MOST_VISITS * len(entries), "its parts refer to each other too often.")
    return entries


def _places_in(content: Any) -> Iterator[Any]:
    if isinstance(content, dict):
        yield content["at"]
    elif isinstance(content, list):
        for item in content:
            yield from _places_in(item)


class EntryReader:
    """The objects of the entries so far."""

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays = arrays
        self.made: list[object] = []

    def read(self, entries: Entries) -> Any:
        """Return the object of the last entry."""
        for kind, content in entries:
            self.made.append(self.made_of(kind, content))
        return self.made[-1]

    def value(self, stored: Any) -> Any:
        """Return a plain value, or the object at a place."""
        return self.made[stored["at"]] if isinstance(stored, dict) else stored

    def made_of(self, kind: str, content: Any) -> object:
        """Return the object of an entry."""
        match kind:
            case "array":
                return self._array(content)
            case "scalar":
                return self._array(content)[()]
            case "list" | "tuple" | "set" | "frozenset":
                return SEQUENCES[kind](map(self.value, content))
            case "objects":
                array = np.empty(len(content[1]), dtype=object)
                for at, item in enumerate(content[1]):
                    array[at] = self.value(item)
                return array.reshape(content[0])
            case "mapping":
                return _mapping(content[0], [(self.value(key), self.value(item)) for key, item in content[1]])
            case "object":
                return _instance(content[0], self.value(content[1]))
            case "packed":
                return PACKINGS[content[0]].unpack(self.value(content[1]))
            case "named":
                return _found(content[0])
            case "slice":
                return slice(*map(self.value, content))
            case "dtype":
                return np.dtype(content)
            case "RandomState" | "Generator":
                return _generator(self.value(content), kind)
        raise UnusableError(f"a part of it is of the unknown kind {kind!r}.")

    def _array(self, place: int) -> Array:
        content = self.arrays[place].tobytes()
        array_header(content)
        found: Array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        return found


def _mapping(name: str, pairs: list[tuple[object, object]]) -> object:
    kind = _found(name)
    require_sound(issubclass(kind, dict), f"{name} is no mapping.")
    found = kind()
    found.update(pairs)
    return found


def _instance(name: str, state: Any) -> object:
    kind = _found(name)
    instance = kind.__new__(kind)
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
    elif state is not None:
        vars(instance).update(state)
    check_fitted(instance)
    return instance


def _generator(state: Any, kind: str) -> object:
    if kind == "RandomState":
        found = np.random.RandomState()
        found.set_state(state)
        return found
    bits = _RANDOM[state["bit_generator"]]()
    bits.state = state
    return np.random.Generator(bits)
