"""Estimators in files, fitted or not, without pickle: a table of plain data, boosters in texts of their own libraries.

Each object is one entry of the table, made of the entries before it. A file names the types of its objects; those of a
fitted model that are no public estimators and not known to be safe must be trusted by the caller. Compiled code
believes the numbers of a fitted model: an index that was forged reads anywhere in memory. So objects of compiled code
are made from plain data that is checked first, and so are the shapes of fitted estimators (see :mod:`model_checks`).

An estimator that is a parameter is its class and its own parameters, which are plain data, no path among them.
"""

from __future__ import annotations

import copy
import io
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from batch2online.estimator import Trusted
from batch2online.methods.any_estimator.compiled_parts import PACKINGS
from batch2online.methods.any_estimator.model_checks import UnusableError, check_fitted, require_sound
from batch2online.storage.tree import Array, CheckpointError, array_header

_MODULES = re.compile(r"sklearn(\.(?!tests|conftest|datasets|externals)[a-z]\w*)+|lightgbm\.sklearn|xgboost\.sklearn")
"""Public modules of estimators, which a file may have imported."""

_SAFE = re.compile(
    r"builtins\.(bool|dict|float|int|object|str)|collections\.(OrderedDict|defaultdict)|lightgbm\.compat\._LGBMLabelEncoder"
    r"|sklearn\._loss\.(link|loss)\.\w+|sklearn\.calibration\._(CalibratedClassifier|SigmoidCalibration)"
    r"|sklearn\.ensemble\._hist_gradient_boosting\.binning\._BinMapper|sklearn\.utils\._bunch\.Bunch"
    r"|sklearn\.neural_network\._stochastic_optimizers\.(Adam|SGD)Optimizer|sklearn\.multiclass\._ConstantPredictor"
)
"""Types that hold plain data, beside public estimators."""

_SEQUENCES: dict[str, Any] = {each.__name__: each for each in (list, tuple, set, frozenset)}
_RANDOM = {each.__name__: each for each in (np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64)}
_MOST_VISITS = 10

_PARAMETER_KINDS = {*_SEQUENCES, "mapping", "named", "slice", "unfitted", "value"}
"""Entries of parameters: plain data, and estimators of these."""

_PATTERNS = ("token_pattern",)
"""Parameters that may resemble paths."""

Entries = list[tuple[str, Any]]
"""The kind of each object, and its content."""

Stored = tuple[str, list[Array]]
"""The entries of a model as JSON, and its arrays."""


class UnnameableError(ValueError):
    """A file names what is no estimator, or what is not there."""


def check_trusted(trusted: Trusted) -> None:
    """Raise TypeError unless this is None, True, or a list of names."""
    is_list = isinstance(trusted, list | tuple | set) and all(isinstance(name, str) for name in trusted)
    if not (is_list or trusted is None or isinstance(trusted, bool)):
        raise TypeError(f"trusted must be None, True or a list of the names of types, got {trusted!r}.")


# -- fitted models ----------------------------------------------------------------------------------------------


def stored_model(model: Any) -> Stored | None:
    """Return what a file holds of a fitted model; None if it has parts that no file can hold."""
    with suppress(Exception):  # the rows are stored as well, and saving warns
        writer = _Writer()
        writer.reference(_without_caches(model))
        return json.dumps(writer.entries), writer.arrays
    return None


def model_of(stored: Any, trusted: Trusted) -> Any:
    """Return the fitted model that a file holds; :class:`UnusableError` unless it is sound, and safe or trusted."""
    if stored is None:
        raise UnusableError("it has parts that no file can hold.")
    try:
        text, arrays = stored
        entries = _checked_entries(text)
        missing = [name for name in _types_beside(entries) if trusted is not True and name not in (trusted or ())]
        if missing:
            names = ", ".join(f'"{name}"' for name in missing)
            raise UnusableError(f"it holds {', '.join(missing)}; if you trust the file, add trusted=[{names}].")
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            model = _Reader(arrays).read(entries)
            for part in _parts(model):
                check_fitted(part)
    except UnusableError:
        raise
    except (Exception, InconsistentVersionWarning) as error:
        raise UnusableError(f"the fitted model cannot be read: {error}") from error
    return model


def _without_caches(model: Any) -> Any:
    """Return a model whose pipelines name no folder of cached results."""
    params = model.get_params() if hasattr(model, "get_params") else {}
    memories = [name for name, value in params.items() if name.split("__")[-1] == "memory" and value is not None]
    return copy.deepcopy(model).set_params(**dict.fromkeys(memories)) if memories else model


# -- parameters -------------------------------------------------------------------------------------------------


def stored_parameter(value: Any) -> str | None:
    """Return what a file holds of a parameter, as JSON: plain data, or an estimator of such; None for all else."""
    writer = _ParameterWriter()
    try:
        value = writer.reference(value)
    except (TypeError, UnnameableError, CheckpointError):
        return None
    return json.dumps([*writer.entries, ("value", value)])


def parameter_of(text: str, name: str) -> Any:
    """Return the parameter of this name that a file holds; :class:`CheckpointError` if there is none."""
    try:
        entries = _checked_entries(text)
        if {kind for kind, _ in entries} - _PARAMETER_KINDS or _types_beside(entries):
            raise UnnameableError("it is no parameter.")
        return _Reader([]).read(entries)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{name}: {error}") from error


def _unfitted(name: str, params: dict[str, Any]) -> BaseEstimator:
    """Return an estimator with these parameters, which name no files."""
    kind = estimator_class(name)
    for key, value in params.items():
        _check_no_path(kind, key, value)
    try:
        estimator = kind(**params)
    except TypeError as error:
        raise CheckpointError(f"this version of scikit-learn has other parameters of {kind.__name__}.") from error
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()  # what fit would refuse, perhaps much later
    return estimator


def _check_no_path(kind: type, name: str, value: Any) -> None:
    """Raise :class:`CheckpointError` for a parameter that is a path, or resembles one, or makes paths of rows."""
    if name == "memory" and value is not None:
        raise CheckpointError(f"the memory of {kind.__name__} is a path, and no file may name one.")
    if name == "input" and value in ("filename", "file"):
        raise CheckpointError(
            f"{kind.__name__} with input={value!r} reads the files that its rows name, and no file may name one: use "
            "BatchToOnline.restore(path, estimator=...)."
        )
    if isinstance(value, str) and name not in _PATTERNS and any(mark in value for mark in "/\\~"):
        raise CheckpointError(f"{name} of {kind.__name__} is the path {value[:40]!r}, and no file may name one.")


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


def _name_of(kind: Any) -> str:
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


def _types_beside(entries: Entries) -> list[str]:
    """Return the types and functions in a file that are not known to be safe."""
    names = {content[0] for kind, content in entries if kind in ("object", "mapping", "named")}
    return sorted(name for name in names if not _is_safe(name))


def _found(name: str) -> Any:
    """Return the type or function of a name that is safe or trusted."""
    with suppress(UnnameableError):
        return estimator_class(name)
    module, _, own_name = name.rpartition(".")
    return getattr(import_module(module), own_name)


# -- writing ----------------------------------------------------------------------------------------------------


class _Writer:
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
        name, every = _name_of(type(value)), self.reference
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
            return "named", [_name_of(value)]
        if (plain := self.plain_entry(value)) is not None:
            return plain
        has_own = any("__getstate__" in vars(kind) for kind in type(value).__mro__[:-1])
        if not (has_own or hasattr(value, "__dict__")):
            raise TypeError(f"no file can hold a {name}")
        return "object", [name, every(value.__getstate__())]

    def plain_entry(self, value: Any) -> tuple[str, Any] | None:
        """Return kind and content of a collection, slice, type or NumPy function; None for all else."""
        every = self.reference
        if type(value) in _SEQUENCES.values():
            return type(value).__name__, [every(item) for item in value]
        if isinstance(value, dict):
            return "mapping", [_name_of(type(value)), [[every(key), every(item)] for key, item in value.items()]]
        if isinstance(value, slice):
            return "slice", [every(value.start), every(value.stop), every(value.step)]
        if isinstance(value, type | np.ufunc):
            return "named", [_name_of(value)]
        return None

    def _array(self, array: Any) -> tuple[str, Any]:
        if array.dtype == object:
            return "objects", [list(array.shape), [self.reference(item) for item in array.ravel()]]
        content = io.BytesIO()
        np.lib.format.write_array(content, np.asarray(array), allow_pickle=False)
        self.arrays.append(np.frombuffer(content.getvalue(), dtype=np.uint8))
        return "array" if isinstance(array, np.ndarray) else "scalar", len(self.arrays) - 1


class _ParameterWriter(_Writer):
    """The table of a parameter. Estimators in it are their classes and parameters, whether they are fitted or not."""

    def reference(self, value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or type(value) in (bool, int, float, str):
            return value
        self.entries.append(self.entry(value))
        return {"at": len(self.entries) - 1}

    def entry(self, value: Any) -> tuple[str, Any]:
        if not isinstance(value, BaseEstimator):
            plain = self.plain_entry(value)
            if plain is None:
                raise TypeError(f"no file can hold a {_name_of(type(value))}")
            return plain
        kind, params = type(value), value.get_params(deep=False)
        if params.get("memory") is not None:
            warnings.warn(f"memory of {kind.__name__} is left out: a file holds no paths.", UserWarning, 2)
            params["memory"] = None
        for name, item in params.items():
            _check_no_path(kind, name, item)
        estimator_class(_name_of(kind))
        return "unfitted", [_name_of(kind), [[name, self.reference(item)] for name, item in params.items()]]


# -- reading ----------------------------------------------------------------------------------------------------


def _checked_entries(text: str) -> Entries:
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


class _Reader:
    """The objects of the entries so far."""

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays = arrays
        self.made: list[object] = []

    def read(self, entries: Entries) -> Any:
        """Return the object of the last entry."""
        for kind, content in entries:
            self.made.append(self._object(kind, content))
        return self.made[-1]

    def value(self, stored: Any) -> Any:
        """Return a plain value, or the object at a place."""
        return self.made[stored["at"]] if isinstance(stored, dict) else stored

    def _object(self, kind: str, content: Any) -> object:
        match kind:
            case "value":
                return self.value(content)
            case "array":
                return self._array(content)
            case "scalar":
                return self._array(content)[()]
            case "list" | "tuple" | "set" | "frozenset":
                return _SEQUENCES[kind](map(self.value, content))
            case "objects":
                array = np.empty(len(content[1]), dtype=object)
                for at, item in enumerate(content[1]):
                    array[at] = self.value(item)
                return array.reshape(content[0])
            case "mapping":
                return _mapping(content[0], [(self.value(key), self.value(item)) for key, item in content[1]])
            case "object":
                return _instance(content[0], self.value(content[1]))
            case "unfitted":
                return _unfitted(content[0], {name: self.value(item) for name, item in content[1]})
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
    return instance


def _generator(state: Any, kind: str) -> object:
    if kind == "RandomState":
        found = np.random.RandomState()
        found.set_state(state)
        return found
    bits = _RANDOM[state["bit_generator"]]()
    bits.state = state
    return np.random.Generator(bits)


def _parts(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Iterate over the parts of a model, those inside before those outside, but for plain values."""
    seen = set() if seen is None else seen
    if id(value) in seen or value is None or isinstance(value, str | bytes | int | float | type):
        return
    seen.add(id(value))
    children: Iterable[Any] = ()
    if isinstance(value, np.ndarray):
        children = value.ravel() if value.dtype == object else ()
    elif isinstance(value, dict):
        children = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        children = value
    elif hasattr(value, "__dict__") and _name_of(type(value)) not in PACKINGS:
        children = vars(value).values()
    for child in children:
        yield from _parts(child, seen)
    yield value
