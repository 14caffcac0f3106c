"""The files of ``--out``: all of them or none."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from batch2online.cli.files import write_csv
from batch2online.cli.run.result import change_record
from batch2online.report.page import Subject, html


def write_outputs(folder: Path, model: Any, result: dict[str, Any], subject: Subject) -> Path:
    """Write everything beside the folder, then move it there; the path of the report."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _write_all(staging, model, result, subject)
        _move_into(folder, staging)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder / "report.html"


def _write_all(folder: Path, model: Any, result: dict[str, Any], subject: Subject) -> None:
    model.save(folder / "model.b2o")
    coreset = coreset_table(model.coreset_, result)
    parquet.write_table(coreset, folder / "coreset.parquet")
    with open(folder / "coreset.csv", "wb") as file:
        write_csv(coreset, file)
    changes = [json.dumps(change_record(event)) + "\n" for event in model.changes_]
    (folder / "changes.jsonl").write_text("".join(changes))
    (folder / "report.html").write_text(html(model, result, subject))
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")


def _move_into(folder: Path, staging: Path) -> None:
    """One rename where the folder is new; otherwise file by file, the result last."""
    if not folder.exists():
        staging.chmod(0o777 & ~_umask())
        os.rename(staging, folder)
        return
    for file in sorted(staging.iterdir(), key=lambda file: file.name == "result.json"):
        os.replace(file, folder / file.name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def coreset_table(coreset: Any, result: dict[str, Any]) -> Any:
    """The coreset with an id and a weight beside the prepared columns."""
    columns: dict[str, Any] = {"id": coreset.ids, "weight": coreset.weights}
    for j, name in enumerate(result["inputs"]):
        columns[name] = np.ascontiguousarray(coreset.points[:, j])
    if coreset.targets is not None:
        columns[str(result["settings"]["target"])] = coreset.targets
    return pa.table(columns)
