"""Missing values: means in the place of numbers before any scaling, no category of their own, and no vote on types."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from batch2online import BatchToOnline, Columns, OnlineClassifier, OnlineClustering, OnlineLowRank, OnlineRegression
from batch2online.app.cli.app import run_safely

pytestmark = pytest.mark.filterwarnings("ignore::batch2online.tables.codec.ColumnsWarning")
N, KNOWN = 300, 150


def table(seed=0):
    """Numbers far from zero and of several scales, times and strings, a fifth of each missing; targets without gaps."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "far": 1_000 + 50 * rng.normal(size=N),
            "near": rng.normal(size=N),
            "tiny": 1e-3 * rng.normal(size=N) - 7e-3,
            "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, N), unit="D"),
            "clock": pd.to_timedelta(rng.integers(0, 86_400, N), unit="s"),
            "city": rng.choice(["Graz", "Linz", "Wien"], N),
        }
    )
    y = data["far"] / 50 + 3 * data["near"] + 2_000 * data["tiny"] + 2 * (data["city"] == "Graz")
    data = data.mask(rng.random(data.shape) < 0.2)
    return data.assign(y=y, label=np.where(y > y.median(), "dear", "cheap"))


def features(data, names, first, standardized=False):
    """The features of these names by scikit-learn: means first, then scales, both of the values of the first rows."""
    first, given = numbers(first), numbers(data)
    filled = SimpleImputer().fit(first.to_numpy()).transform(given.to_numpy())
    scaled = StandardScaler().fit(first.to_numpy()).transform(filled) if standardized else filled
    found = dict(zip(given, scaled.T, strict=True))
    levels = {"Graz", "Linz", "Wien"}
    found |= {f"city={level}": data["city"] == level for level in levels} | {"city=other": ~data["city"].isin(levels)}
    return np.column_stack([found[name.partition(" (")[0]] for name in names]).astype(float)


def numbers(data):
    """Days and hours of times, and the other numbers."""
    days, hours = (data["day"] - pd.Timestamp(0)) / pd.Timedelta("1D"), data["clock"] / pd.Timedelta("1h")
    return data[["far", "near", "tiny"]].assign(day=days, clock=hours)


@pytest.fixture
def command(capsys):
    """Run a command; return its output, or the error that ends it."""

    def run(*words):
        code = run_safely(list(map(str, words)))
        found = capsys.readouterr()
        return found.out if code == 0 else " ".join(found.err.split())

    return run


def text_of(data):
    """The table as a file: times of day as a clock shows them."""
    clock = data["clock"].map(lambda value: "" if pd.isna(value) else str(value).split()[-1])
    return data.assign(clock=clock)


KINDS = {
    "regression": (["--task", "regression", "--target", "y"], lambda: OnlineRegression(random_state=0)),
    "labels": (["--task", "classification", "--target", "label"], lambda: OnlineClassifier(random_state=0)),
    "clusters": (["--task", "clustering", "--k", "3"], lambda: OnlineClustering(3, history="coreset", random_state=0)),
    "low rank": (["--task", "lowrank", "--k", "2"], lambda: OnlineLowRank(2, random_state=0)),
    "wrapped": (
        ["--task", "regression", "--target", "y", "--estimator", "sklearn.neighbors.KNeighborsRegressor"],
        lambda: BatchToOnline(KNeighborsRegressor(), loss="squared", resample=True, random_state=0),
    ),
}


@pytest.mark.parametrize("scaling", [[], ["--standardize"]], ids=["plain", "standardized"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_command_imputes_before_it_scales(kind, scaling, tmp_path, command):
    words, make = KINDS[kind]
    data, later = table(), table(1)
    target = words[words.index("--target") + 1] if "--target" in words else None
    text_of(data).to_csv(tmp_path / "rows.csv", index=False)
    text_of(later).to_csv(tmp_path / "later.csv", index=False)
    exclude = ",".join({"y", "label"} - {target})
    options = ["--missing", "mean", "--lookahead", KNOWN, "--exclude", exclude, "--state", tmp_path / "model.b2o"]
    result = json.loads(command("run", tmp_path / "rows.csv", *words, *scaling, *options, "--json"))
    X, Z = (features(each, result["inputs"], data[:KNOWN], bool(scaling)) for each in (data, later))
    model = make().partial_fit(X, None if target is None else data[target].to_numpy())
    assert result["metrics"] == pytest.approx(model.metrics_, rel=1e-6)
    assert (result["loss"], result["optimum"]) == pytest.approx((model.regret_.loss, model.regret_.optimum), rel=1e-6)
    trust = ["--trust"] if kind == "wrapped" else []
    answers = pd.read_csv(io.StringIO(command("predict", tmp_path / "model.b2o", tmp_path / "later.csv", *trust)))
    expected = model.predict(Z) if hasattr(model, "predict") else model.transform(Z)
    if kind == "labels":
        assert answers.iloc[:, 0].tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(answers.to_numpy()[:, : np.size(expected[0])].ravel(), expected.ravel(), rtol=1e-6)
    if kind == "regression":
        best = np.square(data["y"] - LinearRegression().fit(X, data["y"]).predict(X)).sum()
        assert result["optimum"] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("kind", ["regression", "labels", "clusters", "low rank"])
def test_columns_auto_imputes_as_scikit_learn_does(kind):
    data, later, make = table(), table(1), KINDS[kind][1]
    target = {"regression": "y", "labels": "label"}.get(kind)
    y, given = None if target is None else data[target].to_numpy(), data.drop(columns=["y", "label"])
    auto = make().set_params(columns=Columns(missing="mean")).fit(given, y)
    X, Z = (features(each, auto.columns_.names, data) for each in (data, later))
    model, rows = make().fit(X, y), later[given.columns]
    found, expected = (getattr(each, "predict", getattr(each, "transform", None)) for each in (auto, model))
    if kind == "labels":
        found, expected = auto.predict_proba, model.predict_proba
    np.testing.assert_allclose(found(rows), expected(Z), rtol=1e-6)
    if kind != "low rank":
        single = [auto.predict_one(row) for row in rows[:40].to_dict("records")]
        together = auto.predict(rows[:40]).tolist()
        assert single == (pytest.approx(together, rel=1e-9) if kind == "regression" else together)


# -- missing values are no strings --------------------------------------------------------------------------------


LOW_RANK = ("--task", "lowrank", "--k", "1", "--missing", "mean")


def strings(levels, times, missing):
    """So many levels, each so many times, and missing values, in random order."""
    values = [f"level {level}" for level in range(levels) for _ in range(times)] + [None] * missing
    return np.random.default_rng(0).permutation(np.array(values, dtype=object)).tolist()


LEVELS = [(90, 1, 300), (60, 2, 500), (100, 2, 300), (101, 3, 250), (120, 1, 0), (120, 1, 400), (130, 2, 3)]


@pytest.mark.parametrize(("levels", "times", "missing"), LEVELS)
def test_missing_values_are_no_levels(levels, times, missing):
    """A column of more than 100 levels, most of them unique, is ignored; of the others 100 have a feature."""
    values = strings(levels, times, missing)
    model = OnlineLowRank(1, random_state=0)
    model.fit(pd.DataFrame({"s": values, "x": np.sin(np.arange(len(values)))}))
    names = [name for name in model.columns_.names if name.startswith("s")]
    own = [name for name in names if name not in ("s=other", "s is missing")]
    is_ignored = levels > 100 and times == 1
    assert len(own) == (0 if is_ignored else min(levels, 100))
    assert ("s=other" in names) == (not is_ignored)
    assert ("s is missing" in names) == (not is_ignored and missing > 0)


def test_an_error_counts_distinct_values_without_the_missing_ones(tmp_path, command):
    pd.DataFrame({"s": strings(7, 30, 40), "x": np.arange(250.0)}).to_csv(tmp_path / "rows.csv", index=False)
    said = command("run", tmp_path / "rows.csv", *LOW_RANK, "--unknown", "refuse", "--max-levels", "5")
    assert "Column 's' holds 7 different strings: --unknown other gives" in said


# -- missing values have no vote on types -------------------------------------------------------------------------

VOTES = [(6, 4, 0), (6, 4, 30), (4, 6, 0), (4, 6, 30), (5, 5, 0), (5, 5, 11), (1, 2, 40), (9, 1, 90)]


@pytest.mark.parametrize("mark", ["", "NA", '""', "?"])
@pytest.mark.parametrize(("n_numbers", "n_words", "n_missing"), VOTES)
@pytest.mark.covering(times=2, axes=lambda mark, n_numbers, n_words, n_missing: (mark, (n_numbers, n_words, n_missing)))
def test_more_numbers_than_strings_make_a_column_of_numbers(mark, n_numbers, n_words, n_missing, tmp_path, command):
    """A few strings among numbers are typing errors, whose line is named; a few numbers among strings are strings."""
    values = [*map(str, range(n_numbers)), *["word"] * n_words, *[mark] * n_missing]
    values = np.random.default_rng(1).permutation(values).tolist()
    (tmp_path / "rows.csv").write_text("x,s\n" + "\n".join(f"{i}.5,{value}" for i, value in enumerate(values)))
    said = command("run", tmp_path / "rows.csv", *LOW_RANK, "--na-values", "?", "--json")
    if n_numbers > n_words:
        line = values.index("word") + 2
        assert f"line {line}, column 's': 'word' is not a number" in said
    else:
        names = {name for name in json.loads(said)["inputs"] if name.startswith("s=")} - {
            "s=other"
        }  # of a power of two
        assert set() < names <= {"s=word", *(f"s={number}" for number in range(n_numbers))}
