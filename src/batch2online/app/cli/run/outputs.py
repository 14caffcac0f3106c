"""The files of ``--out``: all of them or none."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from batch2online.app.cli.files import json_text, write_csv
from batch2online.app.cli.run.replacing import put_in_place
from batch2online.app.cli.run.result import change_record
from batch2online.app.cli.run.state import INPUT
from batch2online.app.report.page import html
from batch2online.app.report.story import Ran
from batch2online.storage import model_file

FILES = frozenset({"model.b2o", "coreset.parquet", "coreset.csv", "changes.jsonl", "report.html", "result.json"})


def write_outputs(
    folder: Path, model: Any, result: dict[str, Any], ran: Ran | None = None, keep_formulas: bool = False
) -> Path:
    """Write everything beside the folder, then put it in place in one step; the path of the report."""
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        _write_all(staging, model, result, ran, keep_formulas)
        put_in_place(staging, target, FILES)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    _discard_replaced(staging)
    return folder / "report.html"


def _discard_replaced(staging: Path) -> None:
    """Remove the former outputs, which the exchange has put here, and nothing that somebody else has added."""
    with suppress(OSError):
        for name in FILES:
            (staging / name).unlink(missing_ok=True)
        staging.rmdir()


def _write_all(folder: Path, model: Any, result: dict[str, Any], ran: Ran | None, keep_formulas: bool) -> None:
    sources = {INPUT: {"preparation": result["preparation"], "source": result["source"]}}
    model_file.save(folder / "model.b2o", model._state() | model._fitted_state(), sources)
    coreset = coreset_table(model.coreset_, result, getattr(model, "_labels", None))
    parquet.write_table(coreset, folder / "coreset.parquet")
    with open(folder / "coreset.csv", "wb") as file:
        write_csv(coreset, file, keep_formulas=keep_formulas)
    changes = [json_text(change_record(event)) + "\n" for event in model.changes_]
    (folder / "changes.jsonl").write_text("".join(changes), encoding="utf-8")
    (folder / "report.html").write_text(html(model, result, ran), encoding="utf-8")
    (folder / "result.json").write_text(json_text(result, indent=1) + "\n", encoding="utf-8")


def coreset_table(coreset: Any, result: dict[str, Any], labels: dict[float, Any] | None = None) -> Any:
    """Return the coreset with an id and a weight beside the prepared columns."""
    columns: dict[str, Any] = {"id": coreset.ids, "weight": coreset.weights}
    for j, name in enumerate(result["inputs"]):
        columns[name] = np.ascontiguousarray(coreset.points[:, j])
    if coreset.targets is not None:
        columns[str(result["settings"]["target"])] = _told(coreset.targets, labels)
    return pa.table(columns)


def _told(targets: Any, labels: dict[float, Any] | None) -> Any:
    """Return targets, labels in place of their codes."""
    return [labels[code] for code in targets.tolist()] if labels else targets
