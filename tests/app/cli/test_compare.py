"""The commands compare and paper."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.cli.commands import paper as paper_command

TASKS = {
    "regression": ["--dataset", "diabetes", "--task", "regression"],
    "lowrank": ["--dataset", "breast_cancer", "--task", "lowrank", "--k", "3"],
    "clustering": ["--dataset", "breast_cancer", "--task", "clustering", "--k", "3"],
}


@pytest.mark.parametrize("task", TASKS)
def test_compare_runs_all_learners_on_the_same_streams(task, capsys):
    assert run_safely(["compare", *TASKS[task], "--seeds", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    models = list(dict.fromkeys(run["model"] for run in result["rows"]))
    assert models[0] == "batch2online"
    assert len(models) >= 5
    assert {run["seed"] for run in result["rows"]} == {0, 1}
    for seed in (0, 1):
        optima = {round(run["optimum"], 6) for run in result["rows"] if run["seed"] == seed}
        assert len(optima) == 1
    assert all(np.isfinite(run["loss"]) for run in result["rows"] if run["model"] == "batch2online")


def test_compare_needs_some_rows(tmp_path, capsys):
    path = tmp_path / "few.csv"
    path.write_text("a,target\n1,2\n3,4\n5,6\n")
    words = ["compare", str(path), "--task", "regression", "--target", "target", "--chunk", "2"]
    assert run_safely(words) == 2
    assert "few.csv has 3 rows, too few for chunks of 2" in capsys.readouterr().err


def test_paper_passes_its_options_and_prints_its_table(monkeypatch, tmp_path, capsys):
    asked = {}

    def figure(out, **options):
        asked.update(options, out=out)
        line = {"problem": "Regression", "data": "diabetes", "epsilon": 0.1, "ratio": 1.25, "regret": 7.0}
        table = [{**line, "algorithm": "ours"}, {**line, "algorithm": "the paper's", "ratio": 1.5}]
        return SimpleNamespace(png=Path(out) / "figure.png", table=table)

    monkeypatch.setattr(paper_command, "paper_figure", figure)
    assert run_safely(["paper", "--out", str(tmp_path), "--seeds", "2", "--rows", "70", "--jobs", "1"]) == 0
    assert asked == {"out": tmp_path, "quick": True, "rows": 70, "seeds": 2, "jobs": 1, "progress": False}
    text = " ".join(capsys.readouterr().out.split())
    assert "Regression diabetes 0.1 1.2500 (7) 1.5000 (7)" in text
    assert "figure.png" in text


def test_theorems_pass_their_options_and_print_slopes(monkeypatch, tmp_path, capsys):
    asked = {}

    def figures(out, **options):
        asked.update(options, out=out)
        names = {"problem": "regression", "d": 10, "k": "", "z": "", "epsilon": 0.1, "regret_std": 0.0}
        points = [
            {**names, "rows": n, "regret": r, "approximate_regret": r - n, "kept": 9, "bound": 1234.0}
            for n, r in ((100, 10.0), (1_000, 20.0), (10_000, 200.0))
        ]
        return SimpleNamespace(files=[Path(out) / "regret.svg"], regret=points)

    monkeypatch.setattr(paper_command, "theorem_figures", figures)
    words = ["paper", "--theorems", "--quick", "--out", str(tmp_path), "--seeds", "2", "--jobs", "1"]
    assert run_safely(words) == 0
    assert asked == {"out": tmp_path, "quick": True, "rows": None, "seeds": 2, "jobs": 1, "progress": False}
    text = " ".join(capsys.readouterr().out.split())
    assert "regression 10 0.1 10,000 200 1.00 1,234" in text
    assert "regret.svg" in text
    assert run_safely([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["per_fold"] == pytest.approx(180 / np.log(10))
