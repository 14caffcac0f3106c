"""Errors as sentences: what a person can put right is one sentence, with the options that lead on."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from batch2online.app.report.text import visible

if TYPE_CHECKING:
    from batch2online.app.inputs import DataError


def fail(message: str, code: int) -> int:
    """Print the message as one line; the code to exit with."""
    click.echo(f"Error: {visible(' '.join(message.split()))}", err=True)
    return code


def is_for_people(error: Exception) -> bool:
    """Whether the input, the machine or a missing package is to blame, and not this program."""
    if isinstance(error, OSError | ModuleNotFoundError | MemoryError):
        return True
    from batch2online.app.inputs import DataError
    from batch2online.datasets import MissingPackageError
    from batch2online.storage.errors import StoreError
    from batch2online.storage.tree import CheckpointError

    return isinstance(error, DataError | MissingPackageError | CheckpointError | StoreError)


def sentence(error: Exception, options: Collection[str] = ()) -> str:
    """Return what to tell a person, with those of a command's options that lead on."""
    if isinstance(error, ModuleNotFoundError):
        return f"This needs the package {error.name}: pip install 'batch2online[cli]'."
    from batch2online.app.inputs import DataError

    ways = _ways_on(error) if isinstance(error, DataError) else []
    fitting = [way for way in ways if re.search(r"--[a-z0-9-]+", way)[0] in options]  # type: ignore[index]  # each has one
    return f"{str(error).removesuffix('.')}; {', '.join(fitting)}." if fitting else str(error)


def _ways_on(error: DataError) -> list[str]:
    """Options that would let the readers take the input, each with what it does."""
    from batch2online.app.inputs import Remedy

    column, text = error.about
    ways = {
        Remedy.NO_HEADER: "--no-header takes the first line as a row",
        Remedy.SKIP_LINES: "--skip-lines N passes over the first N lines",
        Remedy.DROP_LINES: "--bad-lines drop leaves such lines out",
        Remedy.DROP_ROWS: "--missing drop leaves such rows out",
        Remedy.FILL_GAPS: "--missing mean fills them",
        Remedy.LOOK_FURTHER: "a larger --lookahead sees more rows before it decides",
        Remedy.LEAVE_OUT: f"--exclude {_word(column)} leaves the column out",
        Remedy.ENCODE_TEXT: "--categories encode accepts text",
        Remedy.ENCODE_DATES: "--dates number makes days of them",
        Remedy.OTHER_LEVEL: "--unknown other counts such texts as one",
        Remedy.MORE_LEVELS: f"--max-levels {text} gives each a column",
        Remedy.MISSING_WORD: f"--na-values {_word(text)} reads it as missing",
        Remedy.ENCODING: "--encoding cp1252 reads text of older Windows programs, latin-1 any bytes",
        Remedy.FORMAT: "--format names another format",
        Remedy.DATE_FORMAT: "--date-format says how they are written",
        Remedy.SEPARATOR: "--sep says what stands between values",
        Remedy.OTHER_TARGET: "--target can name another column",
        Remedy.QUERY: f"--query {shlex.quote(text or 'SELECT ...')} reads rows",
    }
    return [ways[remedy] for remedy in error.remedies]


def _word(text: str) -> str:
    """Return a text as a shell takes it for one of a list."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([text])
    return shlex.quote(line.getvalue())
