"""The command ``batch2online``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say what to install where its packages are missing."""
    try:
        import click  # noqa: F401
    except ImportError:
        print("Error: The command line needs more packages: pip install 'batch2online[cli]'.", file=sys.stderr)
        sys.exit(2)
    try:
        from batch2online.cli.app import run_safely

        sys.exit(run_safely(sys.argv[1:]))
    except KeyboardInterrupt:  # before the commands could see it
        sys.exit(130)
