"""Any batch algorithm online."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from batch2online import sampling
from batch2online._types import FloatArray
from batch2online.decay import ForwardDecay
from batch2online.engine.builder import CoresetBuilder
from batch2online.engine.stream import Stream
from batch2online.estimator import Trusted
from batch2online.input import PreparedRows, RowReader
from batch2online.labels import Labelled
from batch2online.methods.any_estimator import defaults, input_support
from batch2online.methods.any_estimator.fitted_estimator import FittedEstimator, is_same, models_in
from batch2online.methods.any_estimator.models import InputRows
from batch2online.methods.any_estimator.problem import EstimatorProblem
from batch2online.methods.any_estimator.row_losses import loss_of
from batch2online.methods.any_estimator.stored_models import check_trusted
from batch2online.methods.any_estimator.stored_parameters import (
    is_missing,
    parameter_of,
    quietly_stored,
    stored_parameter,
)
from batch2online.methods.any_estimator.weighted_fit import step_without_weights
from batch2online.methods.least_squares.sketch import Leverage
from batch2online.methods.losses import PredictorLoss
from batch2online.numerics.memory import parsed_bytes
from batch2online.numerics.threads import one_openmp_thread
from batch2online.refresh import Measured, Policy
from batch2online.results import Regret
from batch2online.rows import Batch, check_width
from batch2online.schema import require
from batch2online.settings import WrappedSettings
from batch2online.sketches.base import Coreset, SketchSettings
from batch2online.storage import model_file
from batch2online.storage.tree import CheckpointError, decoded, encoded
from batch2online.tables.capsules import table as arrow_table
from batch2online.tables.codec import Codec, Columns
from batch2online.tables.columns import NUMBER, TypedTable
from batch2online.tables.row_encoding import FRAMES, Encoding, Form, FrameSchema, container_of, read_one
from batch2online.tables.strings import MISSING, StringTable, hash_code
from batch2online.validation import check_targets

_CORESET_ATTRIBUTES = ("labels_",)
"""Fitted attributes with an entry for each row of the coreset: callers would take them for those of all rows."""


def if_model_has(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Offer a method only if the model has the one of this name, so that ``hasattr`` returns the same for both."""
    decorate: Callable[[Callable[..., Any]], Any] = available_if(lambda self: hasattr(self._model_or_estimator(), name))
    return decorate


def delegated(name: str, doc: str) -> Any:
    """Return the method that passes validated rows to the method of the current model."""

    @one_openmp_thread()
    def method(self: BatchToOnline, X: InputRows) -> Any:
        return getattr(self.model_, name)(self._checked_rows(X))

    method.__name__, method.__doc__ = name, doc
    method.__qualname__ = f"BatchToOnline.{name}"
    return if_model_has(name)(method)


class BatchToOnline(Labelled, WrappedSettings):
    """Any batch algorithm on a stream: refitted on the rows that memory holds, at times that grow geometrically.

    At each refresh the estimator is cloned, seeded and fitted to all rows seen while they fit in ``memory``, then to a
    weighted coreset of them, so the model is a pure function of the sequence and the seed, whatever the chunks.
    ``predict``, ``transform``, ``predict_proba``, ``score`` and whatever else the current model offers are passed on to
    it, fitted attributes as well. Rows are arrays, tables of pandas, polars or Arrow with strings, categories, dates
    and missing values, or lists of strings or dictionaries: the estimator receives them in the container in which they
    came, see ``docs/tables.md``.

    Attributes
    ----------
    model_ : the current model, a fitted estimator or the return value of the function
    n_seen_, n_changes_, changes_, coreset_, regret_, timings_
        Rows seen; changes of the model and their reasons; the coreset; loss against the best model known; seconds and
        rows of refits.

    Notes
    -----
    The default ``coreset`` is, by the type of estimator:

    - regressors and classifiers: ``PilotSampling``, which keeps rows with large gradients under the current model,
      outliers and a uniform sample; with a ``window`` and in shards ``Uniform``
    - ``PCA`` and ``TruncatedSVD`` of so many components: ``RidgeLeverage``
    - clusterers with ``n_clusters``: ``Clustering``, which keeps all rows
    - all others, and with ``resample``: ``Uniform``

    Algorithm 1 of the paper with Algorithm 2 inside, for any estimator. Costs are estimated on the coreset, the
    hindsight optimum on all rows if they are kept. Before the first refresh there is no model; the loss of a row is
    then that of the simplest one.

    ``save`` stores the current model and the rows that it was fitted on, without pickle. ``load`` fits nothing: it
    takes the model if its types are known to be safe, as those of most estimators of scikit-learn, LightGBM and XGBoost
    are, or if you trust them (``trusted=`` of :func:`batch2online.load`), and refuses the file otherwise; with
    ``refit=True`` it fits the estimator again on the rows. Estimators of these packages with plain parameters come back
    from a file alone; :meth:`restore` takes the rest.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import HuberRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BatchToOnline(HuberRegressor(alpha=0.01), coreset_size=200, random_state=0)
    >>> model
    BatchToOnline(coreset_size=200, estimator=HuberRegressor(alpha=0.01), random_state=0,
                  coreset=<PilotSampling, for a regressor>)
    >>> for start in range(0, len(X), 50):
    ...     model = model.partial_fit(X[start : start + 50], y[start : start + 50])
    >>> model.n_seen_, model.predict(X[:2]).shape, model.coef_.shape
    (442, (2,), (10,))
    """

    _first_encoding = Encoding()  # of an estimator that is about to see its first rows

    # -- the stream ----------------------------------------------------------------------------------------------

    def _new_stream(self, n_targets: int) -> Stream:
        coreset = self._new_coreset()
        policy = Measured() if self.refresh is None else self.refresh
        stream = Stream.new(self._new_problem(coreset), coreset, policy, self.n_features_in_, n_targets)
        if self._encoding.schema is not None:
            input_support.check_coreset(stream.sketch, self._encoding.schema)
        return stream

    def _new_problem(self, settings: CoresetBuilder | SketchSettings) -> EstimatorProblem:
        kind = defaults.kind_of(self.estimator)
        if self.loss is None:
            defaults.check_supported(self.estimator, kind)
        part = None if kind == "function" or self.resample else step_without_weights(self.estimator)
        if part is not None:
            raise TypeError(
                f"{type(part).__name__}.fit takes no sample_weight, so it cannot be fitted to a weighted coreset: "
                "pass resample=True to fit it to an unweighted sample of the coreset instead."
            )
        return EstimatorProblem(
            estimator=self.estimator,
            loss=loss_of(defaults.default_loss(kind, self.estimator) if self.loss is None else self.loss),
            seed=settings.seed,
            start=defaults.start_of(self.estimator, self.n_features_in_),
            epsilon=settings.epsilon,
            resample=bool(self.resample),
            memory=self._memory,
            decays=self.half_life is not None,
            churn_price=defaults.checked_churn_price(self.churn_price, kind),
            own_sensitivity=self._checked_sensitivity(),
            encoding=self._encoding,
        )

    def _checked_sensitivity(self) -> Any:
        known = self.sensitivity
        if known is not None and not (callable(known) and isinstance(known(1_000), int | float | np.number)):
            raise TypeError(f"sensitivity must be a function of a number of rows that returns a number, got {known!r}.")
        return known

    def _new_coreset(self) -> CoresetBuilder:
        is_given = isinstance(self.coreset, CoresetBuilder)
        coreset = self._copied_coreset(self.coreset) if is_given else self._made_coreset()
        schema = self._encoding.schema
        if schema is not None and isinstance(coreset, Leverage):
            coreset.columns = tuple(schema.numeric_columns)
        return coreset

    def _made_coreset(self) -> CoresetBuilder:
        settings = self._sampling()
        make = self._chosen_coreset().make if self.coreset is None else self.coreset
        if self._memory is not None:
            columns = (
                getattr(self, "n_features_in_", 1) + 1
            )  # not known yet where only the type of coreset is asked for
            settings["coreset_size"] = defaults.size_by_memory(self.estimator, self._memory, columns)
        elif self.coreset_size is None:
            settings["coreset_size"] = defaults.DEFAULT_SIZE
        coreset = make(**settings) if callable(make) else make
        if not isinstance(coreset, CoresetBuilder):
            raise TypeError(
                f"coreset must be a coreset of batch2online.coresets, its class or a function, got {make!r}."
            )
        return coreset

    @property
    def _memory(self) -> int | None:
        """Bytes that the kept rows may take; None where the coreset has a size of its own."""
        memory = parsed_bytes(self.memory, "memory")
        is_free = self.coreset is None and self.coreset_size is None and self._chosen_coreset().by_memory
        return memory if is_free else None

    def _chosen_coreset(self) -> defaults.Choice:
        encoding, kind = self._encoding, defaults.kind_of(self.estimator)
        may_be_missing = encoding.schema is not None and input_support.accepts_missing(self.estimator)
        is_numeric, by_rows_alone = (
            encoding.is_numeric and not may_be_missing,
            bool(self.window or self._origin is not None),
        )
        return defaults.default_coreset(kind, self.estimator, self.resample, by_rows_alone, is_numeric)

    def _copied_coreset(self, template: CoresetBuilder) -> CoresetBuilder:
        """Return an empty copy of a coreset, with the seed, first id and history of this estimator."""
        if template.sketch is not None:
            raise ValueError("coreset must be empty: this one has seen rows already.")
        coreset = copy.copy(template)
        if self.random_state is not None:
            coreset.seed = sampling.seed_from(self.random_state)
        if self.first_id:
            coreset.first_id = int(self.first_id)
        coreset.keep_history = coreset.keep_history or bool(self.keep_history)
        if self.half_life not in (None, "auto"):
            coreset.decay = ForwardDecay.of(self.half_life)
        return coreset

    # -- targets -------------------------------------------------------------------------------------------------

    @property
    def _needs_targets(self) -> bool:  # type: ignore[override]
        if self.__sklearn_is_fitted__():
            return bool(self._stream.n_targets)
        kind = defaults.kind_of(self.estimator)
        if kind in ("function", "estimator"):
            return False
        return kind in ("regressor", "classifier") or bool(get_tags(self.estimator).target_tags.required)

    @property
    def _has_labels(self) -> bool:  # type: ignore[override]
        return defaults.kind_of(self.estimator) == "classifier"

    def _prepared_targets(self, y: Any) -> tuple[Any, Any]:
        is_free = defaults.kind_of(self.estimator) in ("function", "estimator") and not self.__sklearn_is_fitted__()
        y, change = (self._flattened(y), None) if is_free else super()._prepared_targets(y)
        if y is not None and (loss := self._loss_with_domain) is not None:
            if np.ndim(y) != 1:
                raise ValueError(
                    f"The {type(loss).__name__} loss is of one target, got targets of shape {np.shape(y)}."
                )
            loss.check(check_targets(y, len(y))[:, 0])
        return y, change

    @property
    def _takes_any_number(self) -> bool:
        return self._loss_with_domain is None

    @property
    def _loss_with_domain(self) -> PredictorLoss | None:
        """The loss, if it is not made for all targets; before the stream begins, that of the parameters."""
        given = None if self.loss is None else loss_of(self.loss)
        loss = self._stream.problem.loss if self.__sklearn_is_fitted__() else given
        return loss if isinstance(loss, PredictorLoss) and not loss.has_classes else None

    # -- rows ----------------------------------------------------------------------------------------------------

    @property
    def _encoding(self) -> Encoding:
        """The encoding of rows as numbers."""
        problem = self._stream.problem if self.__sklearn_is_fitted__() else None
        return getattr(problem, "encoding", self._first_encoding)

    def _unfitted_copy(self) -> Self:
        """Return an estimator with the same parameters; of one that is about to see rows, one for the same rows."""
        fresh = super()._unfitted_copy()
        fresh._first_encoding, fresh._cannot_take = self._first_encoding, self._cannot_take
        return fresh

    def _is_plain_array(self, X: Any, y: Any, sample_weight: Any) -> bool:
        is_plain = self._encoding.schema is None and super()._is_plain_array(X, y, sample_weight)
        return is_plain and self._takes_any_number

    @property
    def _column_options(self) -> Columns | None:
        return None if self.columns == "auto" and not self._cannot_take else super()._column_options

    _cannot_take = False
    """Whether the first rows are a table that the estimator cannot take."""

    def _encodes(self, X: Any) -> bool:
        if not self.__sklearn_is_fitted__() and self.columns == "auto":
            self._cannot_take = container_of(X) in FRAMES and not input_support.takes(self.estimator, X)
        return super()._encodes(X)

    def _stream_to_begin(self, shape: tuple[int, int], is_flat: bool, seed: Any, codec: Codec | None = None) -> Stream:
        """Return a stream that is to begin; its features may have missing values, as arrays may."""
        if codec is not None and codec.options.missing == "keep":
            columns = tuple(Form(place, NUMBER, "float64") for place in range(codec.width))
            self._first_encoding = Encoding(FrameSchema("array", columns))
        return super()._stream_to_begin(shape, is_flat, seed, codec)

    def _coded(self, codec: Codec, table: TypedTable) -> FloatArray:
        if codec.options.missing != "keep":
            return super()._coded(codec, table)
        points = codec.encode(table)
        return np.where(np.isnan(points), MISSING, points)

    @input_support.short_errors()
    def _prepared_rows(self, X: Any, reset: bool) -> tuple[Any, Any]:
        if self._is_array(X, reset):
            return super()._prepared_rows(X, reset)
        before = Encoding() if reset else self._encoding
        points, schema, strings = input_support.read_rows(self, X, before.schema, reset)
        encoding = Encoding(schema, before.strings)
        encoding.strings.add(strings)
        if reset:
            self._first_encoding = encoding
        else:
            input_support.check_coreset(self._stream.sketch, schema, points)
        return points, None if schema is before.schema else lambda problem: replace(problem, encoding=encoding)

    def _is_array(self, X: Any, reset: bool) -> bool:
        """Whether rows are plain numbers; they may have missing values if the estimator takes them."""
        if not reset:
            return self._encoding.schema is None
        if container_of(X) is not None:
            return False
        takes_missing = isinstance(self.estimator, BaseEstimator) and input_support.accepts_missing(self.estimator)
        return sp.issparse(X) or not takes_missing

    @input_support.short_errors()
    def _checked_rows(self, X: Any) -> Any:
        schema = self._encoding.schema
        if self.__sklearn_is_fitted__() and self._stream.columns is not None:
            return self._decoded(super()._checked_rows(X), {})
        if schema is None:
            return super()._checked_rows(X)
        points, _, strings = input_support.read_rows(self, arrow_table(X), schema, reset=False)
        return self._decoded(points, strings)

    def _decoded(self, points: FloatArray, strings: dict[float, str]) -> Any:
        current = self._stream.current.model
        return self._encoding.decoded(points, None if current is None else current.rows.points, strings)

    @property
    def coreset_(self) -> Coreset:
        """The coreset of the rows seen so far, its points in the container in which rows came."""
        coreset, encoding = super().coreset_, self._encoding
        return coreset if encoding.schema is None else replace(coreset, points=encoding.decoded(coreset.points))

    # -- learning ------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None) -> Self:
        """Learn from further rows. The result does not depend on how rows are split into calls.

        ``classes`` is accepted for compatibility and ignored; new labels may come at any time.
        """
        return super().partial_fit(X, y, sample_weight)

    def applied(self, rows: PreparedRows) -> Stream:
        return input_support.without_unused_strings(super().applied(rows))

    def question(self, X: Any) -> tuple[FloatArray, Any, list[list[str]]]:
        schema = self._encoding.schema
        if self._stream.columns is not None:
            points = super()._checked_rows(X)
            return points, None if schema is None else encoded(schema)[0], [[]] * len(points)
        if schema is None or not self._needs_targets:
            return super().question(X)
        points, new, strings = input_support.read_rows(self, arrow_table(X), schema, reset=False)
        input_support.check_coreset(self._stream.sketch, new, points)
        codes = points[:, new.string_columns].tolist()
        return points, encoded(new)[0], [[strings[code] for code in row if code in strings] for row in codes]

    def prepare_late(self, points: FloatArray, tables: list[tuple[Any, list[str]]], y: Any) -> PreparedRows:
        rows, encoding = super().prepare_late(points, tables, y), self._encoding
        for schema, strings in tables:
            if schema is not None:
                own = StringTable({hash_code(string): string for string in strings})
                encoding = encoding.merged(Encoding(decoded(schema, []), own))
        encoding.check(points)
        if encoding is self._encoding:
            return rows
        return rows._replace(problem=replace(rows.problem or self._stream.problem, encoding=encoding))

    def restored_answerer(self, stored: Any) -> Any:
        if isinstance(stored, FittedEstimator):
            stream = self._stream
            if stream.has_model and stored.has_rows_of(stream.model):
                return stream.model
            stream.problem.open(stored, None, refit=True)
        return stored

    def _finish_fit(self, X: Any) -> None:
        """Add the labels of the rows, if the estimator is a clusterer that predicts."""
        if isinstance(self.estimator, BaseEstimator) and is_clusterer(self.estimator) and hasattr(self, "predict"):
            self.labels_ = self.predict(X)

    def learn_one(self, x: Any, y: Any = None) -> Self:
        """Learn one row: a mapping of column names to values, a sequence of values, or a string."""
        return super().learn_one(x, y)

    def prepare_first(self, x: Any, y: Any) -> PreparedRows:
        rows = input_support.single_row_table(x)
        if rows is None or self._column_options is not None:
            return super().prepare_first(x, y)
        return self.prepare(rows, None if y is None else np.asarray([y]), None)

    def prepare_one(self, x: Any, y: Any) -> PreparedRows:
        encoding = self._encoding
        if encoding.schema is None or self._stream.columns is not None:
            return super().prepare_one(x, y)
        self._check_settings()
        points, schema, strings = read_one(input_support.ordered_values(x, encoding.schema), encoding.schema)
        input_support.check_columns(self.estimator, points, schema)
        input_support.check_coreset(self._stream.sketch, schema, points)
        encoding.strings.add(strings)
        now = replace(encoding, schema=schema)
        return self._with_targets(points, lambda problem: replace(problem, encoding=now), *self._one_target(y))

    def _new_reader(self) -> RowReader | None:
        is_table = self._encoding.schema is not None and self._stream.columns is None
        return None if is_table else super()._new_reader()

    def _merged(self, own: Stream, other: Stream) -> Stream:
        encoding = own.problem.encoding.merged(other.problem.encoding)
        return super()._merged(own.append([], replace(own.problem, encoding=encoding)), other)

    def forget(self, ids: Any) -> Self:
        """Forget the rows with these ids, as if they had never been seen; their strings are deleted as well."""
        with self._check_fitted().lock:
            super().forget(ids)
            self._stream = input_support.without_unused_strings(self._stream, at_once=True)
        return self

    # -- quality -------------------------------------------------------------------------------------------------

    @property
    def regret_(self) -> Regret:
        """Prequential loss, and the cost of the best model known, on all rows if they are kept or on the coreset.

        That model is the current one or one fitted now. The cost of a flexible one (trees, boosters, kernels,
        neighbours, few rows for each parameter) is measured ``out_of_sample``: each half of the kept rows
        under a model of the other half.
        """
        stream = self._check_fitted().view()
        model = stream.current.model
        is_flexible = model is not None and stream.problem.is_flexible(model, len(stream.coreset()))
        return replace(super().regret_, secondary_loss=None, secondary_name="", out_of_sample=is_flexible)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        if self.coreset is not None:
            return text
        try:
            choice = self._chosen_coreset()
        except TypeError:
            return text
        return f"{text[:-1]},\n{' ' * 14}coreset=<{choice.name}, for {choice.reason}>)"

    # -- the current model -----------------------------------------------------------------------------------------

    @property
    def model_(self) -> Any:
        """The current model: a fitted estimator, or the return value of the function."""
        stream, model = self._check_fitted(), self._model_or_estimator()
        if model is self.estimator:
            at = stream.current.refresh.next_check
            raise NotFittedError(f"There is no model before the first refresh, at {at} rows: {stream.n_seen} seen.")
        return model

    def _model_or_estimator(self) -> Any:
        """Return the current model, or the estimator as long as there is none."""
        stream = vars(self).get("_stream")
        if stream is None:
            return self.estimator
        if stream.plan is None:
            fitted = stream.current.model
            vars(stream)["plan"] = None if fitted is None else fitted.model, self._encoding.schema
        model, _ = stream.plan
        return self.estimator if model is None else model

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the current model: ``coef_``, ``classes_``, ``cluster_centers_``, ..."""
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that has failed: raise its error
        is_fitted = name.endswith("_") and not name.startswith("_") and "_stream" in vars(self)
        if is_fitted and name not in _CORESET_ATTRIBUTES:
            model = self._model_or_estimator()
            if model is not self.estimator and hasattr(model, name):
                return getattr(model, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    predict = delegated("predict", "Predictions of the current model.")
    predict_proba = delegated("predict_proba", "Probabilities of the classes that the current model knows.")
    predict_log_proba = delegated("predict_log_proba", "Logarithms of :meth:`predict_proba`.")
    decision_function = delegated("decision_function", "Decision function of the current model.")
    score_samples = delegated("score_samples", "Log-likelihood of each row under the current model.")

    @if_model_has("transform")
    def transform(self, X: Any) -> Any:
        """Rows transformed by the current model."""
        transformed = self.model_.transform(self._checked_rows(X))
        if hasattr(X, "index") and hasattr(transformed, "index"):
            transformed.index = X.index
        return transformed

    @if_model_has("get_feature_names_out")
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that ``transform`` returns."""
        return self.model_.get_feature_names_out(input_features)

    @if_model_has("set_output")
    def set_output(self, *, transform: str | None = None) -> Self:
        """Set what ``transform`` returns, arrays or data frames, for the estimator inside, as a pipeline does."""
        for model in (self.estimator, self._model_or_estimator()):
            model.set_output(transform=transform)
        return self

    @if_model_has("transform")
    def fit_transform(self, X: Any, y: Any = None, **settings: Any) -> Any:
        """Learn from these rows alone, then transform them."""
        X = arrow_table(X)
        return self.fit(X, y, **settings).transform(X)

    @if_model_has("fit_predict")
    def fit_predict(self, X: Any, y: Any = None, **settings: Any) -> Any:
        """Learn from these rows alone, then predict their clusters."""
        X = arrow_table(X)
        return self.fit(X, y, **settings).predict(X)

    @if_model_has("inverse_transform")
    def inverse_transform(self, X: Any) -> Any:
        """Return rows from their transformed values, by the current model."""
        return self.model_.inverse_transform(np.asarray(X))

    @if_model_has("score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the current model, as the estimator defines it."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.model_.score(self._checked_rows(X), *(() if y is None else (y,)), **weights))

    @if_model_has("predict")
    def predict_one(self, x: Any) -> Any:
        """Prediction for one row: a mapping of column names to values, a sequence of values, or a string."""
        model, schema = self.model_, self._stream.plan[1]
        if schema is None:
            return model.predict(self._row_of(x)[None])[0]
        if self._stream.columns is not None:
            return model.predict(self._decoded(self._row_of(x)[None], {}))[0]
        points, _, strings = read_one(input_support.ordered_values(x, schema), schema)
        return model.predict(self._decoded(points, strings))[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            own = get_tags(self.estimator)
            tags.estimator_type, tags.target_tags = own.estimator_type, own.target_tags
            tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
            tags.transformer_tags = own.transformer_tags
        if tags.classifier_tags is not None:  # labels are one list, whatever the estimator takes
            tags.classifier_tags.multi_label = tags.target_tags.multi_output = False
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64"]
        return tags

    # -- files -----------------------------------------------------------------------------------------------------

    def _is_same_setting(self, own: Any, others: Any) -> bool:
        if isinstance(own, CoresetBuilder) and isinstance(others, CoresetBuilder):
            return own.settings() == others.settings()
        return own is others or (isinstance(own, Policy) and own == others) or is_same(own, others)

    def _can_be_stored(self, value: Any) -> bool:
        if isinstance(value, Policy):
            return super()._can_be_stored(value)
        return not is_missing(quietly_stored(value))

    def _instead_of_durable(self, name: str) -> str:
        return f"Use save, and BatchToOnline.restore(path, {name}=...)."

    def inner_settings(self) -> Any:
        return quietly_stored(self.estimator)

    def own_parameters(self, state: dict[str, Any]) -> dict[str, Any]:
        is_same = state["params"].get("estimator") == self.inner_settings()
        return {"estimator": self.estimator} if is_same else {}

    def _state(self) -> dict[str, Any]:
        state, stream = super()._state(), self._stream.whole()
        problem = stream.problem
        state |= {"labels": sorted(problem.labels.items(), key=itemgetter(0))}
        if problem.encoding.schema is not None:
            encoding = problem.encoding.within(stream.held_rows())
            state |= {"schema": encoding.schema, "strings": encoding.strings}
        return state | {"params": {name: stored_parameter(value) for name, value in state["params"].items()}}

    def _prepare_restoring(self, state: dict[str, Any]) -> None:
        self._first_encoding = _stored_encoding(state)

    @classmethod
    def _from_state(cls, state: dict[str, Any], trusted: Trusted = None, refit: bool = False, **given: Any) -> Self:
        check_trusted(trusted)
        params = {name: parameter_of(value, name) for name, value in state["params"].items() if name not in given}
        estimator = cls._assembled(state | {"params": params | given})
        try:
            stream = estimator.stream
            for rows in stream.held_rows():
                stream.problem.encoding.check(rows.points)
            stream = stream.append([], replace(stream.problem, labels=estimator.checked_labels(state["labels"])))
            own = state["params"].get("estimator")
            is_own = "estimator" not in given or (not is_missing(own) and own == estimator.inner_settings())
            for each in (stream.state, *stream.state.others):
                require(isinstance(each.model, FittedEstimator | None), f"model: found a {type(each.model).__name__}")
            for fitted in models_in(stream):
                check_width([fitted.rows], stream.width, stream.n_targets)
                stream.problem.open(fitted, trusted, refit or "estimator" in given, is_own)
            estimator.stream = stream
        except CheckpointError:
            raise
        except Exception as error:  # whatever the estimator has against these rows
            raise CheckpointError(f"the model cannot be restored: {error}") from error
        return estimator

    @classmethod
    def restore(cls, path: str | os.PathLike[str], **given: Any) -> Self:
        """Like ``load``, for checkpoints of functions and other objects that no file can hold: pass them again.

        Where the file holds no fitted model that can be used, the estimator is fitted again on the rows of the file.

        >>> import tempfile, pathlib
        >>> from batch2online import BatchToOnline
        >>> mean = lambda points, weights: np.average(points, axis=0, weights=weights)
        >>> loss = lambda theta, points: np.square(points - theta).sum(axis=1)
        >>> model = BatchToOnline(mean, loss=loss, random_state=0).fit(np.arange(100.0)[:, None])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.b2o"
        ...     model.save(path)
        ...     BatchToOnline.restore(path, estimator=mean, loss=loss).model_
        array([49.5])
        """
        state = model_file.load(path)
        if state.get("estimator") != cls.__name__ or not isinstance(state.get("params"), dict):
            raise CheckpointError(f"{path} holds no {cls.__name__}.")
        unknown = given.keys() - state["params"].keys()
        if unknown:
            raise TypeError(f"restore got parameters that {cls.__name__} does not have: {sorted(unknown)}.")
        try:
            return cls._from_state(state, refit=True, **given)  # these are the caller's own objects
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(f"{path} holds no estimator that this version knows: {error}") from error

    def journal_entry(self, points: FloatArray, problem: Any) -> Any:
        labels, encoding = super().journal_entry(points, problem), problem.encoding
        if encoding.schema is None or self._stream.columns is not None:
            return labels
        schema, _ = encoded(encoding.schema)
        strings = encoding.strings.listed(points[:, encoding.schema.string_columns])
        return {"labels": labels, "schema": schema, "strings": strings}

    def _journalled_problem(self, batch: Batch, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return super()._journalled_problem(batch, entry)
        schema: Any = decoded(entry["schema"], [])
        if not isinstance(schema, FrameSchema):
            raise CheckpointError(f"schema: found a {type(schema).__name__}")
        encoding = replace(self._encoding, schema=schema)
        encoding.strings.add({hash_code(string): string for string in entry["strings"]})
        encoding.check(batch[0])
        return replace(super()._journalled_problem(batch, entry["labels"]), encoding=encoding)


def _stored_encoding(state: dict[str, Any]) -> Encoding:
    """Return the encoding of the rows of a file."""
    schema, strings, (width, _) = state.get("schema"), state.get("strings"), state["stream"]["shape"]
    if schema is None:
        return Encoding()
    if not isinstance(schema, FrameSchema) or not isinstance(strings, StringTable):
        raise CheckpointError(f"schema: found a {type(schema).__name__} with a {type(strings).__name__}")
    if len(schema.columns) != width:
        raise CheckpointError(f"schema: found {len(schema.columns)} columns, expected {width}")
    return Encoding(schema, strings)
