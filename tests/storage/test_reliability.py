"""The campaigns of ``torture`` in short form, each also against a defect that it must catch."""

import io
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from batch2online import Durable, OnlineRegression, coresets
from batch2online.app.cli.run.state import FileModel, Position
from batch2online.durable import store
from batch2online.durable.late_targets import LateTargets
from batch2online.storage import database, disk_history, journal, model_file, session, tree
from batch2online.storage.database import Database
from batch2online.storage.errors import StoreError
from batch2online.storage.keys import Keys
from batch2online.storage.owner import Owner
from torture import bad_input, conditions, damage, fuzz, kills, stops
from torture.forgetting import forgetting
from torture.late import late_targets
from torture.machine import state_machine

FEW = ("clustering, disk", "wrapped LogisticRegression")


def counted(campaign, short, long, *marks, **settings):
    """A campaign of so many faults, all of which end as promised; many with ``--full``."""
    return pytest.param(campaign, short, long, settings, id=campaign.__name__, marks=marks)


@pytest.mark.parametrize(
    ("campaign", "short", "long", "settings"),
    [
        counted(kills.durables, 3, 14, pytest.mark.slow),
        counted(late_targets, 3, 10, pytest.mark.slow),
        counted(kills.saves, 2, 8),
        counted(kills.command_line, 2, 6, pytest.mark.full),
        counted(stops.interrupts, 1, len(stops.WAYS), pytest.mark.full, loops=0),
        counted(state_machine, 2, 8, steps=12),
        counted(fuzz.loaders, 15, 150),
    ],
)
def test_faults_end_as_promised(campaign, short, long, settings, full):
    n = long if full else short
    assert sum(campaign(n, **settings).values()) >= n


@pytest.mark.full
def test_a_loss_of_power_leaves_a_prefix_and_says_so():
    outcomes = damage.power_loss(18, names=FEW[:1])
    assert outcomes["every: nothing lost"] == 6
    assert outcomes["os: a prefix of the calls"] > 0


@pytest.mark.full
def test_files_that_are_lost_are_noticed():
    assert damage.lost_files(FEW[:1])["refused; accept_loss opens a prefix"] > 5


@pytest.mark.full
def test_flipped_bits_are_noticed_or_harmless():
    outcomes = damage.bit_flips(60, batch=15, names=FEW[:1])
    assert all(outcomes[f"{kind}: noticed"] > 5 for kind in ("saved", "closed", "crashed"))


def test_cut_files_are_refused():
    assert sum(damage.truncations(FEW, step=5 * 4096).values()) > 40


@pytest.mark.full
def test_conditions_of_the_system_end_in_a_clear_error():
    assert sum(conditions.every_condition(FEW).values()) == len(FEW) * len(conditions.CONDITIONS)
    assert conditions.full_disk(42)["limit: error, as it was, done later"] > 5


@pytest.mark.slow
def test_forgotten_rows_are_nowhere(full):
    assert "pickle: none of 150 rows" in forgetting(FEW if full else FEW[1:])


@pytest.mark.full
def test_bad_input_leaves_no_trace():
    assert bad_input.campaign(150)["error, no trace"] > 75


@pytest.mark.slow
def test_a_fork_that_ends_as_programs_end_does_no_harm(tmp_path):
    """The interpreter of the child closes all that it knows of."""
    program = f"""
import os, sys
import numpy as np
from batch2online import Durable, OnlineRegression
durable = Durable({str(tmp_path / "model.b2o")!r}, OnlineRegression(random_state=0), durability="os")
durable.partial_fit(np.eye(3), np.ones(3))
if not os.fork():
    sys.exit()
os.wait()
durable.partial_fit(np.eye(3), np.ones(3))
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with Durable.open(tmp_path / "model.b2o") as found:
        assert found.model.n_seen_ == 6


# -- planted defects ------------------------------------------------------------------------------------------


@contextmanager
def written_in_place(path):
    path.unlink(missing_ok=True)
    path.touch()
    yield path


def position_after_its_rows(self, chunk, position, learn=FileModel.learn):
    before = vars(self).get("before", Position())
    self.before = position
    learn(self, chunk, before)


def careless_add(self, rows, targets=None, weights=None, add=coresets.Uniform.add):
    self.epsilon += 1e-9
    return add(self, rows, targets, weights)


def trusting_array_of(member):
    return np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)


def nothing(*_, **__):
    return None


ABORTS = "import os, signal; signal.signal(2, lambda *_: os.abort()); print('{\"row\":1,', flush=True); signal.pause()"
DEFECTS = {
    "rows that are not kept": (journal, "append", nothing, lambda: kills.durables(60), "was to store rows"),
    "targets whose rows are still pending": (
        LateTargets,
        "drop",
        nothing,
        lambda: late_targets(60),
        "no prefix of the calls",
    ),
    "changes past the file": (
        *(OnlineRegression, "_check_may_change", nothing, lambda: kills.durables(60)),
        r"past the file was carried out|acknowledged: \d+, found|assert self",
    ),
    "a note that is not written": (
        *(Owner, "acknowledge", nothing, lambda: kills.durables(60)),
        "copied while it was open",
    ),
    "a file written in place": (
        *(model_file, "replaced", written_in_place, lambda: kills.saves(60)),
        "damaged|saved, found|no file of|has lost|truncated|cannot open",
    ),
    "a position later than its rows": (
        FileModel,
        "learn",
        position_after_its_rows,
        lambda: kills.command_line(20),
        "the position is after|another result",
    ),
    "a log that is not synced": (
        *(session, "SYNCHRONOUS", session.SYNCHRONOUS | {"every": "NORMAL"}),
        *(lambda: damage.power_loss(72, names=FEW), "acknowledged call is lost"),
    ),
    "an interrupt that aborts": (
        *(stops, "COMMAND", (sys.executable, "-c", ABORTS), lambda: stops.interrupts(1, loops=0)),
        "exit code -6",
    ),
    "a shorter log": (session.Session, "_lost_calls", lambda *_: 0, lambda: damage.lost_files(FEW), "said to be lost"),
    "a checksum that is always right": (
        *(database, "checksum", lambda *_: 0, lambda: damage.bit_flips(900, names=FEW)),
        r"another model|gives|twice",
    ),
    "an end that is not looked at": (Database, "_check_size", nothing, lambda: damage.truncations(FEW), "cut to"),
    "a fork that writes": (
        *(Database, "check_process", nothing),
        *(lambda: conditions.every_condition(FEW[:1]), "StoreError was expected"),
    ),
    "a model ahead of its file": (
        *(store, "view_of", lambda model: vars(model).pop("_owner", None) and model),
        *(lambda: conditions.full_disk(28), "another model than that of the file"),
    ),
    "pages that keep forgotten rows": (
        *(database, "_PRAGMAS", database._PRAGMAS | {"live": ("journal_mode=WAL", "secure_delete=OFF")}),
        *(lambda: forgetting(FEW[:1]), "forgotten rows are in"),
    ),
    "a history that keeps forgotten rows": (
        *(disk_history.DiskHistory, "tidy", nothing),
        *(lambda: forgetting(FEW[:1]), "forgotten rows are in"),
    ),
    "a call carried out twice": (Keys, "find", lambda *_: {}, lambda: state_machine(8, steps=12), None),
    "a trace of refused rows": (coresets.Uniform, "add", careless_add, lambda: bad_input.campaign(200), "trace"),
    "an allocation that trusts the file": (tree, "array_of", trusting_array_of, lambda: fuzz.loaders(400), None),
}


@pytest.mark.full
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_caught(defect, monkeypatch):
    where, name, planted, campaign, said = DEFECTS[defect]
    late_targets(1)  # what is expected is known from here on
    monkeypatch.setattr(fuzz, "WATCHED", 1)
    monkeypatch.setattr(where, name, planted)
    with pytest.raises((AssertionError, StoreError, ValueError, IndexError), match=said):
        campaign()
