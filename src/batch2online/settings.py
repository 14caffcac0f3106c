"""Every setting of every estimator, declared once.

Constructors and docstrings of the estimators, their checks, the options of ``batch2online run``, the body of
``PUT /models/NAME`` and its OpenAPI, and the tables of the documentation are made of these declarations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from batch2online.declaration import declared, setting

if TYPE_CHECKING:
    from batch2online.refresh import Policy
    from batch2online.tables.options import Columns
else:
    Policy = Columns = Any  # not imported: they need NumPy


def policy(text: str) -> Any:
    """Return the refresh policy of a name and parameters.

    >>> policy("geometric:1.2"), policy("every:1000")
    (Geometric(growth=1.2, start=None), Every(rows=1000, start=None))
    """
    from batch2online import refresh  # needs NumPy

    policies: dict[str, tuple[type, tuple[type, ...]]] = {
        "every": (refresh.Every, (int,)),
        "every-step": (refresh.EveryStep, ()),
        "on-change": (refresh.OnChange, ()),
        "geometric": (refresh.Geometric, (float,)),
        "adaptive": (refresh.Adaptive, (float, float, float)),
    }
    name, _, numbers = text.partition(":")
    if name not in policies:
        raise ValueError(f"refresh {text!r} is unknown: choose {', '.join(policies)}, such as geometric:1.1.")
    made, types = policies[name]
    given = numbers.split(",") if numbers else []
    try:
        return made(*(convert(number) for convert, number in zip(types, given, strict=len(given) > len(types))))
    except (TypeError, ValueError) as error:
        raise ValueError(f"refresh {text!r} has invalid parameters of {name}: {error}") from error


def checked_memory(size: Any) -> Any:
    """Return a size of memory if it is one."""
    from batch2online.numerics.memory import parsed_bytes  # needs NumPy

    parsed_bytes(size, "memory")
    return size


# -- the declarations -------------------------------------------------------------------------------------------

_REFRESH = "Policy that decides when to refit, e.g. every:1000, geometric:1.1 or adaptive:2,1.1."
_ALPHA = "Regularization strength, per row."
_L1_RATIO = "Elastic-net mixing: 0 is an L2, 1 an L1 penalty."
_EPSILON = "Relative error of the coreset."
_SIZE = "Expected number of rows in the coreset, instead of epsilon."
_CHURN_PRICE = "Gain in loss, as a share, that a change of all cluster labels must bring."
_FIT_INTERCEPT = "Whether the model has an intercept."
_SOLVE = "Fit to exact sums of all rows, or to the coreset."
_AUDIT = 'None is the size for ``epsilon`` if models are fitted to the coreset, otherwise ``"audit"``'


def _refresh(more: str) -> Any:
    more = f"See :mod:`batch2online.refresh`. {more}"
    return setting(_REFRESH, more, default=None, values="Policy or None", metavar="POLICY", written=str, parse=policy)


@declared
class OnlineSettings:
    """Settings of every online estimator."""

    half_life: int | Literal["auto"] | None = setting(
        "Number of rows after which the weight of a row halves.",
        'For streams that drift, see ``docs/drift.md``. None for no decay; "auto" to select one of several candidates.',
        default=None,
        ge=1,
    )
    window: int | None = setting(
        "Learn from the last N rows only.", "They are kept in memory. None for all rows.", default=None, ge=1
    )
    keep_history: bool = setting("Keep all rows, so that any of them can be forgotten.", default=False)
    columns: Columns | Literal["auto"] | None = setting(
        "How tables become rows of numbers.",
        'With "auto", strings of tables of pandas, polars or Arrow, and of rows in dictionaries, become one-hot '
        "columns, dates days, and missing values means, with a column that says where; all inferred from the first "
        "10,000 rows of the stream. :class:`batch2online.Columns` says otherwise. None takes numbers only, like "
        "arrays. ``columns_`` describes the result.",
        values='"auto", Columns or None',
        default="auto",
        option=None,
    )
    first_id: int = setting(
        "Id of the first row.",
        "Shards to merge need disjoint ids and the same ``random_state``.",
        default=0,
        ge=0,
        option=None,
    )
    random_state: Any = setting(
        "Random seed.",
        "Results are a pure function of it and the sequence of rows.",
        values="int, generator or None",
        default=None,
        ge=0,
        le=2**32 - 1,
        option="seed",
        written=int,
        written_default=0,
    )


@declared
class RegressionSettings(OnlineSettings):
    """Settings of :class:`OnlineRegression`."""

    loss: Literal["squared", "huber", "absolute", "quantile", "poisson", "gamma", "tweedie"] = setting(
        "Loss of a row.",
        "The squared residual; that of ``HuberRegressor``, whose scale is part of the model; the absolute residual; "
        "the pinball loss of ``QuantileRegressor``; half the deviance of ``PoissonRegressor`` (targets from 0), "
        "``GammaRegressor`` (above 0) or ``TweedieRegressor``, which predict ``exp(x @ coef_ + intercept_)``.",
        default="squared",
    )
    alpha: float = setting(
        _ALPHA,
        "The penalty ``alpha * (l1_ratio * |coef|_1 + (1 - l1_ratio) / 2 * |coef|^2)`` is added to the mean loss, "
        "as scikit-learn's estimators of these losses do. The squared loss is halved then, as in ``ElasticNet``.",
        default=0.0,
        ge=0,
    )
    l1_ratio: float = setting(
        _L1_RATIO, "1 is that of ``QuantileRegressor``.", default=0.0, ge=0, le=1, needs=("alpha", None)
    )
    quantile: float = setting("Level of the quantile loss.", default=0.5, gt=0, lt=1, needs=("loss", "quantile"))
    power: float = setting(
        "Power of the Tweedie loss.", "0, or from 1 on.", default=1.5, ge=0, lt=10, needs=("loss", "tweedie")
    )
    delta: float = setting(
        "Threshold of the Huber loss.",
        "Residuals of more scales than this count as outliers: the ``epsilon`` of ``HuberRegressor``.",
        default=1.35,
        gt=1,
        needs=("loss", "huber"),
    )
    epsilon: float | Literal["auto"] = setting(
        _EPSILON,
        'Weights are powers of ``1 + epsilon``. Exact models do not depend on it. "auto", with '
        '``solve="coreset"``, begins at 0.1 and improves like ``2 / sqrt(n)``, so that no share of the loss is '
        'given away for ever; the coreset grows like ``sqrt(n)``, see "Proofs".',
        default=0.02,
        gt=0,
        lt=1,
    )
    coreset_size: int | Literal["theory", "audit"] | None = setting(
        _SIZE, f"{_AUDIT}, 20 rows per column of ``[1 | a | b]``: enough for audits.", default=None, ge=1
    )
    refresh: Policy | None = _refresh(
        "None is ``Adaptive(kappa=2.5, growth=1.2, max_noise_factor=4, change_price=0.005)`` after ridge "
        'regressions of the first rows, see Notes; ``Geometric(growth=1.5)`` with ``solve="coreset"``, and '
        '``Geometric(growth=1.2)`` with ``epsilon="auto"``; and ``Geometric(growth=2)`` for other losses, '
        "``Geometric(growth=1.5)`` from 100 columns on. A policy that you give refits with the batch algorithm "
        "from its first check on, by default after ``3 * (n_features + 1)`` rows."
    )
    solve: Literal["exact", "coreset"] = setting(
        _SOLVE,
        "The coreset is the paper's form. An exact model depends a little on every row; the schedule keeps changes "
        'few, see "Proofs". Ignored for other losses than the squared one.',
        default="exact",
    )
    fit_intercept: bool = setting(
        _FIT_INTERCEPT,
        "Without one columns are scaled, but not centred: columns far from zero are then nearly collinear.",
        default=True,
    )
    score_targets: bool = setting(
        "Score rows of ``[a | b]``.", "False scores ``a`` alone, as the paper does.", default=True, option=None
    )


@declared
class ClassificationSettings(OnlineSettings):
    """Settings of :class:`OnlineClassifier`."""

    alpha: float | None = setting(
        _ALPHA,
        "The penalty is ``alpha * (l1_ratio * |coef|_1 + (1 - l1_ratio) / 2 * |coef|^2)`` for each row, next to "
        "the mean loss. None is ``|coef|^2 / 2`` for all rows together, as in ``LogisticRegression()``: it "
        "vanishes as rows are added. ``LogisticRegression(C)`` on n rows is ``alpha = 1 / (C * n)``.",
        default=None,
        ge=0,
    )
    l1_ratio: float = setting(_L1_RATIO, default=0.0, ge=0, le=1)
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = setting(
        "Weights of classes; balanced: equal total weight for every class.",
        "A mapping has weights by label, which multiply ``sample_weight``; 1 for labels that are not given. "
        "Balanced weights are ``n / (n_classes * n_c)`` for a class of n_c rows among n. They change with the "
        "rows: each model is fitted with those of the current counts.",
        default=None,
    )
    epsilon: float = setting(_EPSILON, "Weights are powers of ``1 + epsilon``.", default=0.1, gt=0, lt=1)
    coreset_size: int | None = setting(
        _SIZE, "None is 2,000, or ten rows per parameter of the model.", default=None, ge=1
    )
    refresh: Policy | None = _refresh("None is ``Geometric(growth=2)``, ``Geometric(growth=1.5)`` from 100 columns on.")
    fit_intercept: bool = setting(_FIT_INTERCEPT, default=True)


@declared
class LowRankSettings(OnlineSettings):
    """Settings of :class:`OnlineLowRank`."""

    n_components: int = setting(
        "Number of components.",
        "The rank of the approximation.",
        default=2,
        ge=1,
        option="k",
        is_required=True,
        largest_sent=1_000,
        kw_only=False,
    )
    center: bool = setting(
        "Approximate around the mean (PCA) instead of around zero.",
        "Zero is the paper's matrix approximation.",
        default=False,
    )
    epsilon: float | Literal["auto"] = setting(
        _EPSILON,
        'Weights are powers of ``1 + epsilon``. Exact models do not depend on it. "auto", with ``solve="coreset"``, '
        "begins at 0.1 and improves like ``2 / sqrt(n)``; the coreset grows like ``sqrt(n)``.",
        default=0.01,
        gt=0,
        lt=1,
    )
    coreset_size: int | Literal["theory", "audit"] | None = setting(
        _SIZE, f"{_AUDIT}, 40 rows per component: enough for audits.", default=None, ge=1
    )
    refresh: Policy | None = _refresh(
        'None is ``Adaptive(kappa=2, growth=1.5, max_noise_factor=4)``. With ``solve="coreset"`` it is '
        '``Geometric(growth=2.0)``, with ``epsilon="auto"`` ``Geometric(growth=1.5)``.'
    )
    solve: Literal["exact", "coreset"] = setting(
        _SOLVE,
        "The coreset is the paper's form. An exact model depends a little on every row; the schedule keeps changes "
        'few, see "Proofs".',
        default="exact",
    )
    basis: Literal["stable", "variance"] = setting(
        "Rotate a new basis towards the old one, or order it by variance.",
        "Stored embeddings stay comparable in a stable basis; signs of one by variance follow the old basis.",
        default="stable",
    )


@declared
class ClusteringSettings(OnlineSettings):
    """Settings of :class:`OnlineClustering`."""

    n_clusters: int = setting(
        "Number of clusters.", default=8, ge=1, option="k", is_required=True, largest_sent=1_000, kw_only=False
    )
    z: float = setting("Exponent of the distance: 2 for k-means, 1 for k-median.", default=2.0, ge=1)
    stages: Literal[1, 2] = setting(
        "Stages of sampling.", "2 is the paper's Algorithm 7 with its corrections.", default=1, option=None
    )
    history: Literal["memory", "coreset"] | str | os.PathLike[str] = setting(
        "Rows that clustering keeps: coreset, memory (all rows), or a folder for all rows.",
        'A new row may move the seeds of the coreset, and then dropped rows are needed again. With "coreset" the '
        "coreset alone is kept: bounded memory, nearly the same quality, no ``forget``. ``merge`` is then bounded "
        "too, but not equal to one stream, and depends on the order of merging.",
        default="memory",
        values='"memory", "coreset" or the path of a folder',
        metavar="PATH",
        written_default="coreset",
    )
    epsilon: float | Literal["auto"] = setting(
        _EPSILON,
        'The size of the coreset is ``10 (1 + k) / epsilon``. "auto" begins at 0.1 and improves like '
        "``10 / sqrt(n)``: the size is ``(1 + k) max(100, sqrt(n))``.",
        default=0.015,
        gt=0,
        lt=1,
    )
    coreset_size: int | Literal["theory"] | None = setting(
        _SIZE,
        '"theory" is that of :func:`theory.clustering_size_theory`, enough for all sets of centers: 3,400 rows for '
        "k = 5, z = 2 and ``epsilon=0.1``.",
        default=None,
        ge=1,
    )
    refresh: Policy | None = _refresh(
        "None is ``Adaptive(kappa=1, growth=2, floor=1e-3, start=15)``: checks are skipped where losses stay the "
        "same and the expected gain is below 0.1 %."
    )
    solve: Literal["exact", "coreset"] = setting(
        _SOLVE,
        'With "exact", centers found on the coreset become means of all rows, by one pass over these: without '
        "sampling noise, and cheaper than a larger coreset. It needs z = 2 and rows that are kept, and is the same "
        'as "coreset" otherwise. "coreset" is the paper\'s form: only then do models depend on few of the rows, as '
        "the theorems assume.",
        default="exact",
    )
    solver: Any = setting(
        "A clusterer or function that finds the centers.",
        "A solver of your own, such as one with a proven approximation factor: a function ``(points, weights, k, z, "
        "rng)`` that returns centers (k, d), or an estimator of scikit-learn with ``n_clusters`` and "
        "``sample_weight``. Centers are then what it returns for the coreset: ``solve``, ``warm_start`` and "
        "``churn_price`` have no effect. A file can hold it if it is an object of a class marked with "
        "``extend.storable``.",
        values="clusterer, function or None",
        default=None,
        option=None,
    )
    warm_start: bool = setting(
        "Start the solver from the current centers.",
        'If False, models are independent of the past, labels change more, and with ``solve="coreset"`` the '
        "guarantee of the refresh policies holds as it stands.",
        default=True,
        option=None,
    )
    churn_price: float = setting(
        _CHURN_PRICE,
        "Half of it at 50 rows a cluster, as few labels exist. A refit moves the current centers to the means of "
        "their rows if that gains ``churn_price`` times the share of labels that change. Swaps of single centers, "
        "and new solutions, must gain that much more, and more than noise, with each row scored by centers fitted "
        "without it. Raise it if changes of labels are costly, at some loss; 0 takes the best solution found, "
        "whatever the labels. Not used with ``warm_start=False``.",
        default=0.05,
        ge=0,
    )
    keep_history: bool = setting(
        "Keep all rows, so that any of them can be forgotten.",
        'They are kept unless ``history="coreset"``, which True refuses.',
        default=False,
    )


@declared
class WrappedSettings(OnlineSettings):
    """Settings of :class:`BatchToOnline`."""

    columns: Columns | Literal["auto"] | None = setting(
        "How tables become rows of numbers.",
        'With Columns, as for the other estimators. With "auto" so do tables with strings, dates or missing values '
        "that the estimator cannot take; all others reach it as they came, and with None all do.",
        values='"auto", Columns or None',
        default="auto",
        option=None,
    )
    estimator: Any = setting(
        "Batch estimator to wrap.",
        "A scikit-learn regressor, classifier, clusterer or transformer, or pipeline of such; any object with "
        "``fit(X[, y], sample_weight=...)``; or a function ``solve(points, weights[, targets])`` that returns a "
        "model.",
        values="estimator or function",
        option=None,
        kw_only=False,
    )
    coreset: Any = setting(
        "Coreset, its class or a function that creates one.",
        "An empty coreset of :mod:`batch2online.coresets`, whose own settings apply; or a class or function that "
        "creates one from the settings below, such as ``coresets.Uniform``. None chooses by the type of "
        "estimator, and ``repr`` shows the choice, see Notes.",
        values="coreset, class, function or None",
        default=None,
        option=None,
    )
    refresh: Policy | None = _refresh(
        "None is ``Measured()``: refit whenever the rows have grown by half, and when the loss of recent rows has "
        "risen. If only some rows are kept, a refit is skipped where the gain of the last one shows that it would "
        "gain nothing. ``Measured(growth=1.26)`` refits twice as often."
    )
    loss: Any = setting(
        "Loss of a row.",
        'By name, ``"squared", "absolute", "huber", "quantile", "poisson", "gamma", "tweedie", "zero_one", "log", '
        '"distance", "squared_distance", "reconstruction", "negative_log_likelihood"``, with a setting ``("huber", '
        'delta), ("quantile", share)`` or ``("tweedie", power)``; or a function ``loss(model, points[, targets])`` '
        "that returns an array (n,). None is squared for regressors, log (or zero_one) for classifiers, "
        "squared_distance for clusterers, reconstruction for transformers, negative_log_likelihood for densities; "
        "functions need one.",
        values="str, tuple, function or None",
        default=None,
        option=None,
    )
    sensitivity: Any = setting(
        "Bound of the average sensitivity of the algorithm.",
        "A function ``n -> beta(n)`` of the model of n rows, coreset included and with the seed kept: of an "
        "algorithm with low sensitivity of its own. :func:`theory.certificate` uses it in place of that of the "
        "coreset; ``epsilon`` is then the accuracy of the algorithm.",
        values="function or None",
        default=None,
        option=None,
    )
    resample: bool = setting(
        "Fit to rows without weights.",
        "For estimators without ``sample_weight``. These are all rows while they are kept (see ``memory``), then a "
        "uniform sample.",
        default=False,
        option=None,
    )
    epsilon: float = setting(_EPSILON, "Weights are powers of ``1 + epsilon``.", default=0.1, gt=0, lt=1)
    memory: int | str = setting(
        "Memory for the rows that are kept, such as 2GB.",
        "Bytes that the kept rows may take, their strings included, if no ``coreset_size`` is given: a number, or "
        "a string with a unit. All rows are kept and fitted while they fit in it, then the largest coreset that "
        "does. Linear models (with ``coef_``) are fitted to a part of the kept rows, 500 for each coefficient and "
        "at least 5,000. Estimators that take the square of their rows in memory, like Gaussian processes, keep "
        "5,000 rows at most, support vector machines 20,000. Increase it if the model still gains by more rows, "
        "decrease it if refits take too long.",
        values='a number of bytes, or a string such as "512MB" or "2GB"',
        default="512MB",
        metavar="SIZE",
        ge=1,
        parse=checked_memory,
    )
    coreset_size: int | None = setting(
        _SIZE,
        "Models are fitted to them, whatever memory they take. None lets ``memory`` decide; it is 5,000 for "
        "clusterers, ``PCA`` and ``TruncatedSVD``, and if ``coreset`` is a class or function.",
        default=None,
        ge=1,
    )
    churn_price: float | None = setting(
        _CHURN_PRICE,
        "For clusterers: a refit replaces the model if it gains more on rows that it was not fitted to, as a share "
        "of the loss, than this price times the share of labels that change. None is 0.05, as for "
        "``OnlineClustering``; 0 always replaces it. The clusters of ``KMeans`` and ``MiniBatchKMeans`` keep their "
        "numbers.",
        default=None,
        ge=0,
    )


TASKS: Mapping[str, type[OnlineSettings]] = {
    "classification": ClassificationSettings,
    "clustering": ClusteringSettings,
    "lowrank": LowRankSettings,
    "regression": RegressionSettings,
}
"""Settings of the tasks of our own estimators, by the names that tasks have on the command line and in requests."""
