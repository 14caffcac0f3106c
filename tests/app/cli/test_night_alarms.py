"""Alarms of nights: a replaced model that has cost more than the new one by the share of ``--alarm-excess``."""

import json
import shutil

import numpy as np
import pytest

from batch2online.app.cli.app import run_safely


def write(path, n, slope, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    rows = np.column_stack([a, b, slope * a - b + rng.normal(size=n)])
    np.savetxt(path, rows, delimiter=",", header="a,b,y", comments="", fmt="%.5g")


@pytest.fixture
def first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("first.csv", 400, 1.0, 0)
    write("changed.csv", 900, 9.0, 1)
    assert run_safely(["run", "first.csv", "--task", "regression", "--target", "y", "--state", "m.b2o", "-q"]) == 0


def test_a_change_is_an_alarm_from_its_excess_on(first, capfd):
    def alarms(*options):
        shutil.copy("m.b2o", "copy.b2o")
        capfd.readouterr()
        code = run_safely(["learn", "copy.b2o", "changed.csv", "--json", "--alarms", "changes", *options])
        found = json.loads(capfd.readouterr().out)
        assert code == (3 if found["alarms"] else 0)
        return found["alarms"], found["changes"]

    _, changes = alarms()
    excess = {each["reason"]: each["cost_before"] / each["cost_after"] - 1 for each in changes}
    assert max(excess.values()) > 0.05
    largest = sorted(value for value in excess.values() if value > 0)[-3:]
    for limit in (0.05, *(factor * value for value in largest for factor in (0.999, 1.001))):
        expected = [reason for reason, value in excess.items() if value >= limit]
        assert alarms("--alarm-excess", f"{limit:.6g}")[0] == expected, limit
