"""Memory that a state will take is known first: what does not fit is refused with a sentence, and nothing changes."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from batch2online import (
    BatchToOnline,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    coresets,
)
from batch2online.app.cli.app import run_safely
from batch2online.engine import builder
from batch2online.numerics import memory
from defects.subjects import ESTIMATORS, learned, some, state

GIGABYTE = 10**9


@pytest.fixture
def there(monkeypatch):
    """A function that says how many bytes there are."""
    return lambda size: monkeypatch.setattr(memory, "available", lambda: float(size))


WIDE = {
    "OnlineLowRank": lambda: OnlineLowRank(2, random_state=0),
    "OnlineRegression": lambda: OnlineRegression(random_state=0),
    "coreset": lambda: OnlineRegression(solve="coreset", random_state=0),
    "quantile": lambda: OnlineRegression(loss="quantile", random_state=0),
    "OnlineClassifier": lambda: OnlineClassifier(random_state=0),
    "PCA": lambda: BatchToOnline(PCA(2), random_state=0),
    "Leverage": lambda: BatchToOnline(Ridge(), coreset=coresets.Leverage, random_state=0),
}


@pytest.mark.parametrize("how", ["fit", "partial_fit", "learn_one"])
@pytest.mark.parametrize("name", WIDE)
def test_statistics_that_would_not_fit_are_refused_before_they_are_made(name, how, there):
    there(20 * GIGABYTE)
    model = WIDE[name]()
    X, y = sp.eye(3, 40_000, format="csr"), [0, 1, 0]
    said = r"of rows of 40,000 columns, with what a refit takes, would take \d+(\.\d)? GB .*20.0 GB are available\. Use"
    with pytest.raises(MemoryError, match=said):
        model.learn_one(np.zeros(40_000), 1) if how == "learn_one" else getattr(model, how)(X, y)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", ["Uniform", "OnlineClustering", "Ridge"])
def test_estimators_without_such_statistics_take_wide_rows(name, there):
    there(GIGABYTE)
    X, y = sp.random(60, 20_000, density=0.001, format="csr", random_state=0), np.arange(60.0)
    model = {
        "Uniform": BatchToOnline(Ridge(), coreset=coresets.Uniform, random_state=0),
        "OnlineClustering": OnlineClustering(3, random_state=0),
        "Ridge": BatchToOnline(Ridge(), random_state=0),
    }[name]
    assert model.partial_fit(X, y).n_seen_ == 60


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.few(3)
def test_what_is_said_to_be_taken_is_about_what_is_taken(name):
    rng, model = np.random.default_rng(0), WIDE[name]()
    X, y = rng.normal(size=(50, 500)), rng.integers(2, size=50)
    tracemalloc.start()
    try:
        with mock.patch.object(builder, "check_available", wraps=builder.check_available) as check:
            model.fit(X, y)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = check.call_args_list[0].args[0]
    assert taken / 2 < said < 2 * taken


def test_many_classes_of_many_columns_are_refused_when_they_come(there):
    X, y = np.random.default_rng(0).normal(size=(3_000, 100)), np.arange(3_000)
    model = OnlineClassifier(random_state=0).partial_fit(X, y % 3)
    before = state(model)
    there(GIGABYTE / 2)
    with pytest.raises(MemoryError, match="100 columns and 3,000 classes, with what a refit takes, would take 734 MB"):
        model.partial_fit(X, y)
    assert state(model) == before
    with pytest.raises(MemoryError, match="3,000 classes"):
        OnlineClassifier(random_state=0).fit(X, y)


def test_a_penalty_that_needs_a_hessian_of_all_classes_is_refused(there):
    X, y = np.random.default_rng(0).normal(size=(400, 60)), np.arange(400) % 40
    there(GIGABYTE / 10)
    with pytest.raises(MemoryError, match="Hessian of 40 classes and 61 columns would take 143 MB"):
        OnlineClassifier(alpha=0.01, l1_ratio=0.5, random_state=0).fit(X, y)
    assert OnlineClassifier(alpha=0.01, random_state=0).fit(X, y).n_seen_ == 400


@pytest.mark.parametrize("how", ["partial_fit", "fast"])
@pytest.mark.parametrize("name", ["OnlineClustering", "OnlineRegression"])
def test_rows_of_a_history_that_would_not_fit_are_refused(name, how, there):
    make, targets = ESTIMATORS[name]
    model = learned(make(), targets, 0, 100)
    before = state(model)
    there(1_000)
    X, y = np.zeros((3_000_000, 3)), None if targets is None else np.zeros(3_000_000)
    with pytest.raises(MemoryError, match=r"history of 3,000,000 more rows of 3 columns would take 1(68|92) MB"):
        model.partial_fit(X if how == "fast" else X.astype(np.float32), y)
    assert state(model) == before


def test_a_coreset_takes_no_more_than_its_size(there):
    there(1_000)
    X, y = np.zeros((1_300_000, 3)), np.zeros(1_300_000)
    model = OnlineRegression(random_state=0).partial_fit(X[:100], y[:100])
    model._stream.check_rows_fit(len(X))
    with pytest.raises(MemoryError, match="coreset of 1,300,000 more rows"):
        BatchToOnline(Ridge(), coreset=coresets.Everything, random_state=0).partial_fit(X, y)


def test_the_command_line_says_it_in_a_sentence(tmp_path, capsys, there):
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(",".join(map(str, range(2_000))) for _ in range(3)) + "\n")
    there(GIGABYTE / 10)
    code = run_safely(
        ["run", str(path), "--task", "lowrank", "--k", "2", "--no-header", "--out", str(tmp_path / "out")]
    )
    assert code == 2
    assert "RidgeLeverage of rows of 2,000 columns" in capsys.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space are those of Linux")
def test_a_limit_of_the_process_counts():
    code = """
import resource
from batch2online.numerics import memory
before = memory.available()
resource.setrlimit(resource.RLIMIT_AS, (2**33, resource.RLIM_INFINITY))
after = memory.available()
assert after < 2**33 and (before is None or after <= before + 2**28), (before, after)
resource.setrlimit(resource.RLIMIT_AS, (2**20, resource.RLIM_INFINITY))
assert memory.available() == 0
print("known")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "known" in done.stdout, done.stderr


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("groups", "left"),
    [
        ({}, 8_000 * 1024),
        ({"self__cgroup": "0::/a/b\n"}, 8_000 * 1024),
        ({"self__cgroup": "0::/a/b\n", "v2": ("a", "3000000", "1000000", "inactive_file 500000\n")}, 2_500_000),
        ({"self__cgroup": "0::/a/b\n", "v2": ("a/b", "max", "1000000", "")}, 8_000 * 1024),
        ({"self__cgroup": "0::/a\n", "v2": (".", "2000000", "3000000", "")}, 0),
        ({"self__cgroup": "5:memory:/job\n3:cpu:/x\n", "v1": ("job", "900000", "400000", "")}, 500_000),
    ],
)
def test_control_groups_count(groups, left, tmp_path, monkeypatch):
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    write(proc, meminfo="MemTotal:  9000 kB\nMemAvailable:  8000 kB\n")
    if "self__cgroup" in groups:
        write(proc, self__cgroup=groups["self__cgroup"])
    if "v2" in groups:
        folder, most, now, stat = groups["v2"]
        write(cgroup / folder, memory_dot_max=most, memory_dot_current=now, memory_dot_stat=stat)
    if "v1" in groups:
        folder, most, now, stat = groups["v1"]
        write(cgroup / "memory" / folder, memory_dot_limit_in_bytes=most, memory_dot_usage_in_bytes=now)
    monkeypatch.setattr(memory, "_PROC", proc)
    monkeypatch.setattr(memory, "_CGROUP", cgroup)
    monkeypatch.setattr(memory, "_of_limits", lambda: iter(()))
    assert memory.available() == left


def test_where_nothing_is_known_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    memory.check_available(1e30, "This", "That.")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_little_is_never_compared(name, monkeypatch):
    def fail():
        raise AssertionError("asked for the memory of the machine")

    monkeypatch.setattr(memory, "available", fail)
    make, targets = ESTIMATORS[name]
    assert learned(make(), some(targets, 0, 200), 0, 200).n_seen_ == 200
