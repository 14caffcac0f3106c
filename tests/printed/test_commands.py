"""The numbers that commands print, recomputed from the rows of their file."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from printed import expected, net, recompute
from printed.commands import ECHO, Table, run
from printed.net import Between
from printed.replays import CASES

FLEXIBLE = ("ridge", "tree", "logistic", "class tree")
FINAL = r"last_model\.ratio|last_model_ratio|(run|show): .*(final|current) model"
KNOWN = {
    "final model": (
        FINAL,
        [("ridge", 2), ("tree", 2), ("logistic", 2), ("class tree", 2)],
        "the final model of wrapped estimators: in-sample loss divided by out-of-sample loss",
    ),
    "components in units": (
        r"in_units\.components",
        [("subspace", 3)],
        "components by column name are in standard deviations, where scaling should be undone",
    ),
}


@pytest.fixture
def prints(capsys, monkeypatch):
    """Return what a command prints."""
    monkeypatch.setenv("COLUMNS", "400")

    def call(*words):
        capsys.readouterr()
        code = run(*words)
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out) if "--json" in words else out + err

    return call


def lines(name, text, known):
    """Return the complaints about a text, line by line; settings, paths and speeds are not numbers of the table."""
    shown = [line for line in text.splitlines() if not re.match(r"\s*(settings|report|source) ", line)]
    shown = [re.sub(r"(?<!\S)/\S*/|table\.csv|(copy)?\.b2o|at [\d,]+ rows/s", "", line) for line in shown]
    return [f"{name}: {each}" for line in shown for each in known.strangers(line)]


def strings(document):
    """Return the sentences of a document, without echoes of settings and names."""
    return [value for path, value in net.flat(document).items() if isinstance(value, str) and not re.match(ECHO, path)]


def wrong(name, seed, folder, prints):
    """Return the complaints about run, show, learn, predict and check of one table."""
    table, state = Table(name, seed, folder, standardise=seed % 2 == 1), folder / "state.b2o"
    text = prints("run", table.path, *table.words, "--state", state)
    result = prints("run", table.path, *table.words, "--json")
    out = net.complaints(result, table.document(result), ECHO)
    trust = ["--trust"] if table.case.wraps else []
    shown = prints("show", state, "--json", "--changes", 99, *trust)
    told = prints("show", state, "--changes", 99, *trust)
    ignored = rf"{ECHO}|files.*|model|changes\[\d+\]\.(coefficient_classes|seconds|gain|comparison).*"
    out += net.complaints(shown, table.shown(shown, result), ignored)
    known = table.said(result, shown)
    sentences = "\n".join(strings(result) + strings(shown))
    out += lines("run", text, known) + lines("show", told, known) + lines("document", sentences, known)
    out += predictions(table, state, folder, trust)
    if table.case.target:
        words = [word for word in table.words[table.words.index("--exclude") :] if word != "--standardize"]
        order = prints("check", table.path, *words, "--json")
        rules = expected.order(table.replay)
        out += lines("check", prints("check", table.path, *words), evidence(order))
        curve = [list(each) for each in zip(rules.pop("curve_rows"), rules.pop("curve"), strict=True)]
        del rules["ranked"]
        out += [f"check: {each}" for each in net.complaints(order, rules | {"curve": curve})]
    if not trust:
        told = [copy_of(state), table.second, "--alarms", "none"]
        night = prints("learn", state, table.second, "--json", "--alarms", "none")
        after = prints("show", state, "--json", "--changes", 99)
        out += [f"learn: {each}" for each in net.complaints(night, table.night(after["changes"]), ignored)]
        out += lines("learn", prints("learn", *told), table.said(night, after))
    return out


def copy_of(state):
    """Return a copy of a file, to learn the same rows twice."""
    return shutil.copy(state, state.with_name("copy.b2o"))


def evidence(order):
    """Return the numbers of a sentence about evidence, a power of ten that is rounded."""
    value = 10 ** order["evidence"]
    return net.Known(order, ranges=[Between(value / 10, value * 10)])


def predictions(table, state, folder, trust):
    """Return whether predictions in a file are those of the last model."""
    run("predict", state, table.path, "--out", folder / "out.csv", *trust)
    found = pd.read_csv(folder / "out.csv")
    answers = table.replay.versions[-1][1]
    if table.case.kind == "subspace":
        expect = table.X.to_numpy() @ table.replay.model.components_.T
    elif table.case.kind == "clusters":
        expect = answers[:, [1]]
    elif table.case.kind == "classes":
        expect = np.unique(table.replay.y)[answers.argmax(1)][:, None]
        return [] if (found.to_numpy() == expect).all() else ["predict: other classes"]
    else:
        expect = answers[:, None]
    return [] if np.allclose(found, expect, rtol=1e-6, atol=1e-6) else ["predict: other numbers"]


def cells():
    """Return each case on ten tables; in the quick tests two of them."""
    for name in CASES:
        for seed in range(10):
            quick = [] if (name, seed) in {("regression", 0), ("three classes", 1)} else [pytest.mark.slow]
            yield pytest.param(name, seed, marks=quick, id=f"{name}-{seed}")


@pytest.mark.parametrize(("name", "seed"), list(cells()))
def test_every_number_is_recomputed(name, seed, tmp_path, prints):
    known = [pattern for pattern, cells, _ in KNOWN.values() if name in dict(cells)]
    found = wrong(name, seed, tmp_path, prints)
    assert not [each for each in found if not any(re.match(pattern, each) for pattern in known)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "cell"),
    [
        pytest.param(pattern, cell, marks=pytest.mark.xfail(strict=True, reason=reason), id=f"{title}-{cell[0]}")
        for title, (pattern, cells, reason) in KNOWN.items()
        for cell in cells
    ],
)
def test_numbers_that_are_known_to_be_wrong(pattern, cell, tmp_path, prints):
    assert not [each for each in wrong(*cell, tmp_path, prints) if re.match(pattern, each)]


RECENT = [
    (name, settings)
    for settings, names in (
        ({"half_life": 120}, ["regression", "three classes", "quantile", "subspace", "clusters", "ridge"]),
        ({"window": 130}, ["regression", "three classes", "clusters", "tree"]),
    )
    for name in names
]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(
            name,
            settings,
            marks=[] if name == "regression" else [pytest.mark.slow],
            id=f"{name}-{next(iter(settings))}",
        )
        for name, settings in RECENT
    ],
)
def test_every_number_with_a_half_life_or_a_window_is_recomputed(name, settings, tmp_path, prints):
    table = Table(name, 5, tmp_path, **settings)
    result = prints("run", table.path, *table.words, "--json")
    rules = table.recent(result)
    out = net.complaints({key: result[key] for key in rules}, rules)
    text = prints("run", table.path, *table.words)
    assert not out + lines("run", "\n".join([text, *strings(result)]), table.said(result, rules))


def test_a_sorted_table_is_found_out_with_its_row_and_its_evidence(tmp_path, prints):
    path, rows = tmp_path / "table.csv", recompute.table(9)
    rows.sort_values("xa").to_csv(path, index=False)
    given = ["check", path, "--exclude", "k,two,three,weight", "--target", "y", "--missing", "mean"]
    order = prints(*given, "--json")
    assert order["rows"] == len(rows)
    assert order["evidence"] >= 3
    first = next(row for row, value in order["curve"] if value >= 3)
    assert 0 <= first - order["alarm"] < 64
    assert not lines("check", prints(*given), evidence(order))
