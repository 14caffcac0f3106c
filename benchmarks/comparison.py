"""Ours, the baselines, scikit-learn and River on real data: loss against hindsight, changes, speed.

    python benchmarks/comparison.py [--problems regression lowrank clustering] [--sets NAME ...] [--only River]
    python benchmarks/comparison.py --orders [--rows 5000] [--seeds 3]

Chunks of 1,000 rows, loss from row 1,000 on (100 and 100 on sets of fewer than 2,000 rows); hindsight is the best model
of all rows. ``--orders`` compares random, sorted, drifting and other orders instead, in chunks of 100. Tables are in
Markdown, the least loss of each column in bold.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import rivals
from batch2online import datasets, evaluate

RANK, CLUSTERS = 10, 5
SETS = {
    "regression": ["diabetes", "cps1988", "diamonds", "flights"],
    "lowrank": ["digits", "breast_cancer", "letter", "china_patches", "mnist"],
    "clustering": ["digits", "diamonds", "china_pixels", "flights", "mnist"],
}
STRESS = {"regression": "diamonds", "lowrank": "letter", "clustering": "diamonds"}
ORDERS: dict[str, Any] = {
    "random": "random",
    "sorted by column 0": evaluate.Sorted(0),
    "drifting": "drifting",
    "blocks": "blocks",
    "hardest last": "adversarial",
}
SLOW_IN_MANY_COLUMNS = ("exponentiated", "gradient descent", "River")


def learners(problem: str, X: np.ndarray) -> dict[str, Any]:
    if problem == "regression":
        return rivals.regression()
    return rivals.lowrank(RANK) if problem == "lowrank" else rivals.clustering(CLUSTERS, X)


def rows_of(problem: str, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    return datasets.load_regression(name) if problem == "regression" else (datasets.load_rows(name), None)


def evaluated(
    problem: str, models: dict[str, Any], X: np.ndarray, y: Any, *, order: Any, seeds: int, chunk: int
) -> evaluate.Result:
    loss = {"regression": "squared", "lowrank": "lowrank", "clustering": "clustering"}[problem]
    return evaluate.prequential(
        models, X, y, loss=loss, order=order, seeds=seeds, chunk=chunk, warmup=chunk, progress=True
    )


def compare(problem: str, sets: list[str], seeds: int, only: str) -> None:
    columns: dict[str, dict[str, Any]] = {}
    for name in sets:
        try:
            X, y = rows_of(problem, name)
        except datasets.MissingPackageError as missing:
            print(f"left out: {missing}", flush=True)
            continue
        models = {m: model for m, model in learners(problem, X).items() if only in m}
        if X.shape[1] > 500:
            models = {m: model for m, model in models.items() if not m.startswith(SLOW_IN_MANY_COLUMNS)}
        chunk = 100 if len(X) < 2_000 else 1_000
        lines = evaluated(problem, models, X, y, order="random", seeds=seeds, chunk=chunk).summary()
        columns[f"{name}, {len(X):,} x {X.shape[1]}"] = {line["model"]: line for line in lines}
    print(f"\n{problem}: loss / hindsight, standard deviation (changes); rows/s of the last set\n")
    print(f"| learner | {' | '.join(columns)} | rows/s |\n|{'---|' * (len(columns) + 2)}")
    for model in dict.fromkeys(model for lines in columns.values() for model in lines):
        found = [lines[model] for lines in columns.values() if model in lines]
        cells = [cell(lines, model) if model in lines else "" for lines in columns.values()]
        print(f"| {model} | {' | '.join(cells)} | {found[-1]['rows_per_second']:,.0f} |", flush=True)


def cell(lines: dict[str, Any], model: str) -> str:
    line = lines[model]
    is_best = line["ratio"] == min(other["ratio"] for other in lines.values())
    ratio = f"**{line['ratio']:.4f}**" if is_best else f"{line['ratio']:.4f}"
    return f"{ratio} ± {line['ratio_std']:.4f} ({line['changes']:.0f})"


def stress(problem: str, rows: int, seeds: int) -> None:
    X, y = rows_of(problem, STRESS[problem])
    chosen = np.random.default_rng(0).permutation(len(X))[:rows]
    X, y = X[chosen], None if y is None else y[chosen]
    models = learners(problem, X)
    results = {
        name: evaluated(problem, models, X, y, order=order, seeds=seeds, chunk=100) for name, order in ORDERS.items()
    }
    print(f"\n{problem}, {STRESS[problem]}, {len(X):,} rows: loss / hindsight (changes)\n")
    print(f"| learner | {' | '.join(ORDERS)} |\n|{'---|' * (len(ORDERS) + 1)}")
    for model in models:
        cells = [f"{r.mean(model, 'ratio'):.3g} ({r.mean(model, 'changes'):.0f})" for r in results.values()]
        print(f"| {model} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="learners with this in their name")
    parser.add_argument("--orders", action="store_true")
    parser.add_argument("--rows", type=int, default=5_000)
    arguments = parser.parse_args()
    for problem in arguments.problems:
        if arguments.orders:
            stress(problem, arguments.rows, arguments.seeds)
        else:
            compare(problem, arguments.sets or SETS[problem], arguments.seeds, arguments.only)


if __name__ == "__main__":
    main()
