"""Nights of real tables, each in a process of its own, through each door: which one breaks, and what all of them cost.

``python -m torture nights`` runs all tables in real interpreters. ``python -m torture.nights --forks --table flights``
runs one table in processes that share the imports of others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from nights.cells import CELLS
from nights.doors import DOORS, BrokenError, Jobs, combinations, differences
from nights.interpreters import Interpreters
from nights.marks import reason
from nights.tables import TABLES

N_NIGHTS = 20


def campaign(
    n_rows: int, names=tuple(TABLES), n_nights=N_NIGHTS, doors=DOORS, cells=tuple(CELLS), forks=None
) -> Counter:
    """Print the table; return how many combinations came through, and how many break as they are known to."""
    outcomes: Counter[str] = Counter()
    surprises = []
    print("seconds are of processor time: of a whole process, on average over the nights that came through")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            interpreters = Interpreters(Path(folder) / "outputs", forks)
            jobs, scripts = Jobs(interpreters, Path(folder), name, n_nights, n_rows), {}
            print(f"\n{name}: {n_nights} nights of {n_rows} rows")
            print(
                f"{'door':18} {'estimator':26} {'kept':5} {'night':>8} {'script':>8} {'last':>6} {'script':>6}  breaks"
            )
            for door, cell, kept in combinations(doors):
                if cell not in cells:
                    continue
                if cell not in scripts:
                    scripts[cell] = attempted(jobs, cell)
                ours, stream = jobs.run(door, cell, kept)
                found = differences(ours, stream, kept)
                seconds = costs(ours.seconds, scripts[cell])
                print(f"{door:18} {cell:26} {kept!s:5} {seconds}  {shortened(found)}", flush=True)
                if found and reason(name, door, cell, kept) is None:
                    surprises.append((name, door, cell, kept, found))
                why = (reason(name, door, cell, kept) or "")[:3]
                outcomes[f"breaks, {why}" if found else "came through"] += 1
            interpreters.close()
    assert not surprises, "\n".join(map(str, surprises))
    return outcomes


def attempted(jobs, cell):
    """Return the seconds of the script, none if it does not run on the table."""
    try:
        return jobs.script(cell)
    except BrokenError as error:
        print(f"    script of {cell}: {error}"[:150])
        return []


def costs(ours, script):
    """Return the means over the nights that came through, and the seconds of the last of these, beside the script's."""
    n = min(len(ours), len(script))
    if not n:
        return f"{'-':>8} {'-':>8} {'-':>6} {'-':>6}"
    return f"{sum(ours[:n]) / n:8.2f} {sum(script[:n]) / n:8.2f} {ours[n - 1]:6.2f} {script[n - 1]:6.2f}"


def shortened(found):
    """Return what breaks, without the names of folders."""
    words = " ".join("; ".join(found).split())
    return " ".join(word for word in words.split(" ") if not word.startswith("/tmp/"))[:150] or "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="append", choices=TABLES)
    parser.add_argument("--door", action="append", choices=DOORS)
    parser.add_argument("--cell", action="append", choices=CELLS)
    parser.add_argument("--nights", type=int, default=N_NIGHTS)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--forks", nargs="?", const="", help="share the imports of other packages, or of `all`")
    given = parser.parse_args()
    forks = None if given.forks is None else given.forks.split()
    choice = (given.table or tuple(TABLES), given.nights, given.door or DOORS, given.cell or tuple(CELLS))
    print(campaign(given.rows, *choice, forks))


if __name__ == "__main__":
    sys.exit(main())
