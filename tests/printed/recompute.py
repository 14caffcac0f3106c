"""Numbers recomputed from rows, by NumPy, pandas, SciPy and scikit-learn alone: nothing here imports the package.

``versions`` describes a stream: pairs of the row count from which a model was current and its answers for all rows:
predictions; probabilities of the classes, in alphabetical order; distances to the nearest center and
labels; or squared distances to the subspace. All sums use the weights of the rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.special import xlogy
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.linear_model import LogisticRegression, PoissonRegressor, QuantileRegressor
from sklearn.metrics import roc_auc_score

TARGETS = ["y", "k", "two", "three"]
SIZES = (30, 47, 64, 101, 150, 211, 300, 420, 600, 800)
TINY = 1e-12  # the smallest mean of counts


def table(seed):
    """Return a random table: strings, missing values, constant columns, duplicates, rare classes, weights."""
    rng = np.random.default_rng(seed)
    n = SIZES[seed % 10]
    rows = pd.DataFrame({f"x{'abcdef'[j]}": rng.normal(3 * j, 1 + j, n).round(3) for j in range(2 + seed % 3)})
    if seed % 2:
        rows["s"] = rng.choice(list("abcd")[: 2 + seed % 3], n)
    if seed % 3 == 1:
        rows["constant"] = 7
    signal = (rows["xa"] - rows["xb"] / 2 + 1.5 * (rows["s"] == "a" if seed % 2 else 0)).to_numpy()
    rows["y"] = (10 + signal + rng.normal(0, 1, n)).round(3)
    rows["k"] = rng.poisson(np.exp(0.3 * signal.clip(-4, 4)))
    noisy = signal + rng.logistic(0, 0.7, n)
    rows["two"] = np.where(noisy > np.quantile(noisy, 0.9 - 0.06 * (seed % 5)), "yes", "no")
    rows["three"] = np.select(
        [noisy < np.quantile(noisy, 0.15), noisy < np.quantile(noisy, 0.7)], ["low", "mid"], "top"
    )
    if seed % 4 == 2:
        rows.iloc[n // 2 : n // 2 + n // 4] = rows.iloc[: n // 4].to_numpy()
    if seed % 3:
        rows["xb"] = rows["xb"].mask(rng.random(n) < 0.06)
    rows["weight"] = rng.integers(1, 5, n) / 2
    return rows.infer_objects()


def first_rows(rows, known=None):
    """Return the features of the rows of which columns are known: as many as the largest power of two."""
    return rows.drop(columns=[*TARGETS, "weight"])[: known or 1 << (len(rows).bit_length() - 1)]


def moments(rows, known=None):
    """Return mean and standard deviation of each column of numbers, 1 of a constant."""
    first = first_rows(rows, known).select_dtypes("number")
    spread = first.std(ddof=0)
    return first.mean(), spread.where(spread > 0, 1.0)


def prepared(rows, drop_first, standardise=False, known=None):
    """Return the columns before the target as numbers: imputed means, one-hot strings with those of later rows."""
    features, first = rows.drop(columns=[*TARGETS, "weight"]), first_rows(rows, known)
    mean, spread = moments(rows, known)
    blocks = pd.DataFrame(index=rows.index)
    for name, column in sorted(features.items(), key=lambda pair: pair[0] not in mean):  # numbers come first
        if name in mean:
            filled = column.fillna(mean[name]).astype(float)
            blocks[name] = (filled - mean[name]) / spread[name] if standardise else filled
            continue
        levels = sorted(first[name].unique())
        for level in levels[1 if drop_first else 0 :]:
            blocks[f"{name}={level}"] = (column == level).astype(float)
        blocks[f"{name}=other"] = (~column.isin(levels)).astype(float)
    return blocks


def codes(y):
    """Return the number of each row's class, in alphabetical order, and the classes."""
    return pd.factorize(np.asarray(y), sort=True)


def losses(kind, answers, y):
    """Return the loss of each row."""
    with np.errstate(divide="ignore"):
        match kind:
            case "squared":
                return (y - answers) ** 2
            case "poisson":
                return xlogy(y, y / np.maximum(answers, TINY)) - y + np.maximum(answers, TINY)
            case "quantile":
                return np.where(y > answers, 0.8 * (y - answers), 0.2 * (answers - y))
            case "classes":
                share = answers[np.arange(len(y)), codes(y)[0]]
                return -np.log(np.maximum(share, 1e-15))
            case "clusters":
                return answers[:, 0] ** 2
            case "subspace":
                return answers


def shares(counts):
    """Return the shares of classes, where a class that has not occurred has half a row."""
    return (counts + 0.5) / (counts.sum(1, keepdims=True) + 0.5 * ((counts > 0).sum(1, keepdims=True) + 1))


def so_far(kind, X, y, w):
    """Return what the mean, or the shares, of the earlier rows answer for each row; the first row costs nothing."""
    if kind == "classes":  # of equally frequent classes the first to occur is the answer
        hot = np.eye(codes(y)[0].max() + 1)[codes(y)[0]]
        found = shares(np.vstack([0 * hot[:1], np.cumsum(hot * w[:, None], 0)[:-1]]))
        return np.vstack([hot[:1], found[1:] - 1e-12 * hot.argmax(0)])
    if y is not None:
        return np.r_[y[0], (np.cumsum(w * y) / np.cumsum(w))[:-1]]
    mean = np.cumsum(X * w[:, None], 0) / np.cumsum(w)[:, None]
    squares = np.r_[0, ((X[1:] - mean[:-1]) ** 2).sum(1)]
    return np.c_[np.sqrt(squares), np.zeros(len(X))] if kind == "clusters" else squares


def stream(versions, before):
    """Return the answer for each row of the model that was current before it."""
    out = np.array(before, dtype=float)
    for at, answers in versions:
        out[at:] = answers[at:]
    return out


def baseline(kind, versions, X, y, w):
    """Return the answers of the baseline: the mean so far, or the shares of classes before each stretch of rows.

    The rows before the first model are scored by the shares of these rows themselves, which `from_earlier_rows` is not.
    """
    plain = so_far(kind, X, y, w)
    if kind != "classes" or not versions:
        return plain
    hot = np.eye(codes(y)[0].max() + 1)[codes(y)[0]] * w[:, None]
    bounds = [0, *(at for at, _ in versions), len(y)]
    for start, stop in pairwise(bounds):
        plain[start:stop] = shares(hot[: start or stop].sum(0, keepdims=True))
    return plain


def share(inside, of, w):
    """Return the share of the weight of some rows that others of them have; all of nothing is 1."""
    return np.average(inside[of], weights=w[of]) if of.any() else 1.0


def log_odds(coefficients, classes, name):
    """Return the coefficients of a class: of two, of the last, or with the other sign; an unknown one has none."""
    if name not in classes:
        return np.zeros(coefficients.shape[1])
    if len(coefficients) == 1:
        return coefficients[0] * (1 if classes.index(name) else -1)
    return coefficients[classes.index(name)]


def quality(kind, answers, y, w, part=slice(None), whole=True, total=None, first=1):
    """Return measures of some rows: those of all rows together (R2, AUC, recall) only for the whole stream."""
    found, mean = losses(kind, answers, y)[part], lambda values: np.average(values[part], weights=w[part])
    loss = np.average(found, weights=w[part])
    if kind == "clusters":
        return {"mean distance": mean(answers[:, 0])}
    if kind == "subspace":
        return ({"variance kept": 1 - loss * w[part].sum() / total} if total else {}) | {"RMS distance": loss**0.5}
    if kind in ("poisson", "quantile"):
        return {"MAE": mean(abs(y - answers)), "mean loss": loss}
    if kind == "squared":
        spread = np.average((y[part] - mean(y)) ** 2, weights=w[part])
        return ({"R2": 1 - loss / spread} if whole else {}) | {"RMSE": loss**0.5, "MAE": mean(abs(y - answers))}
    code, classes = codes(y)
    right = answers.argmax(1) == code
    out = {"accuracy": mean(right), "log loss": loss}
    if whole:
        rarest = np.bincount(code, w).argmin()
        its = code == rarest
        if len(classes) == 2:
            out["AUC"] = auc(answers[:, rarest], its, w, first)
        out[f"recall of rarest ({classes[rarest]})"] = np.average(right[its], weights=w[its])
    return out


def auc(score, positive, w, first):
    """Return the area under the curve: the range over possible scores of the rows before the first model.

    No page says how these rows, which no model predicted, are ranked: by shares so far, all alike, or last.
    """
    alike = np.average(positive[:first], weights=w[:first])
    scores = [np.r_[one, rest, score[first:]] for one in (0, 0.5, 1) for rest in (
        score[1:first], np.full(first - 1, alike), np.zeros(first - 1))]  # fmt: skip
    found = [roc_auc_score(positive, each, sample_weight=w) for each in scores]
    return min(found), max(found)


def optimum(kind, X, y, w, n_components=None):
    """Return the smallest loss of any single model on the same rows."""
    if kind == "squared":
        design = np.c_[np.ones(len(X)), X] * np.sqrt(w)[:, None]
        return ((design @ np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)[0] - y * np.sqrt(w)) ** 2).sum()
    if kind == "subspace":
        return np.linalg.eigvalsh((X * w[:, None]).T @ X)[:-n_components].sum()
    if kind == "clusters":
        return KMeans(n_components, n_init=30, random_state=0).fit(X, sample_weight=w).inertia_
    if kind == "classes":
        fitted = LogisticRegression(tol=1e-9, max_iter=10_000).fit(X, y, sample_weight=w)
        answers = fitted.predict_proba(X)[:, [list(fitted.classes_).index(name) for name in codes(y)[1]]]
    else:
        X = X[:, X.std(0) > 0]  # the intercept stands for a constant column
        fitted = PoissonRegressor(alpha=0, tol=1e-9, max_iter=1000, solver="newton-cholesky")
        fitted = QuantileRegressor(quantile=0.8, alpha=0) if kind == "quantile" else fitted
        answers = fitted.fit(X, y, sample_weight=w).predict(X)
    return (w * losses(kind, answers, y)).sum()


def seeds(X, w, k, draws=200):
    """Return the range of mean distances, and of mean squares, to the seeds that k-means++ draws."""
    found = [kmeans_plusplus(X, k, sample_weight=w, random_state=seed)[0] for seed in range(draws)]
    nearest = [np.sqrt(((X[:, None] - centers) ** 2).sum(2).min(1)) for centers in found]
    means = [[np.average(d**power, weights=w) for d in nearest] for power in (1, 2)]
    return [(min(values), max(values)) for values in means]


def change(kind, old, new, at, y, w, rest):
    """Return the numbers of a change after ``at`` rows: costs, what moved, and the loss on the rows that followed."""
    part, after = slice(at), slice(at, rest)
    before, now = losses(kind, old, y), losses(kind, new, y)
    mean = lambda values: np.average(values[part], weights=w[part])  # noqa: E731
    out = {"at": at, "cost_before": (w * before)[part].sum(), "cost_after": (w * now)[part].sum()}
    out["excess"] = out["cost_before"] / out["cost_after"] - 1
    if kind in ("squared", "poisson", "quantile"):
        out["prediction_change"] = mean((old - new) ** 2) ** 0.5
    if kind == "classes":
        out["churn"] = mean(old.argmax(1) != new.argmax(1))
    if kind == "clusters":
        out["churn"] = mean(old[:, 1] != new[:, 1])
    out["losses moved by"] = mean(abs(before - now))
    if rest > at:
        out["trial"] = [np.average(values[after], weights=w[after]) for values in (before, now)]
    return out
