"""All campaigns: ``python -m torture [--scale 0.1] [name ...]`` from the folder ``tests``.

Each line gives the faults that were caused and what came of them; any other outcome ends the run with an error.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from torture import bad_input, durables, forged, fuzz, interrupts, stores, system_calls, threads, writers
from torture.machine import Machine
from torture.readers import readers


def state_machine(count: int) -> dict[str, int]:
    """Random sequences of 30 steps."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=count,
            stateful_step_count=30,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    return {"equal to the model from scratch after each step": count}


COUNTED = {
    "kills": (durables.kills, 2000),
    "store-power-loss": (stores.power_loss, 5000),
    "model-power-loss": (durables.power_loss, 1000),
    "checkpoint-truncations": (durables.truncations, 1000),
    "store-bit-flips": (stores.bit_flips, 5000),
    "checkpoint-bit-flips": (durables.bit_flips, 5000),
    "threads": (threads.predictions, 100_000),
    "writers": (writers.together, 20),
    "signals": (interrupts.signals, 100),
    "state-machine": (state_machine, 2000),
    "fuzz": (fuzz.loaders, 100_000),
    "readers": (readers, 100_000),
    "forged": (forged.campaign, 10_000),
    "bad-input": (bad_input.campaign, 20_000),
}
COMPLETE = {
    "interrupts": interrupts.every_line,
    "store-faults": stores.every_fault,
    "store-truncations": stores.truncations,
    "model-faults": durables.every_fault,
}
if system_calls.IS_AVAILABLE:
    COMPLETE["system-calls"] = system_calls.every_fault


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
