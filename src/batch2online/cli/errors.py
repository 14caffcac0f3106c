"""Errors as sentences: what a person can put right is one sentence, with the options that lead on."""

from __future__ import annotations

import click

from batch2online.report.text import visible


def fail(message: str, code: int) -> int:
    """Print the message as one line; the code to exit with."""
    click.echo(f"Error: {visible(' '.join(message.split()))}", err=True)
    return code


def is_for_people(error: Exception) -> bool:
    """Whether the input, the file system or a missing package is to blame, and not this program."""
    if isinstance(error, OSError | ModuleNotFoundError):
        return True
    from batch2online.datasets import MissingPackageError
    from batch2online.persistence.errors import StoreError
    from batch2online.persistence.tree import CheckpointError
    from batch2online.readers import DataError

    return isinstance(error, DataError | MissingPackageError | CheckpointError | StoreError)


def sentence(error: Exception) -> str:
    """Return what to tell a person."""
    if isinstance(error, ModuleNotFoundError):
        return f"This needs the package {error.name}: pip install 'batch2online[cli]'."
    return _with_options(error)


def _with_options(error: Exception) -> str:
    """Return the message, and the options that would let the readers take the input."""
    remedies = getattr(error, "remedies", ())
    if not remedies:
        return str(error)
    from batch2online.readers import Remedy

    options = {
        Remedy.NO_HEADER: "--no-header takes the first line as a row",
        Remedy.DROP_ROWS: "--missing drop leaves such rows out",
        Remedy.FILL_GAPS: "--missing mean fills them",
        Remedy.LOOK_FURTHER: "a larger --lookahead sees more rows before it decides",
        Remedy.LEAVE_OUT: "--columns can leave the column out",
        Remedy.ENCODE_TEXT: "--categories encode accepts text",
    }
    return f"{str(error).removesuffix('.')}; {', '.join(options[remedy] for remedy in remedies)}."
