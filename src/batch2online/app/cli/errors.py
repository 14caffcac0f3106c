"""Report errors of the input in one sentence, with the options that help."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import click

from batch2online.app.report.formatting import visible


def fail(message: str, code: int) -> int:
    """Print the message on one line and return the exit code."""
    click.echo(f"Error: {visible(' '.join(message.split()))}", err=True)
    return code


def is_expected(error: Exception) -> bool:
    """Whether an error comes from the input, the machine or a missing package, and not from a defect."""
    if isinstance(error, OSError | ModuleNotFoundError | MemoryError):
        return True
    from batch2online.app.inputs import DataError
    from batch2online.datasets import MissingPackageError
    from batch2online.storage.errors import StoreError
    from batch2online.storage.tree import CheckpointError

    return isinstance(error, DataError | MissingPackageError | CheckpointError | StoreError)


def sentence(error: Exception, options: Collection[str] = ()) -> str:
    """Return the message of an error, with those of a command's options that avoid it."""
    if isinstance(error, ModuleNotFoundError):
        return f"This needs the package {error.name}: pip install 'batch2online[cli]'."
    from batch2online.app.cli.settings import listed
    from batch2online.app.inputs import DataError

    if not isinstance(error, DataError):
        return str(error)
    column, value = (shlex.quote(listed([part])) for part in error.about)
    query = shlex.quote(error.about[1] or "SELECT ...")
    remedies = [remedy.format(column=column, value=value, query=query) for remedy in error.remedies]
    known = [remedy for remedy in remedies if remedy.split()[0] in options]
    return f"{str(error).removesuffix('.')}; {', '.join(known)}." if known else str(error)
