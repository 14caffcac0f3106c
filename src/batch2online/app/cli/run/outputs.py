"""The files of ``--out``. A folder is replaced as a whole: commands read either all old or all new files.

New files are renamed into ``.pending`` inside the folder, at once, and then moved to their places. While ``.pending``
exists its files are the valid ones: ``in_place`` finds them, and the next run completes the move.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from batch2online.app.cli.files import json_text, write_csv
from batch2online.app.cli.run.result import change_record
from batch2online.app.cli.run.state import INPUT
from batch2online.app.report.context import RunTime
from batch2online.storage import model_file
from batch2online.storage.system import sync_path

PENDING = ".pending"


def put_in_place(staging: Path, folder: Path) -> None:
    """Make the files of ``staging`` files of the folder."""
    for file in staging.iterdir():
        sync_path(file)
    if folder.exists():
        _finish(folder)
        os.rename(staging, folder / PENDING)
        _finish(folder)
    else:
        mask = os.umask(0)
        os.umask(mask)
        staging.chmod(0o777 & ~mask)
        os.rename(staging, folder)
    sync_path(folder.parent)


def in_place(folder: Path, name: str) -> Path:
    """Return the path of the valid file of this name."""
    pending = folder / PENDING / name
    return pending if pending.exists() else folder / name


def _finish(folder: Path) -> None:
    """Move the files under ``.pending`` to their places."""
    pending = folder / PENDING
    if pending.is_dir():
        for file in sorted(pending.iterdir()):
            os.replace(file, folder / file.name)
        sync_path(folder)
        pending.rmdir()


def run_report(model: Any, result: dict[str, Any], run_time: RunTime | None) -> str:
    """Return the report of a run as a page."""
    from batch2online.app.report import page

    return page.run_report(model, result, run_time)


def write_outputs(
    folder: Path, model: Any, result: dict[str, Any], run_time: RunTime | None = None, keep_formulas: bool = False
) -> Path:
    """Write all files to a temporary folder, then put it in place; return the path of the report."""
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        _write_all(staging, model, result, run_time, keep_formulas)
        put_in_place(staging, target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return folder / "report.html"


def _write_all(folder: Path, model: Any, result: dict[str, Any], run_time: RunTime | None, keep_formulas: bool) -> None:
    sources = {INPUT: {"facts": result["facts"], "source": result["source"]}}
    model_file.save(folder / "model.b2o", model._state(), sources)
    coreset = coreset_table(model.coreset_, result, getattr(model, "_labels", None))
    parquet.write_table(coreset, folder / "coreset.parquet")
    with open(folder / "coreset.csv", "wb") as file:
        write_csv(coreset, file, keep_formulas=keep_formulas)
    changes = [json_text(change_record(event, model)) + "\n" for event in model.changes_]
    (folder / "changes.jsonl").write_text("".join(changes), encoding="utf-8")
    (folder / "report.html").write_text(run_report(model, result, run_time), encoding="utf-8")
    (folder / "result.json").write_text(json_text(result, indent=1) + "\n", encoding="utf-8")


def coreset_table(coreset: Any, result: dict[str, Any], labels: dict[float, Any] | None = None) -> Any:
    """Return the coreset as a table: ids, weights, prepared columns, targets as labels if they are classes."""
    columns: dict[str, Any] = {"id": _numbers(coreset.ids), "weight": _numbers(coreset.weights)}
    for j, name in enumerate(result["inputs"]):
        columns[name] = _numbers(coreset.points[:, j])
    if coreset.targets is not None:
        targets = [labels[code] for code in coreset.targets.tolist()] if labels else _numbers(coreset.targets)
        columns[str(result["settings"]["target"])] = targets
    return pa.table(columns)


def _numbers(values: Any) -> Any:
    """Return an array for a table; ``pa.array`` would import pandas."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
