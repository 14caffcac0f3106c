"""Run the suite: ``python -m benchmarks.suite [--tiny | --full] [--only WORD ...] [--keep] [--out FOLDER] [--pages]``.

Measures speed and growth, then the studies of times (a quarter of an hour), stores what it finds in benchmarks/results,
one file each with command, commit and date, and writes every measured table and figure of README.md, docs and
benchmarks/results/README.md from the stored results. ``--full`` takes more rows and repetitions, and all studies:
hours. With ``--out`` everything goes to that folder instead. ``--only`` measures the files whose path holds a word,
such as ``lines/regression``, ``problems/clustering`` or ``studies/peers``, and prints what it finds; ``--keep`` stores
the studies among them; ``--seeds``, ``--first-seed`` and ``--sets`` choose their streams. ``--pages`` measures nothing
and writes the pages.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.suite import page, plots, run, stored
from benchmarks.suite.form import FORMS


def main() -> None:
    arguments = _arguments()
    form = replace(
        FORMS[arguments.form],
        seeds=arguments.seeds,
        first_seed=arguments.first_seed,
        sets=tuple(arguments.sets),
    )
    folder = arguments.out or stored.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    is_kept = arguments.keep or not arguments.only
    with threadpool_limits(1):
        for name, result in () if arguments.pages else run.results(form, arguments.only):
            if is_kept:
                stored.write(folder, name, result)
    if is_kept:
        write_pages(stored.read(folder), arguments.out)


def write_pages(results: dict[str, dict[str, Any]], out: Path | None) -> None:
    """Write what was measured into the pages of the repository, or into one page of another folder."""
    for path in [] if out else page.pages():
        path.write_text(page.filled(path.read_text(encoding="utf-8"), results), encoding="utf-8")
    whole = out / "tables.md" if out else stored.FOLDER / "README.md"
    whole.write_text(page.every_table(results), encoding="utf-8")
    plots.draw_all(results, out or stored.ROOT / "docs", out or stored.FOLDER)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--tiny", dest="form", action="store_const", const="tiny", default="quick")
    forms.add_argument("--full", dest="form", action="store_const", const="full")
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--seeds", type=int, help="how many streams a study is measured on")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="data sets of a study")
    parser.add_argument("--keep", action="store_true", help="store the studies of --only too")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pages", action="store_true", help="write the pages from the stored results")
    arguments = parser.parse_args()
    if arguments.form == "tiny" and arguments.out is None and (arguments.keep or not arguments.only):
        parser.error("--tiny measures nothing worth keeping: name a folder with --out")
    if (arguments.seeds or arguments.first_seed or arguments.sets) and not arguments.only:
        parser.error("--seeds, --first-seed and --sets choose streams for --only")
    if arguments.pages and arguments.only:
        parser.error("--pages measures nothing: leave --only out")
    return arguments


if __name__ == "__main__":
    main()
