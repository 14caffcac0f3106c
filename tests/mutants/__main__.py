"""``python -m mutants [area ...]`` from the folder ``tests``: which wrong changes of the package do tests notice?

``--stale`` lists the mutants whose text is no longer there, ``--sample`` runs the few that CI runs, ``--base``
first runs all named tests on the code as it is. Ends with an error unless every mutant is killed or said to be
equivalent.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from mutants.catalogue import Mutant, mutants
from mutants.running import outcome, run, source_copy
from mutants.sample import sample


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", help="files of the catalogue, or single mutants as in core-3; all if none")
    parser.add_argument("--stale", action="store_true")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--base", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which tests are said to hang")
    arguments = parser.parse_args()
    chosen = sample() if arguments.sample else _chosen(arguments.areas)
    if arguments.stale:
        return _list_stale(chosen)
    if arguments.base and not _passes(chosen):
        return 1
    return _run(chosen, arguments.seconds)


def _chosen(names: list[str]) -> list[Mutant]:
    return [each for each in mutants() if not names or each.name in names or each.name.rpartition("-")[0] in names]


def _list_stale(chosen: list[Mutant]) -> int:
    stale = [(each, each.fault()) for each in chosen if each.fault()]
    for each, fault in stale:
        print(f"{each.name} {each.file}: {fault}\n    {each.old!r}")
    return bool(stale)


def _passes(chosen: list[Mutant]) -> bool:
    names = list(dict.fromkeys(test for each in chosen for test in each.tests))
    with source_copy() as copy:
        found = run(names, copy, 3600)
    print(f"{len(names)} tests or files of tests on the code as it is: {'passed' if found == 'survived' else 'FAILED'}")
    return found == "survived"


def _run(chosen: list[Mutant], seconds: float) -> int:
    counts: Counter[str] = Counter()
    with source_copy() as copy:
        for each in chosen:
            started = time.perf_counter()
            found = "equivalent" if each.equivalent else outcome(each, copy, seconds)
            counts[found] += 1
            took = time.perf_counter() - started
            print(f"{found:11} {took:5.1f} s  {each.name}  {each.file}: {each.why}", flush=True)
    judged = len(chosen) - counts["equivalent"]
    print(f"{counts['killed']} of {judged} killed; " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
    return int(counts["killed"] != judged)


if __name__ == "__main__":
    sys.exit(main())
