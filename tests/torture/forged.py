"""Forged checkpoints with right checksums: real states with a few fields changed, by somebody who means harm.

Each file is loaded and then used, in a process of its own with little memory and little time. It must end in a
:class:`CheckpointError` (or another ValueError), or in a model that works: never in a signal, a hang or another error.
"""

from __future__ import annotations

import copy
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from batch2online import (
    BatchToOnline,
    OnlineClassifier,
    OnlineClustering,
    OnlineLowRank,
    OnlineRegression,
    coresets,
    load,
)
from batch2online.refresh import Adaptive, OnChange
from batch2online.storage.tree import CheckpointError
from forging import forged, opened

_rng = np.random.default_rng(0)
X = _rng.normal(size=(260, 3)) + _rng.integers(3, size=(260, 1)) * 5
Y = X @ [1.0, -2.0, 0.5] + _rng.normal(size=260)
SECONDS, MEMORY, BATCH = 20, 2**30, 500
PROMISED = ("refused", "refused when it was used", "works")
NUMBERS = ("nan", "inf", "-inf", "0x0.0p+0", "-0x1.0p+0", "0x1.0p+1000", "-0x1.0p-1070", "0x1.8p+1", "0x1.0p+30")
ODD = (None, True, False, -1, 0, 1, 2, 3, 7, 255, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), "", "x",
       "memory", "coreset", "theory", "/tmp/x", [], {}, [[]], {"list": []}, {"tuple": []}, {"dict": {}}, {"array": 0},
       {"array": -1}, {"object": "Nothing", "fields": {}}, {"object": "EveryStep", "fields": {"start": 1}},
       *({"float": number} for number in NUMBERS))  # fmt: skip
VALUES = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 1e-300, 2.0**62)
DTYPES = ("f8", "i8", "u8", "u1", "?", "f4", ">f8", "c16", "U3", "M8[s]")


def originals() -> tuple[bytes, ...]:
    """Checkpoints of every estimator, and of every construction."""
    words = np.where(Y > 0, "up", "down")
    some = {"random_state": 0, "coreset_size": 40}
    wrapped = {"history": {"keep_history": True}, "every": {"coreset": coresets.Everything}}
    models = (
        (OnlineRegression(**some), Y),
        (OnlineRegression(**some, keep_history=True, solve="exact", refresh=OnChange()), Y),
        (OnlineRegression(**some, fit_intercept=False), np.column_stack([Y, -Y])),
        (OnlineRegression(**some, loss="huber", alpha=0.1), Y),
        (OnlineRegression(**some, loss="gamma", keep_history=True), np.exp(Y / 10)),
        (OnlineClassifier(**some), words),
        (OnlineClassifier(**some, class_weight={1: 2.0}, l1_ratio=0.5, alpha=0.01), np.digitize(Y, [-5, 5])),
        (OnlineLowRank(2, **some), None),
        (OnlineLowRank(1, **some, center=True, keep_history=True, refresh=Adaptive(floor=0.01)), None),
        (OnlineClustering(3, **some), None),
        (OnlineClustering(2, **some, stages=2, z=1.0), None),
        (OnlineClustering(3, **some, history="coreset"), None),
        (BatchToOnline(Ridge(), **some, **wrapped["history"]), Y),
        (BatchToOnline(LogisticRegression(), **some), words),
        (BatchToOnline(KMeans(2, n_init=1), **some), None),
        (BatchToOnline(PCA(2), **some), None),
        (BatchToOnline(make_pipeline(StandardScaler(), Ridge()), **some, **wrapped["every"]), Y),
        (BatchToOnline(Ridge(), coreset=coresets.Sensitivity(coresets.LewisScore(1.0)), **some), Y),
    )
    contents = []
    for model, targets in models:
        for n in (5, 250):
            model.partial_fit(X[:n], None if targets is None else targets[:n])
            contents.append(_saved(model))
    return tuple(contents)


def _saved(model) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


# -- forging ----------------------------------------------------------------------------------------------


def places(tree, path=()):
    """The paths of all nodes below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in items:
        yield (*path, key)
        yield from places(child, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def forgery(contents: tuple[bytes, ...], rng) -> bytes:
    """One of these checkpoints with one to three changes."""
    manifest, members = opened(contents[rng.integers(len(contents))])
    for _ in range(rng.integers(1, 4)):
        change = CHANGES[rng.integers(len(CHANGES))]
        with suppress(NothingToChangeError):
            change(manifest["state"], members, rng)
    return forged(manifest, members)


class NothingToChangeError(Exception):
    """An earlier change has left nothing of the kind."""


def _pick(options, rng):
    if not options:
        raise NothingToChangeError
    return options[rng.integers(len(options))]


def replace_a_value(tree, members, rng):
    path = _pick(list(places(tree)), rng)
    at(tree, path[:-1])[path[-1]] = copy.deepcopy(_pick(ODD, rng))


def change_a_number(tree, members, rng):
    every = [path for path in places(tree) if type(at(tree, path)) in (int, bool) or path[-1] == "float"]
    path = _pick(every, rng)
    old = at(tree, path)
    options = NUMBERS if isinstance(old, str) else (old + 1, old - 1, -old, old * 2, 0, old * 2**20)
    at(tree, path[:-1])[path[-1]] = _pick(options, rng)


def swap_two(tree, members, rng):
    every = list(places(tree))
    one, other = _pick(every, rng), _pick(every, rng)
    if one[: len(other)] != other and other[: len(one)] != one:
        mine, theirs = at(tree, one), at(tree, other)
        at(tree, one[:-1])[one[-1]], at(tree, other[:-1])[other[-1]] = theirs, mine


def swap_two_of_a_name(tree, members, rng):
    every = list(places(tree))
    name = _pick(every, rng)[-1]
    same = [path for path in every if path[-1] == name]
    one, other = _pick(same, rng), _pick(same, rng)
    if one[: len(other)] != other and other[: len(one)] != one:
        mine, theirs = at(tree, one), at(tree, other)
        at(tree, one[:-1])[one[-1]], at(tree, other[:-1])[other[-1]] = theirs, mine


def remove_one(tree, members, rng):
    path = _pick(list(places(tree)), rng)
    del at(tree, path[:-1])[path[-1]]


def add_one(tree, members, rng):
    """A field of another name, maybe that of a method."""
    every = [path for path in places(tree) if isinstance(at(tree, path), dict)]
    name = _pick(("sample", "coreset", "add", "_cached", "_memory", "__dict__", "x", "model", "copy"), rng)
    at(tree, _pick(every, rng))[name] = copy.deepcopy(_pick(ODD, rng))


def repeat_one(tree, members, rng):
    lists = [path for path in places(tree) if isinstance(at(tree, path), list) and at(tree, path)]
    if lists:
        own = at(tree, _pick(lists, rng))
        own.extend(copy.deepcopy(own) * int(rng.integers(1, 4)))


def nest_deeply(tree, members, rng):
    path = _pick(list(places(tree)), rng)
    value = at(tree, path)
    for _ in range(int(_pick((20, 60, 130), rng))):
        value = {"list": [value]}
    at(tree, path[:-1])[path[-1]] = value


def rename_an_object(tree, members, rng):
    every = [path for path in places(tree) if path[-1] == "object"]
    path, other = _pick(every, rng), _pick(every, rng)
    at(tree, path[:-1])["object"] = at(tree, other)


def change_a_segment(tree, members, rng):
    """Rows of the history: other shapes, other numbers, fewer of them, or none."""
    names = [name for name in members if name.startswith("history ")]
    if not names:
        return
    name = _pick(names, rng)
    shape, content = members[name]
    kind = rng.integers(5)
    if kind == 0:
        shape = json.dumps(_pick(([[0, 3], [0, 0], [0], [0]], [[2**40, 3]], [[-1, 3], [1]], [], [[]] * 4, "x"), rng))
    elif kind == 1:
        values = np.frombuffer(content).copy()
        values[rng.integers(len(values), size=3)] = _pick(VALUES, rng)
        content = values.tobytes()
    elif kind == 2:
        content = content[: 8 * int(rng.integers(len(content) // 8))]
    elif kind == 3:
        content = rng.bytes(len(content))
    else:
        del members[name]
        return
    members[name] = (shape, content)


def change_an_array(tree, members, rng):
    name = _pick(sorted(name for name in members if name.endswith(".npy")), rng)
    array = np.load(io.BytesIO(members[name]))
    kind = rng.integers(7)
    if kind == 0 and array.size:
        flat = array.reshape(-1)
        with np.errstate(invalid="ignore"):
            flat[rng.integers(flat.size, size=rng.integers(1, 4))] = np.array(_pick(VALUES, rng)).astype(array.dtype)
    elif kind == 1:
        array = array[: rng.integers(len(array) + 1)] if array.ndim else array
    elif kind == 2:
        array = np.concatenate([array, array]) if array.ndim else array
    elif kind == 3 and array.ndim == 2:
        array = _pick((array.T, array[:, :-1], array.reshape(-1), array[:, :0], np.hstack([array, array])), rng)
    elif kind == 4:
        with np.errstate(invalid="ignore"):
            array = array.astype(_pick(DTYPES, rng))
    elif kind == 5:
        array = -array if array.dtype != bool else ~array
    else:
        array = rng.permutation(array) if array.ndim else array
    file = io.BytesIO()
    np.save(file, array)
    members[name] = file.getvalue()


def swap_two_arrays(tree, members, rng):
    arrays = sorted(name for name in members if name.endswith(".npy"))
    one, other = _pick(arrays, rng), _pick(arrays, rng)
    members[one], members[other] = members[other], members[one]


CHANGES = (replace_a_value, change_a_number, change_a_number, swap_two, swap_two_of_a_name, remove_one, add_one,
           repeat_one, nest_deeply, rename_an_object, swap_two_arrays, change_a_segment,
           *[change_an_array] * 3)  # fmt: skip


# -- loading ----------------------------------------------------------------------------------------------


def use(model) -> None:
    """All that one does with a model."""
    width = model.n_features_in_
    rows = np.resize(X[250:], (10, width))
    n_targets = model._stream.n_targets
    targets = None if not n_targets else np.resize(Y[250:], (10, n_targets))
    if targets is not None and model._stream.sketch.settings.flat_targets:
        targets = targets[:, 0]
    if getattr(model, "loss", None) == "gamma":
        targets = np.abs(targets) + 0.1
    if getattr(model, "_has_labels", False):
        targets = np.resize(np.array(list(model._labels.values())), 10)
    for _ in range(2):
        for name in ("predict", "transform"):
            if hasattr(model, name):
                getattr(model, name)(rows)
        assert len(model.coreset_) <= model.n_seen_
        _ = model.regret_, model.changes_, [event.reason for event in model.changes_], repr(model)
        for _ in range(3):
            model.partial_fit(rows, targets)
        model.learn_one(rows[0].tolist(), None if targets is None else targets[0])
    _saved(model)


def outcome_of(content: bytes, path: Path) -> str:
    path.write_bytes(content)
    try:
        model = load(path)
    except CheckpointError:
        return "refused"
    try:
        use(model)
    except ValueError:
        return "refused when it was used"
    return "works"


def child(folder: Path, first: int, stop: int) -> None:
    """Load one forgery after the other; a line tells what has happened to each as soon as it is known."""
    contents = tuple(path.read_bytes() for path in sorted(folder.glob("original-*")))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for seed in range(first, stop):
        content = forgery(contents, np.random.default_rng(seed))
        signal.alarm(SECONDS)
        try:
            outcome = outcome_of(content, folder / "model")
        except BaseException:
            outcome = traceback.format_exc()
        signal.alarm(0)
        print(json.dumps([seed, outcome]), flush=True)


def outcomes_of(folder: Path, first: int, stop: int) -> dict[int, str]:
    """What became of the forgeries of these seeds, in a process of their own."""
    command = [sys.executable, "-m", "torture.forged", str(folder), str(first), str(stop)]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    found = dict(json.loads(line) for line in run.stdout.splitlines())
    seed = first + len(found)
    if seed < stop:
        found[seed] = f"the process ended with {run.returncode}: {run.stderr[-3000:]}"
        found |= outcomes_of(folder, seed + 1, stop) if seed + 1 < stop else {}
    return found


def prepared(folder: Path) -> None:
    """Put the originals where a process finds them."""
    for index, content in enumerate(originals()):
        (folder / f"original-{index:03d}").write_bytes(content)


def campaign(count: int, seed: int = 0) -> dict[str, int]:
    """So many forgeries; any outcome but the three that are promised is an error."""
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        prepared(Path(name))
        for start in range(0, count, BATCH):
            first, stop = (seed * 10**9 + index for index in (start, min(start + BATCH, count)))
            for own, outcome in outcomes_of(Path(name), first, stop).items():
                if outcome not in PROMISED:
                    raise AssertionError(f"forgery {own}: {outcome}")
                outcomes[outcome] += 1
    return dict(outcomes)


if __name__ == "__main__":
    child(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
