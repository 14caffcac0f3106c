"""Online estimators whose targets are labels, encoded as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from batch2online import labels
from batch2online._types import FloatArray
from batch2online.estimator import OnlineEstimator
from batch2online.input import flattened, target_array
from batch2online.schema import conforms, require
from batch2online.stream import Given, Stream

_FEW = 32
"""Labels up to which rows are compared with each of them."""


class Labelled(OnlineEstimator):
    """Base of online estimators whose targets may be labels; the problem holds the labels by their codes."""

    _has_labels = True

    @property
    def _labels(self) -> labels.Labels:
        """Labels of a classifier by their codes; empty for all other estimators."""
        if not self.__sklearn_is_fitted__():
            return {}
        problem: Any = self._stream.problem
        known: labels.Labels = problem.labels
        return known

    def _is_ready_for(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Whether nothing is to be converted: labels are numbers that are known, which are their own codes."""
        is_ready = super()._is_ready_for(X, y, sample_weight)
        if not self._has_labels or not is_ready:
            return is_ready
        known = self._labels
        is_short = y.dtype.kind in "iufb" and y.ndim == 1 and len(known) <= _FEW
        return is_short and sum(np.count_nonzero(y == code) for code in known) == len(y)

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        y = self._flattened(labels.as_given(y) if self._has_labels else y)
        if not self._has_labels or y is None:
            return super()._prepared_targets(y)
        codes, known = self._encoded(y)
        return codes, lambda problem: replace(problem, labels=known)

    def _encoded(self, y: Any) -> tuple[FloatArray, labels.Labels]:
        """Return the codes of labels that this estimator takes, and all labels known with these."""
        return labels.encoded(y, self._labels)

    def _flattened(self, y: Any) -> Any:
        """Return targets as an array, a single column of them as a list, which is what estimators expect."""
        y = None if y is None else target_array(y)
        if y is None or y.ndim != 2 or y.shape[1] != 1:
            return y
        return y[:, 0] if self.__sklearn_tags__().target_tags.multi_output else flattened(y)

    def _checked_labels(self, stored: Any) -> dict[float, Any]:
        """Return the labels of a file; all of its rows must have one of them."""
        require(conforms(stored, list[tuple[float, bool | int | float | str]]), "labels have a code each.")
        require(self._has_labels or not stored, "only classifiers have labels.")
        require(self._needs_targets == bool(self._stream.n_targets), "there are targets where they are needed.")
        require(all(labels.code(label) == code for code, label in stored), "a code is that of its label.")
        known = dict(stored)
        if self._has_labels:
            for targets in self._stream.kept_targets():
                is_known = np.isin(targets, np.array(list(known)))
                require(targets.shape[1] == 1 and is_known.all(), "each row has a known label.")
        return known

    def _stored_beside(self, points: FloatArray) -> Any:
        return [[code, label] for code, label in self._labels.items()]

    def _learn_again(self, given: Given, beside: Any) -> None:
        engine: Any = self._stream
        self._stream = engine.append([], replace(engine.problem, labels=dict(map(tuple, beside))))
        super()._learn_again(given, beside)

    def _merged(self, own: Stream, other: Stream) -> Stream:
        problem: Any = own.problem
        theirs: Any = other.problem
        united: Stream = own.append([], replace(problem, labels=labels.united(problem.labels, theirs.labels)))
        return united.merge(other)

    def learn_one(self, x: Any, y: Any = None) -> Any:
        """Learn one row: a mapping of column names to values, or a sequence of values."""
        if not self._has_labels or not self.__sklearn_is_fitted__():
            return super().learn_one(x, y)
        self._check_settings()
        with self._stream.lock:
            if self._known_code(y) is not None:
                return super().learn_one(x, y)
            _, known = self._encoded(labels.single(y))
            if known is self._labels:
                return super().learn_one(x, y)
            codes, _ = labels.encoded(labels.single(y), known)
            row = np.asarray(self._values_of(x), dtype=np.float64)[None]
            problem: Any = self._stream.problem
            self._stream = self._stream.append([(row, codes[:, None], np.ones(1))], replace(problem, labels=known))
        return self

    @property
    def _takes_any_number(self) -> bool:
        return not self._has_labels

    def _target_of(self, y: Any) -> Any:
        if not self._has_labels:
            return super()._target_of(y)
        found = self._known_code(y)
        return super()._target_of(
            float(labels.encoded(labels.single(y), self._labels)[0][0]) if found is None else found
        )

    def _known_code(self, y: Any) -> float | None:
        """Return the code of a label, if it is one of those that are known."""
        label = y.item() if isinstance(y, np.generic) else y
        if type(label) not in (bool, int, float, str) or (type(label) is str and not labels.is_unicode(label)):
            return None
        found, known = labels.code(label), self._labels
        return found if found in known and known[found] == label else None
