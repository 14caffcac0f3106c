"""``python -m mutants [name ...]`` in the folder ``tests``: which wrong changes of the package do the tests detect?

Names are files of the catalogue or functions. ``--stale`` only lists mutants whose function, code or test is gone.
Ends with an error unless all named tests pass on the unchanged code and each mutant is detected.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants.catalogue import Mutant, StaleError, mutants
from mutants.running import outcome, run


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files of the catalogue, or functions; all if none")
    parser.add_argument("--stale", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="after which a test is said to hang")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="holds src and tests")
    options = parser.parse_args(arguments)
    chosen = mutants(options.root, options.names)
    stale = _stale(chosen, options.root)
    if options.stale or not chosen:
        print(f"{len(stale)} of {len(chosen)} stale")
        return int(bool(stale) or not chosen)
    sound = [each for each in chosen if each not in stale]
    tests = sorted({each.test for each in sound})
    with ThreadPoolExecutor(options.processes) as pool:
        parts = [tests[start :: options.processes] for start in range(min(options.processes, len(tests)))]
        if any(pool.map(lambda part: run(part, options.root, options.root / "src"), parts)):
            print("not all tests pass on the unchanged code")
            return 1
        outcomes = pool.map(lambda each: _printed(each, outcome(each, options.root, options.seconds)), sound)
        counts = Counter(stale=len(stale)) + Counter(outcomes)
    detected = counts["detected"] + counts["hangs"]
    numbers = ", ".join(f"{count} {found}" for found, count in sorted(counts.items()))
    print(f"{detected} of {len(chosen)} detected ({numbers}) in {sum(os.times()[:4]):.0f} seconds of processor time")
    return int(detected < len(chosen))


def _stale(chosen: list[Mutant], root: Path) -> list[Mutant]:
    """Return the mutants that can no longer be made, and print why."""
    found = []
    for each in chosen:
        try:
            each.changed(root)
        except StaleError as reason:
            print(f"STALE ({reason})  {each}\n    {each.old}")
            found.append(each)
    return found


def _printed(mutant: Mutant, found: str) -> str:
    note = "" if found in ("detected", "hangs") else f"\n    {mutant.old}\n    {mutant.new}\n    {mutant.test}"
    print(f"{found}  {mutant}{note}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
