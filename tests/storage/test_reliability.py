"""The campaigns of ``torture`` in short form, each also against a defect that it must catch."""

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from batch2online import durable
from batch2online.app.cli.run.state import FileModel, Position
from batch2online.durable import store
from batch2online.durable.late_targets import LateTargets
from batch2online.storage import database, disk_history, journal, model_file, session
from batch2online.storage.errors import StoreCorrupted, StoreError
from batch2online.storage.keys import Keys
from batch2online.storage.owner import Owner
from torture import bad_input, conditions, damage, fuzz, kills, stops, threads
from torture.forgetting import forgetting
from torture.late import late_targets
from torture.machine import state_machine

FEW = ("clustering, disk", "wrapped LogisticRegression")


@pytest.mark.slow
def test_killed_models_lose_nothing(full):
    n = 14 if full else 3
    assert sum(kills.durables(n).values()) >= n


@pytest.mark.slow
def test_killed_models_with_late_targets_learn_each_row_once(full):
    n = 10 if full else 3
    assert sum(late_targets(n).values()) >= n


def test_killed_saves_leave_a_whole_file(full):
    n = 8 if full else 2
    assert sum(kills.saves(n).values()) == n


@pytest.mark.full
def test_killed_runs_go_on(full):
    n = 6 if full else 2
    assert sum(kills.command_line(n).values()) >= n


@pytest.mark.full
def test_interrupted_runs_end_with_their_exit_code(full):
    n = len(stops.WAYS) if full else 1
    assert sum(stops.interrupts(n, loops=0).values()) == n


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
def test_conditions_of_the_system_end_in_a_clear_error(full):
    names = FEW if full else FEW[:1]
    assert sum(conditions.every_condition(names).values()) == len(names) * len(conditions.CONDITIONS)


@pytest.mark.full
def test_a_full_disk_leaves_everything_as_it_was():
    assert conditions.full_disk(42)["limit: error, as it was, done later"] > 5


@pytest.mark.slow
def test_forgotten_rows_are_nowhere(full):
    assert "pickle: none of 150 rows" in forgetting(FEW if full else FEW[1:])


def test_any_sequence_of_steps_ends_in_the_same_model(full):
    assert state_machine(8 if full else 2, steps=12)


@pytest.mark.slow
def test_predictions_during_learning_belong_to_one_version(full):
    names = tuple(threads.READERS)[:: 1 if full else 6]
    assert set(threads.predictions(40 * len(names), names=names).values()) == {40}


@pytest.mark.full
def test_fuzzed_files_are_refused_or_read():
    assert sum(fuzz.loaders(150).values()) == 150


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
    with durable.Durable.open(tmp_path / "model.b2o") as found:
        assert found.model.n_seen_ == 6


# -- planted defects ------------------------------------------------------------------------------------------


@pytest.mark.full
def test_rows_that_are_not_kept_are_caught(monkeypatch):
    monkeypatch.setattr(journal, "append", lambda *_: None)
    with pytest.raises(AssertionError, match=r"acknowledged: \d+, found|Cannot forget ids"):
        kills.durables(60)


@pytest.mark.full
def test_targets_whose_rows_still_wait_are_caught(monkeypatch):
    late_targets(1)  # what is expected is known from here on
    monkeypatch.setattr(LateTargets, "drop", lambda *_: None)
    with pytest.raises((AssertionError, StoreError, ValueError)):
        late_targets(60)


@pytest.mark.full
def test_a_note_that_is_not_written_is_caught(monkeypatch):
    monkeypatch.setattr(Owner, "acknowledge", lambda *_: None)
    with pytest.raises(AssertionError, match="copied while it was open"):
        kills.durables(60)


@pytest.mark.full
def test_a_file_written_in_place_is_caught(monkeypatch):
    @contextmanager
    def in_place(path):
        path.unlink(missing_ok=True)
        path.touch()
        yield path

    monkeypatch.setattr(model_file, "replaced", in_place)
    said = "damaged|saved, found|no file of|has lost|truncated|cannot open"
    with pytest.raises((AssertionError, ValueError), match=said):
        kills.saves(60)


@pytest.mark.full
def test_a_position_that_comes_later_than_its_rows_is_caught(monkeypatch):
    learn = FileModel.learn

    def late(self, chunk, position):
        before = vars(self).get("before", Position())
        self.before = position
        learn(self, chunk, before)

    monkeypatch.setattr(FileModel, "learn", late)
    with pytest.raises(AssertionError):
        kills.command_line(20)


@pytest.mark.full
def test_a_log_that_is_not_synced_is_caught(monkeypatch):
    monkeypatch.setitem(session.SYNCHRONOUS, "every", "NORMAL")
    with pytest.raises(AssertionError, match="acknowledged call is lost"):
        damage.power_loss(72, names=FEW)


@pytest.mark.full
def test_an_interrupt_that_ends_in_an_abort_is_caught(monkeypatch):
    aborts = (
        "import os, signal; signal.signal(2, lambda *_: os.abort()); print('{\"row\":1,', flush=True); signal.pause()"
    )
    monkeypatch.setattr(stops, "COMMAND", (sys.executable, "-c", aborts))
    with pytest.raises(AssertionError, match="exit code -6"):
        stops.interrupts(1, loops=0)


@pytest.mark.full
def test_a_shorter_log_that_is_not_noticed_is_caught(monkeypatch):
    monkeypatch.setattr(session.Session, "_lost_calls", lambda *_: 0)
    with pytest.raises(AssertionError):
        damage.lost_files(FEW)


@pytest.mark.full
def test_a_checksum_that_is_always_right_is_caught(monkeypatch):
    monkeypatch.setattr(database, "checksum", lambda *_: 0)
    with pytest.raises(AssertionError, match=r"another model|gives|twice"):
        damage.bit_flips(900, names=FEW)


@pytest.mark.full
def test_a_file_whose_end_is_not_looked_at_is_caught(monkeypatch):
    monkeypatch.setattr(database.Database, "_check_size", lambda self: None)
    with pytest.raises(AssertionError, match="cut to"):
        damage.truncations(FEW)


@pytest.mark.full
def test_a_fork_that_writes_is_caught(monkeypatch):
    monkeypatch.setattr(database.Database, "check_process", lambda self: None)
    with pytest.raises(AssertionError):
        conditions.every_condition(FEW[:1])


@pytest.mark.full
def test_a_model_that_is_ahead_of_its_file_is_caught(monkeypatch):
    monkeypatch.setattr(store, "view_of", lambda model: vars(model).pop("_owner", None) and model)
    with pytest.raises(AssertionError):
        conditions.full_disk(28)


@pytest.mark.full
@pytest.mark.parametrize("use", ["live", "scratch"])
def test_pages_that_keep_forgotten_rows_are_caught(monkeypatch, use):
    if use == "live":
        monkeypatch.setitem(database._PRAGMAS, "live", ("journal_mode=WAL", "secure_delete=OFF"))
    else:
        monkeypatch.setattr(disk_history.DiskHistory, "tidy", lambda self: None)
    with pytest.raises(AssertionError, match="forgotten rows are in"):
        forgetting(FEW[:1])


@pytest.mark.full
def test_a_call_that_is_carried_out_twice_is_caught(monkeypatch):
    monkeypatch.setattr(Keys, "find", lambda *_: {})
    with pytest.raises((AssertionError, StoreCorrupted)):
        state_machine(8, steps=12)


@pytest.mark.full
def test_a_model_changed_in_two_steps_is_caught(monkeypatch):
    def torn(self, X):
        first = self._stream.model.coefficients
        np.linalg.svd(np.ones((60, 60)))
        return X @ first.T + self._stream.model.intercepts

    monkeypatch.setattr("batch2online.OnlineRegression.predict", torn)
    with pytest.raises(AssertionError, match="no version"):
        threads.check("regression predict", 4000, 4)


@pytest.mark.full
def test_a_trace_of_refused_rows_is_caught(monkeypatch):
    real = bad_input.coresets.Uniform.add

    def careless(self, rows, targets=None, weights=None):
        self.weight += 1.0
        return real(self, rows, targets, weights)

    monkeypatch.setattr(bad_input.coresets.Uniform, "add", careless)
    with pytest.raises(AssertionError, match="trace"):
        bad_input.campaign(200)


@pytest.mark.full
def test_an_allocation_that_trusts_the_file_is_caught(monkeypatch):
    def trusting(member):
        import io

        return np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)

    monkeypatch.setattr("batch2online.storage.tree.array_of", trusting)
    monkeypatch.setattr(fuzz, "WATCHED", 1)
    with pytest.raises(AssertionError):
        fuzz.loaders(400)
