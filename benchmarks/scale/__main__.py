"""``python -m benchmarks.scale run|parts``; lines of JSON go to the screen and to ``--out``."""

import argparse

from benchmarks.scale import measure


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("what", choices=["run", "parts"])
    parser.add_argument("--task", choices=["regression", "clusters"], default="regression")
    parser.add_argument("--rows", type=float, default=1e7, help="rows")
    parser.add_argument("--start", type=float, default=0, help="rows that the model has seen before")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", help="a file that the model is read from and written to")
    parser.add_argument("--out", help="a file that lines are added to")
    given = parser.parse_args()
    if given.what == "run":
        found = measure.run(given.task, int(given.rows), given.workers, int(given.start), given.model)
    else:
        found = {"task": given.task, **measure.parts(given.task)}
    measure.kept(given.out, found)


if __name__ == "__main__":
    main()
