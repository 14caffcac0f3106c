"""How rows lie in a segment file, and how far such a file can be believed.

A segment is a header of 40 bytes and records, all little-endian, all a multiple of 8 bytes long:

    header   magic (8), version (4), columns (4), segment number (8), rows before it (8), previous (4), checksum (4)
    record   marker (4), checksum (4), start (8), rows (8), synced (8), payload's checksum (4), previous (4), payload

``payload`` is the rows as doubles in C order, so that a memory map of it is the array itself. A record says at which
row it starts: if that is before the end, the rows from there on are taken back. ``synced`` is the number of bytes of
the segment that were known to be durable when the record was written. Checksums are CRC-32; that of a record covers
the fields after it, among them the payload's checksum and ``previous``, the checksum of the record before. So records
form a chain in which none can be altered, lost, exchanged or repeated unnoticed.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batch2online.persistence.store.errors import StoreError

MAGIC = b"b2orows\n"
VERSION = 1
HEADER_BYTES = 40
RECORD_BYTES = 40
_MARKER = b"ROWS"
_HEADER = struct.Struct("<8sIIQQI")
_FIELDS = struct.Struct("<QQQII")
_CHECKSUM = struct.Struct("<I")


class Damage(Exception):  # noqa: N818  # never leaves this package
    """What a file holds cannot be believed; the message says why."""


@dataclass(frozen=True)
class Header:
    """What a segment file says of itself."""

    columns: int
    number: int
    rows_before: int
    previous: int

    def pack(self) -> bytes:
        fixed = _HEADER.pack(MAGIC, VERSION, self.columns, self.number, self.rows_before, self.previous)
        return fixed + _CHECKSUM.pack(zlib.crc32(fixed))

    @classmethod
    def unpack(cls, content: Any) -> Header:
        fixed, checksum = bytes(content[: _HEADER.size]), bytes(content[_HEADER.size : HEADER_BYTES])
        if not fixed.startswith(MAGIC):
            raise Damage("does not begin as a segment of rows does")
        if checksum != _CHECKSUM.pack(zlib.crc32(fixed)):
            raise Damage("has a damaged header")
        _, version, columns, number, rows_before, previous = _HEADER.unpack(fixed)
        if version != VERSION:
            raise StoreError(f"The store has version {version}, this batch2online reads {VERSION}: upgrade it.")
        return cls(columns, number, rows_before, previous)


@dataclass(frozen=True)
class Record:
    """What a record says of itself; ``at`` is where its payload begins."""

    start: int
    rows: int
    synced: int
    payload_checksum: int
    previous: int
    at: int = 0

    @property
    def stop(self) -> int:
        return self.start + self.rows

    def pack(self) -> tuple[bytes, int]:
        """The bytes in front of the payload, and the checksum that the next record names."""
        fields = _FIELDS.pack(self.start, self.rows, self.synced, self.payload_checksum, self.previous)
        checksum = zlib.crc32(fields)
        return _MARKER + _CHECKSUM.pack(checksum) + fields, checksum

    @classmethod
    def unpack(cls, content: Any, at: int) -> tuple[Record, int]:
        """The record whose header stands there, and its checksum; its payload is not looked at."""
        stored = bytes(content[at : at + RECORD_BYTES])
        checksum = zlib.crc32(stored[8:])
        if len(stored) < RECORD_BYTES or stored[:8] != _MARKER + _CHECKSUM.pack(checksum):
            raise Damage("a record is incomplete or damaged")
        start, rows, synced, payload_checksum, previous = _FIELDS.unpack(stored[8:])
        return cls(start, rows, synced, payload_checksum, previous, at + RECORD_BYTES), checksum


def map_file(path: Path) -> Any:
    """The bytes of a file, read-only, brought into memory as they are looked at."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")


@dataclass(frozen=True)
class Scan:
    """The intact records of a segment: where the last one ends, its checksum, and what is wrong behind it."""

    records: list[Record]
    end: int
    checksum: int
    damage: str | None = None


def scan(content: Any, header: Header) -> Scan:
    """Read a segment up to its end or to the first record that is not intact."""
    records: list[Record] = []
    at, rows, previous = HEADER_BYTES, header.rows_before, header.previous
    try:
        while at < len(content):
            record, checksum = Record.unpack(content, at)
            at = _end(content, record, header.columns, rows, previous)
            records.append(record)
            rows, previous = record.stop, checksum
    except Damage as damage:
        return Scan(records, at, previous, str(damage))
    return Scan(records, at, previous)


def _end(content: Any, record: Record, columns: int, rows: int, previous: int) -> int:
    """Where an intact record that follows the one before it ends."""
    end = record.at + record.rows * columns * 8
    if record.previous != previous or record.start > rows:
        raise Damage("a record does not follow the one before it")
    if end > len(content) or zlib.crc32(content[record.at : end]) != record.payload_checksum:
        raise Damage("the rows of a record are incomplete or damaged")
    return end


def was_durable(content: Any, at: int) -> bool:
    """Whether a record behind ``at`` says that what stands there was durable once.

    A crash leaves an unfinished end. Where this is true, what is damaged was no unfinished end.
    """
    place = content.obj.find(_MARKER, at)
    while place >= 0:
        try:
            if Record.unpack(content, place)[0].synced > at:
                return True
        except Damage:
            pass  # rows may hold the marker by chance
        place = content.obj.find(_MARKER, place + 1)
    return False
