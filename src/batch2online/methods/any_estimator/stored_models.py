"""Fitted models in files: a table of plain data, boosters in texts of their own libraries.

Types that are no public estimators and not known to be safe must be trusted by the caller. Compiled code believes the
numbers of a fitted model: an index that was forged reads anywhere in memory. So objects of compiled code are made from
plain data that is checked first, and so are the shapes of fitted estimators (see :mod:`model_checks`).
"""

from __future__ import annotations

import copy
import json
import warnings
from contextlib import suppress
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from batch2online.estimator import Trusted
from batch2online.methods.any_estimator.model_checks import UnusableError
from batch2online.methods.any_estimator.object_table import EntryReader, Writer, checked_entries, types_beside
from batch2online.storage.tree import Array

Stored = tuple[str, list[Array]]
"""The entries of a model as JSON, and its arrays."""


def check_trusted(trusted: Trusted) -> None:
    """Raise TypeError unless this is None, True, or a list of names."""
    is_list = isinstance(trusted, list | tuple | set) and all(isinstance(name, str) for name in trusted)
    if not (is_list or trusted is None or isinstance(trusted, bool)):
        raise TypeError(f"trusted must be None, True or a list of the names of types, got {trusted!r}.")


def stored_model(model: Any) -> Stored | None:
    """Return what a file holds of a fitted model; None if it has parts that no file can hold."""
    with suppress(Exception):  # the rows are stored as well, and saving warns
        writer = Writer()
        writer.reference(_without_caches(model))
        return json.dumps(writer.entries), writer.arrays
    return None


def model_of(stored: Any, trusted: Trusted) -> Any:
    """Return the fitted model that a file holds; :class:`UnusableError` unless it is sound, and safe or trusted."""
    if stored is None:
        raise UnusableError("it has parts that no file can hold.")
    try:
        text, arrays = stored
        entries = checked_entries(text)
        missing = [name for name in types_beside(entries) if trusted is not True and name not in (trusted or ())]
        if missing:
            names = ", ".join(f'"{name}"' for name in missing)
            raise UnusableError(f"it holds {', '.join(missing)}; if you trust the file, add trusted=[{names}].")
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            model = EntryReader(arrays).read(entries)
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
