"""Reading the segments of a store back: what can be believed, and what is to be done about the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batch2online.persistence.files import TEMPORARY, Files
from batch2online.persistence.store.errors import StoreCorrupted
from batch2online.persistence.store.extents import Extents
from batch2online.persistence.store.records import Damage, Header, map_file, scan, was_durable


@dataclass(frozen=True)
class Recovery:
    """What was dropped when a store was opened.

    Attributes
    ----------
    rows : int
        Rows that remain.
    dropped_bytes : int
        Bytes behind them, of records that are incomplete or damaged.
    segment : str
        Name of the file in which they begin.
    reason : str
        What is wrong there.
    """

    rows: int
    dropped_bytes: int
    segment: str
    reason: str


@dataclass
class Found:
    """What is known of a store from its files, up to a byte of its last segment that can be believed."""

    columns: int
    extents: Extents
    number: int = 0
    end: int = 0
    checksum: int = 0
    recovery: Recovery | None = None


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:08d}.rows"


def segment_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.rows"))


def read_segments(folder: Path, repair: bool) -> Found:
    """Check every byte of every segment. Damage that no crash explains is refused unless it is to be repaired."""
    paths = segment_paths(folder)
    found = _first(paths[0])
    for number, path in enumerate(paths):
        content = map_file(path)
        damage = _read_segment(found, number, content)
        if damage is not None:
            at = found.end if found.number == number else 0
            is_crash = at > 0 and path == paths[-1] and not was_durable(content, at)
            if not (is_crash or repair):
                raise _corrupted(path, at, damage, found.extents.n_rows)
            dropped = len(content) - at + sum(later.stat().st_size for later in paths[number + 1 :])
            found.recovery = Recovery(found.extents.n_rows, dropped, path.name, damage)
            break
    return found


def _first(path: Path) -> Found:
    """A store of which only the number of columns is known: without the first header there is nothing to keep."""
    try:
        columns = Header.unpack(map_file(path)).columns
    except Damage as damage:
        raise _corrupted(path, 0, str(damage), 0) from damage
    return Found(columns, Extents(columns * 8))


def _corrupted(path: Path, at: int, damage: str, rows: int) -> StoreCorrupted:
    return StoreCorrupted(
        f"{path} is damaged at byte {at}: {damage}. {rows:,} rows before it are intact: repair=True keeps them alone."
    )


def _read_segment(found: Found, number: int, content: Any) -> str | None:
    """Take in a segment as far as it is intact, and say what is wrong with the rest."""
    try:
        header = Header.unpack(content)
    except Damage as damage:
        return str(damage)
    if header != Header(found.columns, number, found.extents.n_rows, found.checksum):
        return "it does not follow the segment before it"
    result = scan(content, header)
    for record in result.records:
        found.extents.cut(record.start)
        found.extents.add(number, record.at, record.rows)
    found.number, found.end, found.checksum = number, result.end, result.checksum
    return result.damage


def recover(files: Files, folder: Path, found: Found) -> None:
    """Bring the files to what was found, for good: later segments set aside, the last one cut where it is intact."""
    for path in folder.glob(f".*{TEMPORARY}"):
        files.remove(path)
    for path in reversed(segment_paths(folder)[found.number + 1 :]):
        files.rename(path, path.with_suffix(".damaged"))
    files.fsync_folder(folder)
    descriptor = files.open(segment_path(folder, found.number))
    try:
        if found.recovery is not None:
            files.truncate(descriptor, found.end)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
