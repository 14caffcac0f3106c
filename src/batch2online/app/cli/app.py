"""The commands and their options. Heavy modules are imported only when a command runs, so that ``--help`` is fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from batch2online import __version__
from batch2online.app.cli import errors
from batch2online.app.learners import TASK_NAMES, all_options, flag
from batch2online.app.options import ColumnOptions, FileFormat, RowOptions
from batch2online.declaration import Setting, settings_of
from batch2online.settings import TASKS

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def options(*decorators: Option) -> Option:
    """Combine several options into one decorator, in the order in which help lists them."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _choice(name: str, values: Sequence[str], shown: str, **more: Any) -> Option:
    return click.option(name, type=click.Choice(values), help=shown, **more)


def _count(name: str, shown: str, least: int = 1, **more: Any) -> Option:
    return click.option(name, type=click.IntRange(least), metavar="N", help=shown, **more)


def _number(name: str, shown: str, bounds: click.FloatRange | None = None, **more: Any) -> Option:
    return click.option(name, type=bounds or click.FloatRange(0), metavar="X", help=shown, **more)


def _declared(name: str, shown: str, *declared: Setting) -> Option:
    """Return the option of a setting; ``declared`` are its declarations, of which each may allow further values."""
    defaults = {each.default if each.written_default is None else each.written_default for each in declared}
    default = defaults.pop()
    if not (defaults or declared[0].is_required or default in (None, ()) or default is False):
        is_word = not isinstance(default, str) or default.isalnum()
        shown += f" Default: {'yes' if default is True else default if is_word else repr(default)}."
    parts = dict.fromkeys(part for each in declared for part in each.written_parts)
    if bool in parts:
        return click.option(f"{flag(name)}/{flag(f'no-{name}')}", default=None, help=shown)
    choices = dict.fromkeys(str(choice) for part in parts if get_origin(part) is Literal for choice in get_args(part))
    if choices and len(parts) == 1:
        return _choice(flag(name), list(choices), shown)
    letters = {int: "N", float: "X", str: declared[0].metavar}
    others = [letters.get(part, "A,B,...") for part in parts if get_origin(part) is not Literal]
    return click.option(flag(name), metavar="|".join([*choices, *others]), help=shown)


def _of_table(cls: Any) -> list[Option]:
    return [_declared(each.name, each.brief, each) for each in settings_of(cls) if each.name != "order"]


def _of_learners() -> Iterator[Option]:
    """Yield the options of estimators, with the tasks that have them."""
    for name, tasks in all_options().items():
        declared, briefs = list(tasks.values()), {each.brief for each in tasks.values()}
        shown = declared[0].brief + ("" if len(tasks) > len(TASKS) else f" For {', '.join(tasks)}.")
        if len(briefs) > 1:
            shown = " ".join(f"{each.brief.removesuffix('.')} ({task})." for task, each in tasks.items())
        yield _declared(name, shown, *declared)


file_options = _of_table(FileFormat)
columns = [*_of_table(ColumnOptions), *file_options]
learner = options(*_of_learners())

_set = click.option("--set", "sets", metavar="NAME=VALUE", multiple=True, help="Parameter of --estimator; repeatable.")

stored_estimator = (
    click.option(
        "--trust", is_flag=True, help="Trust MODEL: load its fitted model whatever it holds, which may run any code."
    ),
    click.option("--estimator", metavar="NAME", help="Estimator of the run, to fit again, if MODEL is not trusted."),
    _set,
)

_ESTIMATOR = "Batch estimator to wrap: a dotted class name, or a .py file that defines `model`."
input_and_task = options(
    click.argument("files", metavar="[FILE]...", nargs=-1),
    click.option("--dataset", metavar="NAME", help="Built-in data set instead of FILE; see `batch2online datasets`."),
    _choice("--task", TASK_NAMES, "Learning task.", required=True),
    click.option("--estimator", "model", metavar="NAME", help=_ESTIMATOR),
    _set,
    *_of_table(RowOptions),
    *columns,
)


def _json(shown: str) -> Option:
    return click.option("--json", "as_json", is_flag=True, help=shown)


_quiet = click.option("--quiet", "-q", is_flag=True, help="Print neither progress nor notes.")


def order(default: str) -> Option:
    return _choice("--order", ["given", "random"], "Order of the rows.", default=default)


_keep_formulas = click.option(
    "--keep-formulas",
    is_flag=True,
    help="In CSV files, do not escape strings that a spreadsheet may run (=, +, -, @).",
)


def run_safely(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; an error of the input is printed as one sentence, with exit code 2."""
    try:
        code = app(list(arguments), prog_name="batch2online", standalone_mode=False)
        return code if isinstance(code, int) else 0  # click returns the code of Exit
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return errors.fail("Interrupted.", 130)
    except click.ClickException as error:
        return errors.fail(error.format_message(), 2)
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if not errors.is_expected(error):
            raise
        command = next((app.commands[word] for word in arguments if word in app.commands), None)
        parameters = [] if command is None else command.params
        known = {option for each in parameters for option in (*each.opts, *each.secondary_opts)}
        return errors.fail(errors.sentence(error, known), 2)
    return 0


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


@click.group(context_settings=_CONTEXT, no_args_is_help=True)
@click.version_option(__version__, "--version", message="batch2online %(version)s")
def app() -> None:
    """Turn batch estimators into online estimators: stream rows, measure loss, regret and model changes."""


def _call(name: str, given: dict[str, Any]) -> Any:
    """Call the function of a command in its module, which is imported here: most need NumPy."""
    return getattr(import_module(f"batch2online.app.cli.commands.{name}"), name)(**given)


@app.command()
@input_and_task
@learner
@order("given")
@_count("--chunk", "Rows per update; does not change the result.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for model, coreset and report.")
@click.option("--state", type=click.Path(path_type=Path), help="File that stores the model, to resume the run.")
@_number("--state-every", "Seconds between checkpoints of --state.", default=5.0)
@click.option("--follow", is_flag=True, help="Wait for further rows at the end of FILE until interrupted (Ctrl-C).")
@_number("--flush", "Seconds to buffer rows of a live input.", default=0.5)
@_choice("--emit", ["predictions", "changes"], "Write each as a JSON line to standard output.")
@_count("--workers", "Learn files in parallel in N processes (Dask).")
@click.option("--scheduler", metavar="ADDRESS", help="Learn files on the Dask cluster at this address.")
@_keep_formulas
@_json("Print the result as JSON.")
@_quiet
def run(**given: Any) -> None:
    """Stream FILE through an online model.

    FILE is - for standard input. Several files are read as one stream.

    \b
    batch2online run diamonds.csv --task regression --target price --out result
    batch2online run flights.csv --task classification --target late
    batch2online run 'pixels-*.parquet' --task clustering --k 5
    batch2online run flights.csv --task regression --target arr_delay \\
        --estimator sklearn.ensemble.HistGradientBoostingRegressor
    tail -f rows.csv | batch2online run - --task lowrank --k 10
    """  # noqa: D301 (\b keeps lines apart)
    if sys.stderr.isatty() and not (given["quiet"] or given["as_json"]):
        click.echo("  starting\r", nl=False, err=True)  # replaced by the progress line
    _call("run", given)


_model_path = click.Path(path_type=Path)
_EXCESS = "Share by which the loss of a replaced model must exceed that of the new one for an alarm."


@app.command()
@click.argument("model", type=_model_path)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--again", is_flag=True, help="Learn FILE although its content was learned before.")
@click.option("--alarms", metavar="A,B,...", help="Alarms: order, changes, none. Default: order,changes.")
@_number("--alarm-excess", _EXCESS, click.FloatRange(0), default=0.05)
@click.option("--webhook", metavar="URL", help="On an alarm, post the result as JSON to this address.")
@click.option("--on-alarm", metavar="CMD", help="On an alarm, run this command with the result on standard input.")
@click.option("--query", metavar="SQL", help="Query of a SQLite or DuckDB database, FILE.")
@_json("Print the result as JSON.")
@_quiet
def learn(**given: Any) -> int:
    """Append the rows of FILE to MODEL, as one transaction.

    MODEL is the file of --state of a run, which determines settings, columns and categories. Earlier files are not
    needed. A file that was learned before is recognised by its content and refused.

    The exit code is 3 if there was an alarm: rows that are not in random order, or a change of the model that says that
    the rows have changed.

    \b
    batch2online run night-1.csv --task regression --target delay --state delays.b2o
    batch2online learn delays.b2o night-2.csv
    """  # noqa: D301 (\b keeps lines apart)
    return int(_call("learn", given))


@app.command()
@click.argument("model", type=_model_path)
@click.argument("file")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="CSV or Parquet file. Default: standard output."
)
@click.option("--id", "id_column", metavar="COLUMN", help="Column of FILE to write beside each prediction.")
@click.option("--append", is_flag=True, help="Write all columns of FILE beside each prediction.")
@click.option("--probabilities", is_flag=True, help="Write the probability of every class beside each prediction.")
@_keep_formulas
@options(*stored_estimator, *file_options)
def predict(**given: Any) -> None:
    """Predict each row of FILE with MODEL.

    MODEL is a model.b2o file, the folder of a run, or the file of --state. Columns are preprocessed as in that run.
    Predictions are targets, classes, clusters or components, in the order of the rows; the prediction of a row with a
    missing value is empty.
    """
    _call("predict", given)


@app.command()
@click.argument("model", type=_model_path)
@_count("--changes", "Number of model changes to list.", default=10)
@_json("Print everything as JSON.")
@options(*stored_estimator)
def show(**given: Any) -> None:
    """Show parameters, loss and changes of MODEL."""
    _call("show", given)


@app.command()
@click.argument("file")
@_json("Print everything as JSON.")
@_count("--seed", "Random seed.", 0, default=0)
@options(*columns)
def check(**given: Any) -> None:
    """Test whether FILE is in random order.

    FILE is - for standard input. The regret bounds of online models assume random order. The false alarm rate of the
    test is at most 0.001.
    """
    _call("check", given)


@app.command()
@click.option("--write", metavar="NAME", help="Write this data set to a CSV file instead of listing all.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write. Default: NAME.csv.")
@_count("--rows", "Rows of a synthetic data set.", default=100_000)
@_count("--seed", "Random seed of a synthetic data set.", 0, default=0)
@_keep_formulas
def datasets(**given: Any) -> None:
    """List or write the built-in data sets."""
    _call("datasets", given)


@app.command()
@input_and_task
@learner
@order("random")
@_count("--seeds", "Number of random orders to average.", default=5)
@_count("--chunk", "Rows per update. Default: 1000, at most a tenth of the rows.")
@_json("Print all runs and curves as JSON.")
def compare(**given: Any) -> None:
    """Compare batch2online, scikit-learn and River.

    All learners see the same rows of FILE, which are held in memory. Features and target of a regression are
    standardized first; columns of a low-rank problem are centered.
    """
    _call("compare", given)


@app.command()
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("paper"), help="Folder for the figure."
)
@click.option("--theorems", is_flag=True, help="Draw regret, changes and average sensitivity beside their bounds.")
@click.option("--full", is_flag=True, help="Real data as well, and up to 100,000 rows per stream: half an hour.")
@click.option("--quick", is_flag=True, help="With --theorems: 10,000 rows per stream instead of 1,000,000.")
@_count("--rows", "Number of rows per stream.", 60)
@_count("--seeds", "Number of streams to average. Default: 5, or 3 in the quick forms.")
@click.option("--jobs", type=int, metavar="N", default=-1, help="Number of processes; -1 uses all cores.")
@_json("Print the end of each curve as JSON.")
def paper(**given: Any) -> None:
    """Reproduce the experiment of the paper, or show its theorems."""
    _call("paper", given)


@app.command()
@click.argument("models", type=click.Path(path_type=Path, file_okay=False))
@click.option("--host", default="127.0.0.1", help="Address to listen on; others than this machine need --token-file.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, help="Port to listen on.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with one token a line; 'read TOKEN' may not change models.",
)
@_count("--max-models", "Maximum number of models.", default=100)
@_count("--max-megabytes", "Maximum size of a request.", default=64)
@click.option("--estimators", metavar="A,B,...", help="Packages whose estimators requests may name. Default: sklearn.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="URL",
    help="Queue to learn from: redis://HOST/STREAM?model=NAME or kafka://HOST/TOPIC?model=NAME. May be repeated.",
)
def serve(**given: Any) -> None:
    """Serve the models in a folder over HTTP, and let them learn.

    \b
    batch2online serve models
    curl -X PUT localhost:8000/models/price -d '{"task": "regression", "target": "y"}'
    curl localhost:8000/models/price/learn -H 'Content-Type: application/json' -d '[{"x": 1, "y": 2}]'
    curl localhost:8000/models/price/predict -H 'Content-Type: application/json' -d '[{"x": 3}]'
    """  # noqa: D301 (\b keeps lines apart)
    _call("serve", given)
