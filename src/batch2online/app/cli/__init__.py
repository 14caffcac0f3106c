"""The command ``batch2online``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; name the extra to install if its packages are missing."""
    variables = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
    if not any(name in os.environ for name in (*variables, "OMP_NUM_THREADS")):
        os.environ.update(dict.fromkeys(variables, "1"))  # BLAS, loaded later, is faster here with one thread
    try:
        import click  # noqa: F401
    except ImportError:
        print("Error: The command line needs more packages: pip install 'batch2online[cli]'.", file=sys.stderr)
        sys.exit(2)
    try:
        from batch2online.app.cli.app import run_safely

        sys.exit(run_safely(sys.argv[1:]))
    except KeyboardInterrupt:  # before click handles interrupts
        sys.exit(130)
