"""Options that several commands share."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable
from typing import Any

import click

from batch2online.app.cli import tasks

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
Command = Callable[..., Any]


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which help shows them."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _names(_context: Any, _option: Any, text: str | None) -> tuple[str, ...]:
    """Return the texts that an option names, separated by commas."""
    return tuple(next(csv.reader([text], skipinitialspace=True))) if text else ()


def _character(_context: Any, option: Any, text: str | None) -> str | None:
    """Return what separates values, with words for those that a shell makes hard to write."""
    known = {"tab": "\t", "\\t": "\t", "space": " ", "whitespace": "whitespace"}
    if text is not None and text not in known and len(text) != 1:
        raise click.BadParameter(f"{text!r} is not one character, nor 'tab', 'space' or 'whitespace'.", param=option)
    return text if text is None else known.get(text, text)


def _encoding(_context: Any, option: Any, text: str | None) -> str | None:
    try:
        return text if text is None else codecs.lookup(text).name
    except LookupError:
        raise click.BadParameter(f"there is no encoding {text!r}; try cp1252 or latin-1.", param=option) from None


how_to_read = (
    click.option(
        "--format", type=click.Choice(FORMATS), help="Format of FILE; otherwise its first bytes and its name tell."
    ),
    click.option("--header/--no-header", default=True, help="Whether the first line holds names."),
    click.option("--sep", metavar="C", callback=_character, help="Between values: a character, tab or whitespace."),
    click.option("--decimal", metavar="C", default=".", help="Before the fraction of a number: . or ,"),
    click.option("--encoding", metavar="NAME", callback=_encoding, help="Of text, e.g. cp1252; UTF-8 by default."),
    click.option("--comment", metavar="C", help="Lines that begin with it are passed over."),
    click.option("--skip-lines", type=click.IntRange(0), metavar="N", default=0, help="Pass over the first N lines."),
    click.option(
        "--bad-lines", type=click.Choice(["refuse", "drop"]), default="refuse", help="Lines with too many values."
    ),
    click.option("--na-values", metavar="A,B,...", callback=_names, help="Further texts for a missing value."),
    click.option("--date-format", metavar="F", help="How dates are written, e.g. %d.%m.%Y; ISO 8601 by default."),
    click.option("--query", metavar="SQL", help="What to ask FILE, a SQLite or DuckDB database."),
)

columns = (
    click.option("--target", metavar="COLUMN", help="The column to be predicted."),
    click.option("--columns", metavar="A,B,...", callback=_names, help="The inputs; all other columns by default."),
    click.option("--exclude", metavar="A,B,...", callback=_names, help="Columns to leave out."),
    click.option(
        "--missing", type=click.Choice(["refuse", "drop", "mean", "keep"]), default="refuse", help="Missing values."
    ),
    click.option("--categories", type=click.Choice(["encode", "refuse"]), default="encode", help="Columns of text."),
    click.option(
        "--unknown", type=click.Choice(["other", "ignore", "refuse"]), default="other", help="Texts seen later."
    ),
    click.option(
        "--max-levels", type=click.IntRange(1), metavar="N", default=100, help="Texts with a column of their own."
    ),
    click.option(
        "--dates",
        type=click.Choice(["number", "parts", "refuse"]),
        default="number",
        help="Days; hour, weekday, month.",
    ),
    click.option("--seed", type=click.IntRange(0), metavar="N", default=0, help="Everything random follows from it."),
    *how_to_read,
)

estimator = (
    click.option(
        "--estimator", "model", metavar="NAME", help="A batch algorithm: a class by its dotted name, or a .py file."
    ),
    click.option("--set", "sets", metavar="NAME=VALUE", multiple=True, help="A parameter of --estimator; repeatable."),
)

estimator_again = (
    click.option("--estimator", metavar="NAME", help="The estimator of the run, where MODEL wraps one."),
    click.option("--set", "sets", metavar="NAME=VALUE", multiple=True, help="A parameter of --estimator; repeatable."),
)

input_and_task = options(
    click.argument("files", metavar="[FILE]...", nargs=-1),
    click.option("--dataset", metavar="NAME", help="A named data set instead of a file; see `batch2online datasets`."),
    click.option(
        "--task", type=click.Choice([*tasks.NAMES, *tasks.WRAPPED_ALONE]), required=True, help="What the model is."
    ),
    *estimator,
    click.option("--k", type=click.IntRange(1), metavar="N", help="Number of clusters or of components."),
    click.option(
        "--z", type=click.FloatRange(1), metavar="X", default=2.0, help="Power of the distance: 2 k-means, 1 k-median."
    ),
    click.option("--standardize", is_flag=True, help="Scale numbers by the mean and spread of the first rows."),
    click.option(
        "--lookahead",
        type=click.IntRange(1),
        metavar="N",
        help="Rows that levels and scales come from: 10,000; of a pipe those that come at once.",
    ),
    *columns,
)

_LOSSES = ("squared", "huber", "absolute", "quantile", "poisson", "gamma", "tweedie")

learner = options(
    click.option("--loss", type=click.Choice(_LOSSES), help="Of a regression; the squared one by default."),
    click.option("--quantile", type=click.FloatRange(0, 1, True, True), metavar="X", help="With --loss quantile."),
    click.option("--power", type=click.FloatRange(0), metavar="X", help="With --loss tweedie; 1.5 by default."),
    click.option("--delta", type=click.FloatRange(1, min_open=True), metavar="X", help="With --loss huber; 1.35."),
    click.option("--class-weight", type=click.Choice(["balanced"]), help="Let all classes weigh the same."),
    click.option("--alpha", type=click.FloatRange(0), metavar="X", help="Penalty of the coefficients, for each row."),
    click.option(
        "--l1-ratio", type=click.FloatRange(0, 1), metavar="X", help="Share of absolute values in the penalty."
    ),
    click.option("--epsilon", type=click.FloatRange(0, min_open=True), metavar="X", help="Accuracy of the coreset."),
    click.option("--coreset-size", type=click.IntRange(1), metavar="N", help="Expected size of the coreset instead."),
    click.option("--refresh", metavar="POLICY", help="When to solve again, e.g. geometric:1.1 or adaptive:2,1.1."),
    click.option("--half-life", metavar="N|auto", help="Rows after which a row counts half."),
    click.option("--window", type=click.IntRange(1), metavar="N", help="Learn from the last N rows alone."),
    click.option("--history", metavar="KIND", default="coreset", help="Clustering: coreset, memory or a folder."),
)


def order(default: str) -> Callable[[Command], Command]:
    choice = click.Choice(["given", "random"])
    return click.option("--order", type=choice, default=default, show_default=True, help="Order of the rows.")
