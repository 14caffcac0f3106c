"""Comparison of the memory that a state needs with what is available, before it is allocated.

A process that allocates more memory than there is may be killed by the system without a message. The size of a state
follows from its numbers of columns, classes and rows, so that a call can be refused first.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_ALWAYS_THERE = 2**26
"""Bytes below which nothing is compared: reading what is available takes longer."""

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")


class NotEnoughMemoryError(MemoryError):
    """More memory is needed than available; nothing was changed."""


def check_available(needed: float, what: str, instead: str) -> None:
    """Raise NotEnoughMemoryError if so many bytes are not available; ``instead`` says what to do.

    >>> check_available(1e21, "A matrix of 1e20 numbers", "Use fewer columns.")
    Traceback (most recent call last):
    ...
    batch2online.numerics.memory.NotEnoughMemoryError: A matrix of 1e20 numbers would take 1,000,000 PB of memory, ...
    """
    if needed <= _ALWAYS_THERE:
        return
    there = available()
    if there is not None and needed > there:
        raise NotEnoughMemoryError(
            f"{what} would take {in_units(needed)} of memory, and {in_units(there)} are available. {instead}"
        )


def in_units(size: float) -> str:
    """Return a number of bytes with a unit.

    >>> in_units(512), in_units(12.8e9)
    ('512 bytes', '12.8 GB')
    """
    power = 0
    while size >= 1000 and power < len(_UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:,.0f} {_UNITS[power]}" if size >= 100 or not power else f"{size:.1f} {_UNITS[power]}"


def parsed_bytes(size: int | str, name: str) -> int:
    """Return a number of bytes that is given as one or with a unit; ``name`` is that of the parameter.

    >>> parsed_bytes("512MB", "memory"), parsed_bytes("1.5 GB", "memory"), parsed_bytes(4096, "memory")
    (512000000, 1500000000, 4096)
    """
    powers = {unit: power for power, unit in enumerate(("", *_UNITS[1:]))}
    match = re.fullmatch(r"\s*([\d.]+)\s*([A-Za-z]*)\s*", str(size))
    if isinstance(size, bool) or match is None or match[2].upper() not in powers or not float(match[1]) > 0:
        raise ValueError(f'{name} must be a number of bytes, or a string such as "512MB" or "2GB", got {size!r}.')
    return int(float(match[1]) * 1000 ** powers[match[2].upper()])


def available() -> float | None:
    """Return the bytes that this process can still allocate; None if the system does not report it.

    The minimum of the free memory of the machine, what its control groups leave (containers, batch systems), and what
    the limits of the process leave (``ulimit -v``).
    """
    known = [*_of_machine(), *_of_control_groups(), *_of_limits()]
    return max(0.0, min(known)) if known else None


def _of_machine() -> Iterator[float]:
    free = _fields(_PROC / "meminfo").get("MemAvailable")
    if free is not None:
        yield 1024 * free
    elif sys.platform != "win32" and "SC_PHYS_PAGES" in os.sysconf_names:  # macOS reports the total alone
        yield float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _of_control_groups() -> Iterator[float]:
    """Yield what each control group of this process leaves; cached files can be evicted."""
    names = (
        ("memory.max", "memory.current", "inactive_file"),
        (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    )
    for folder in _groups():
        for most, now, cache in names:
            limit, used = _number(folder / most), _number(folder / now)
            if limit is not None and used is not None:
                yield limit - used + _fields(folder / "memory.stat").get(cache, 0.0)


def _groups() -> Iterator[Path]:
    for line in _text(_PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root = _CGROUP / controllers
        inside = root / path.lstrip("/")
        yield from (folder for folder in (inside, *inside.parents) if folder.is_relative_to(root))


def _of_limits() -> Iterator[float]:
    if sys.platform == "win32":  # has no such limits
        return
    import resource

    used = _fields(_PROC / "self" / "status")
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            yield most - 1024 * used.get(name, 0.0)


def _fields(path: Path) -> dict[str, float]:
    """Return the numbers of a file of lines like ``name: number kB``."""
    words = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {line[0]: float(line[1]) for line in words if len(line) > 1 and line[1].isdigit()}


def _number(path: Path) -> float | None:
    text = _text(path).strip()
    return float(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
