"""What the figures were measured on: no names, no paths."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = ("batch2online", "numpy", "scipy", "scikit-learn", "river", "gensim")


def description() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "blas": sorted({f"{pool['internal_api']} {pool['version']}" for pool in _blas_pools()}),
        "blas_threads": max((pool["num_threads"] for pool in _blas_pools()), default=1),
    }


def load() -> list[float]:
    """Processes that wanted a core over the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def _blas_pools() -> list[dict[str, Any]]:
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
