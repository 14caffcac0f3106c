"""The command ``batch2online``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; say what to install where its packages are missing."""
    _ask_for_one_thread()
    try:
        import click  # noqa: F401
    except ImportError:
        print("Error: The command line needs more packages: pip install 'batch2online[cli]'.", file=sys.stderr)
        sys.exit(2)
    try:
        from batch2online.app.cli.app import run_safely

        sys.exit(run_safely(sys.argv[1:]))
    except KeyboardInterrupt:  # before the commands could see it
        sys.exit(130)


def _ask_for_one_thread() -> None:
    """Keep BLAS, which is loaded later, to one thread, unless somebody asks for more (``linalg/threads.py``)."""
    variables = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
    if not any(name in os.environ for name in (*variables, "OMP_NUM_THREADS")):
        os.environ.update(dict.fromkeys(variables, "1"))
