"""The commands and their options. Nothing heavy is imported before a command runs: help comes at once."""

from __future__ import annotations

import codecs
import csv
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from batch2online import __version__
from batch2online.app.cli import errors, tasks

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


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


_keep_formulas = click.option(
    "--keep-formulas",
    is_flag=True,
    help="In CSV files, leave strings as they are that a spreadsheet may run (=, +, -, @).",
)


def run_safely(arguments: Sequence[str]) -> int:
    """Run a command; what a person can put right is one sentence and exit code 2."""
    try:
        app(list(arguments), prog_name="batch2online", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return errors.fail("Stopped.", 130)
    except click.ClickException as error:
        return errors.fail(error.format_message(), 2)
    except BrokenPipeError:  # the reader of the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if not errors.is_for_people(error):
            raise
        return errors.fail(errors.sentence(error, _options_of(arguments)), 2)
    return 0


def _options_of(arguments: Sequence[str]) -> frozenset[str]:
    """Options of the command that was called, which alone can lead on."""
    command = next((app.commands[word] for word in arguments if word in app.commands), None)
    parameters = [] if command is None else command.params
    return frozenset(option for each in parameters for option in (*each.opts, *each.secondary_opts))


@click.group(context_settings=_CONTEXT, no_args_is_help=True)
@click.version_option(__version__, "--version", message="batch2online %(version)s")
def app() -> None:
    """Turn a batch model into an online one: what it would have cost, how often it would have changed."""


@app.command()
@input_and_task
@learner
@order("given")
@click.option("--chunk", type=click.IntRange(1), metavar="N", help="Rows a step; the result is the same for any.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for model, coreset and report.")
@click.option("--state", type=click.Path(path_type=Path), help="File in which the model lives: the run can go on.")
@click.option("--state-every", type=click.FloatRange(0), metavar="X", default=5.0, help="Seconds between two states.")
@click.option("--follow", is_flag=True, help="Wait for more at the end of FILE; an interrupt ends it.")
@click.option(
    "--flush", type=click.FloatRange(0), metavar="X", default=0.5, help="Seconds that live rows wait, at most."
)
@click.option("--emit", type=click.Choice(["predictions", "changes"]), help="A JSON line for each, while rows come.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Learn files side by side in N processes (Dask).")
@click.option("--scheduler", metavar="ADDRESS", help="Learn files on the Dask cluster behind this address.")
@_keep_formulas
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No live line, no notes.")
def run(files: tuple[str, ...], dataset: str | None, **given: Any) -> None:
    """Stream FILE (- for standard input) through an online model. Several files are one stream.

    \b
    batch2online run diamonds.csv --task regression --target price --out result
    batch2online run flights.csv --task classification --target late
    batch2online run 'pixels-*.parquet' --task clustering --k 5
    batch2online run flights.csv --task regression --target arr_delay \
        --estimator sklearn.ensemble.HistGradientBoostingRegressor --set max_iter=200
    tail -f rows.csv | batch2online run - --task lowrank --k 10
    """  # noqa: D301 (\b keeps lines apart)
    if sys.stderr.isatty() and not (given["quiet"] or given["as_json"]):
        click.echo("  starting\r", nl=False, err=True)  # until the live line can be drawn
    from batch2online.app.cli.commands.run import RunOptions
    from batch2online.app.cli.commands.run import run as run_command

    names = ("out", "state", "state_every", "chunk", "quiet", "follow", "flush", "emit", "workers", "scheduler")
    kept = {name: given.pop(name) for name in (*names, "keep_formulas")}
    run_options = RunOptions(json=given.pop("as_json"), **kept)
    run_command(files, dataset, _task_from(dataset, given), run_options)


def _task_from(dataset: str | None, given: dict[str, Any]) -> Any:
    """Return the task that the options ask for."""
    from batch2online.app.cli.settings import Settings

    return tasks.task_for(Settings(**given), dataset)


_model_path = click.Path(path_type=Path)


@app.command()
@click.argument("model", type=_model_path)
@click.argument("file")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="CSV or Parquet; standard output.")
@click.option("--id", "id_column", metavar="COLUMN", help="A column of FILE to write beside each prediction.")
@click.option("--append", is_flag=True, help="Write all columns of FILE beside each prediction.")
@click.option("--probabilities", is_flag=True, help="Write the probability of each class beside its prediction.")
@_keep_formulas
@options(*estimator_again, *how_to_read)
def predict(
    model: Path,
    file: str,
    out: Path | None,
    id_column: str | None,
    append: bool,
    probabilities: bool,
    keep_formulas: bool,
    estimator: str | None,
    sets: tuple[str, ...],
    **layout: Any,
) -> None:
    """Predictions, classes, clusters or coordinates by MODEL for each row of FILE, in its order.

    MODEL is a model.b2o, the folder of a run, or the file of --state. Columns are prepared as they were in that run; a
    row in which one is missing gets a line without a prediction.
    """
    from batch2online.app.cli.commands.predict import Beside
    from batch2online.app.cli.commands.predict import predict as predict_command

    beside = Beside(id_column, append, probabilities, keep_formulas)
    predict_command(model, file, out, beside, layout, estimator=estimator, sets=sets)


@app.command()
@click.argument("model", type=_model_path)
@click.option("--changes", type=click.IntRange(1), metavar="N", default=10, help="How many changes to list.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@options(*estimator_again)
def show(model: Path, changes: int, as_json: bool, estimator: str | None, sets: tuple[str, ...]) -> None:
    """Show what MODEL is, what it saw, what it cost and how it changed."""
    from batch2online.app.cli.commands.show import show as show_command

    show_command(model, as_json, changes, estimator=estimator, sets=sets)


@app.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@options(*columns)
def check(file: str, as_json: bool, **given: Any) -> None:
    """Say whether the rows of FILE (- for standard input) come in random order.

    The guarantee of an online model supposes that they do. One file in a thousand that does is called otherwise.
    """
    from batch2online.app.cli.commands.check import check as check_command

    check_command(file, as_json, **given)


@app.command()
@click.option("--write", metavar="NAME", help="Write this one to a CSV file instead of listing all.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Where to; NAME.csv by default.")
@click.option("--rows", type=click.IntRange(1), metavar="N", default=100_000, help="Rows of a synthetic set.")
@click.option("--seed", type=click.IntRange(0), metavar="N", default=0, help="Seed of a synthetic set.")
@_keep_formulas
def datasets(write: str | None, out: Path | None, rows: int, seed: int, keep_formulas: bool) -> None:
    """List the data sets there are: real ones from installed packages, and synthetic streams."""
    from batch2online.app.cli.commands import datasets as command

    if write is None:
        command.list_datasets()
    else:
        command.write_dataset(write, out or Path(f"{write}.csv"), rows, seed, keep_formulas)


@app.command()
@input_and_task
@learner
@order("random")
@click.option("--seeds", type=click.IntRange(1), metavar="N", default=5, help="How many random orders to average over.")
@click.option("--chunk", type=click.IntRange(1), metavar="N", help="Rows a step; 1,000 or a tenth of the rows.")
@click.option("--json", "as_json", is_flag=True, help="Print all runs and curves as JSON.")
def compare(
    files: tuple[str, ...], dataset: str | None, seeds: int, chunk: int | None, as_json: bool, **given: Any
) -> None:
    """Our learner, scikit-learn, River and baselines side by side on FILE.

    All rows are held in memory. Inputs and target of a regression are standardised first, columns of a low rank
    problem are centred, the same for all.
    """
    from batch2online.app.cli.commands.compare import Trial
    from batch2online.app.cli.commands.compare import compare as compare_command

    compare_command(files, dataset, _task_from(dataset, given), Trial(seeds, chunk, as_json))


@app.command()
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("paper"), help="Folder to write to."
)
@click.option("--full", is_flag=True, help="1,500 rows a stream instead of 300: the paper's algorithms are quadratic.")
@click.option("--rows", type=click.IntRange(60), metavar="N", help="Another number of rows.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", default=5, help="How many streams to average over.")
@click.option("--jobs", type=int, metavar="N", default=-1, help="Processes; -1 is one for each core.")
@click.option("--json", "as_json", is_flag=True, help="Print the last point of each line as JSON.")
def paper(out: Path, full: bool, rows: int | None, seeds: int, jobs: int, as_json: bool) -> None:
    """Run the experiment of the paper, with its algorithms and ours, and draw its figure."""
    from batch2online.app.cli.commands.paper import paper as paper_command

    paper_command(out, full, rows, seeds, jobs, as_json)
