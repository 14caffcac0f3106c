"""All campaigns: ``python -m torture [--scale 0.1] [name ...]`` from the folder ``tests``.

Each line gives the faults that were caused and what came of them; any other outcome ends the run with an error.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

from torture import (
    bad_input,
    bad_tables,
    conditions,
    damage,
    fuzz,
    interrupts,
    kills,
    nights,
    stops,
    threads,
    writers,
)
from torture.forgetting import forgetting
from torture.late import late_targets
from torture.machine import state_machine
from torture.readers import readers
from torture.served_kills import served
from torture.service_fuzz import service_fuzz
from torture.steady import steady

COUNTED = {
    "kills": (kills.durables, 3500),
    "kills-of-saves": (kills.saves, 700),
    "kills-with-late-targets": (late_targets, 1000),
    "kills-of-the-command-line": (kills.command_line, 800),
    "interrupts-of-the-command-line": (stops.interrupts, 500),
    "power-loss": (damage.power_loss, 5000),
    "bit-flips": (damage.bit_flips, 10_000),
    "full-disk": (conditions.full_disk, 1400),
    "state-machine": (state_machine, 300),
    "threads": (threads.predictions, 100_000),
    "writers": (writers.together, 20),
    "signals": (interrupts.signals, 100),
    "fuzz": (fuzz.loaders, 100_000),
    "readers": (readers, 100_000),
    "bad-input": (bad_input.campaign, 20_000),
    "kills-of-the-service": (served, 500),
    "fuzz-of-the-service": (service_fuzz, 20_000),
    "hour-of-load": (steady, 3_600),
    "bad-tables": (bad_tables.campaign, 1_500),
    "nights": (nights.campaign, 500),
}
COMPLETE = {
    "conditions": conditions.every_condition,
    "lost-files": damage.lost_files,
    "truncations": damage.truncations,
    "forgetting": forgetting,
    "interrupts": interrupts.every_line,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which, of {', '.join([*COMPLETE, *COUNTED])}; all if none")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full counts")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    for name in arguments.names or [*COMPLETE, *COUNTED]:
        started = time.perf_counter()
        if name in COMPLETE:
            outcomes = COMPLETE[name]()
        else:
            campaign, count = COUNTED[name]
            outcomes = campaign(max(1, round(count * arguments.scale)))
        seconds = time.perf_counter() - started
        print(f"{name}: {sum(outcomes.values()):,} in {seconds:.0f} s, all as promised", flush=True)
        for outcome, n in sorted(outcomes.items()):
            print(f"    {n:8,}  {outcome}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
