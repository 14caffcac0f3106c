"""``batch2online show``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len

from batch2online.app.cli import terminal
from batch2online.app.cli.files import json_text
from batch2online.app.cli.models import load_model
from batch2online.app.cli.run.result import change_record, facts_of, last_model, parameters_of
from batch2online.app.features import ColumnFacts, Features
from batch2online.app.report.formatting import reason, visible
from batch2online.headline import count_of, number


def show(model: Path, as_json: bool, changes: int, trust: bool, estimator: str | None, sets: Sequence[str]) -> None:
    """Print parameters, loss and changes of a model."""
    stored = load_model(model, estimator, sets, trust)
    found = stored.model
    facts = _facts(found, stored.facts)
    if as_json:
        click.echo(json_text({**facts, "changes": [change_record(event, found) for event in found.changes_]}))
        return
    tables: list[Any] = [terminal.pairs(_lines(facts)), *_model_tables(facts["in_units"])]
    if found.changes_:
        table = terminal.listing()
        for head in ("at row", "size of change"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("reason")
        for event in found.changes_[-changes:][::-1]:
            table.add_row(f"{event.at:,}", f"{event.magnitude:.3g}", reason(event))
        tables.append(table)
    terminal.print_apart(*tables)


def _facts(model: Any, known: ColumnFacts) -> dict[str, Any]:
    """Return settings, metrics, loss and parameters of a model."""
    settings = {name: value for name, value in model.get_params(deep=False).items() if value is not None}
    features = Features.of(model, known)
    return {
        "model": type(model).__name__,
        "settings": {
            name: value if isinstance(value, int | float | str) else repr(value) for name, value in settings.items()
        },
        "inputs": model.feature_names() or features.names,
        "last_model_ratio": last_model(model)["ratio"],
        **facts_of(model, features, model.headline()),
        **parameters_of(model),
    }


def _lines(facts: dict[str, Any]) -> list[tuple[str, terminal.Value]]:
    inputs = facts["inputs"]
    listed = ", ".join(inputs[:8]) + (f" and {len(inputs) - 8:,} more" if len(inputs) > 8 else "")
    return [
        *([("verdict", terminal.printable(facts["verdict"], style="bold"))] if facts["verdict"] else []),
        *facts["summary"].items(),
        ("model", facts["model"]),
        ("settings", [f"{name}={value}" for name, value in facts["settings"].items()]),
        ("features", f"{len(inputs):,}: {listed}"),
        ("rows seen", f"{facts['rows']:,}"),
        ("online loss", f"{number(facts['loss'])}, {terminal.format_ratio(facts['ratio'])}, on {facts['regret_of']}"),
        ("regret", f"{number(facts['regret'])}, on {facts['regret_of']}"),
        ("current model", f"loss {terminal.format_ratio(facts['last_model_ratio'])}, on {facts['regret_of']}"),
        ("coreset", count_of(facts["coreset_size"], "row")),
    ]


def _model_tables(found: dict[str, Any], most: int = 20) -> list[Any]:
    """Return coefficients, centers or components with a line per feature; of many features those of largest value.

    Columns that do not fit on the terminal are left out, and a line says so.
    """
    columns = {f"cluster {index}": column for index, column in enumerate(found.get("centers", []))}
    columns |= {str(index + 1): column for index, column in enumerate(found.get("components", []))}
    columns |= {label: each["coefficients"] for label, each in found.get("classes", {}).items()}
    columns = columns or ({"coefficient": found["coefficients"]} if found else {})
    if not columns:
        return []
    names = list(next(iter(columns.values())))
    if len(names) > most:
        names = sorted(names, key=lambda name: -max(abs(column[name]) for column in columns.values()))[:most]
    cells = {head: [head, *(number(column[name]) for name in names)] for head, column in columns.items()}
    first = {"feature": ["feature", *names]}
    last = {"unit": ["unit", *(found["units"].get(name, "") for name in names)]} if found["units"] else {}
    width = terminal.console().width - _width(first) - _width(last)
    n_fitting = sum(total <= width for total in accumulate(_width({head: each}) for head, each in cells.items()))
    shown = dict(list(cells.items())[: max(1, n_fitting)])
    table = terminal.listing()
    for head, each in (first | shown | last).items():
        table.add_column(terminal.printable(each[0]), justify="right" if head in shown else "left", no_wrap=True)
    for line in zip(*(each[1:] for each in (first | shown | last).values()), strict=True):
        table.add_row(*map(terminal.printable, line))
    if len(shown) == len(cells):
        return [table]
    return [table, [terminal.paragraph(f"{len(shown)} of {len(cells)} columns; --json prints all of them.")]]


def _width(columns: dict[str, list[str]]) -> int:
    """Return how many cells columns take, with the space around them."""
    return sum(4 + max(cell_len(visible(each)) for each in column) for column in columns.values())
