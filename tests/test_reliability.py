"""The campaigns of ``torture`` in short form, each also against a defect that it must catch."""

import errno

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from batch2online.persistence import checkpoint as storage
from batch2online.persistence import files
from batch2online.persistence.store import recovery
from batch2online.persistence.store.store import Store
from torture import bad_input, durables, fuzz, stores, system_calls, threads
from torture.machine import Machine


def test_stores_survive_a_fault_at_every_call():
    assert sum(stores.every_fault(modes=("always",)).values()) > 300


def test_stores_keep_their_promises_when_the_power_goes():
    assert sum(stores.power_loss(400).values()) >= 400


def test_logs_cut_anywhere_give_the_longest_prefix():
    assert sum(stores.truncations().values()) > 500


def test_no_flipped_bit_in_a_log_goes_unnoticed():
    assert sum(stores.bit_flips(400).values()) == 400


def test_killed_writers_lose_nothing():
    outcomes = durables.kills(20)
    assert outcomes["replayed"] > 0


@pytest.mark.parametrize("fault", [errno.ENOSPC, "kill half"])
def test_durable_models_survive_a_fault_at_every_tenth_call(fault):
    assert sum(durables.every_fault((fault,), every=10).values()) > 15


def test_durable_models_survive_a_loss_of_power():
    assert sum(durables.power_loss(40).values()) >= 40


def test_a_damaged_checkpoint_is_replaced_by_the_one_before():
    assert durables.bit_flips(20) == durables.truncations(20) == {"noticed, said, previous used, same model": 20}


@pytest.mark.skipif(not system_calls.IS_AVAILABLE, reason="strace is not installed")
def test_stores_survive_faults_of_the_system_itself():
    outcomes = system_calls.every_fault(("fsync",), ("error=EIO", "signal=SIGKILL"), every=9)
    assert {outcome.split(": ")[1] for outcome in outcomes} == {"typed error", "killed"}


def test_predictions_during_learning_belong_to_one_version():
    assert set(threads.predictions(900).values()) == {100}


def test_any_sequence_of_steps_ends_in_the_same_model():
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=6,
            stateful_step_count=15,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_fuzzed_files_are_refused_or_read():
    assert sum(fuzz.loaders(400).values()) == 400


def test_bad_input_leaves_no_trace():
    assert bad_input.campaign(400)["error, no trace"] > 200


# -- planted defects ------------------------------------------------------------------------------------------


def test_a_sync_that_does_nothing_is_caught(monkeypatch):
    monkeypatch.setattr(Store, "sync", lambda self: setattr(self, "_durable_bytes", self._size))
    with pytest.raises((AssertionError, recovery.StoreCorrupted)):
        stores.power_loss(400)


def test_a_folder_that_is_not_synced_is_caught(monkeypatch):
    monkeypatch.setattr(stores.RecordingFiles, "fsync_folder", lambda self, path: None)
    with pytest.raises(Exception, match=r"holds no store|damaged"):
        stores.power_loss(400)


def test_a_checksum_that_is_always_right_is_caught(monkeypatch):
    monkeypatch.setattr("batch2online.persistence.store.records.zlib.crc32", lambda *_: 0)
    with pytest.raises(AssertionError):
        stores.bit_flips(200)


def test_an_unfinished_record_that_is_not_taken_back_is_caught(monkeypatch):
    monkeypatch.setattr(stores.FaultyFiles, "truncate", lambda self, descriptor, size: None)
    with pytest.raises((AssertionError, recovery.StoreCorrupted)):
        stores.every_fault(("short",), ("never",))


def test_a_checkpoint_written_in_place_is_caught(monkeypatch):
    def in_place(layer, path, parts, prove=None):
        if path.exists():
            layer.remove(path)
        descriptor = layer.create(path)
        files.write_all(layer, descriptor, parts)
        layer.close(descriptor)

    monkeypatch.setattr(storage, "write_new", in_place)
    with pytest.raises(Exception, match=r"checkpoint|assert|^$"):
        durables.every_fault(("kill half",))


def test_rows_that_are_not_logged_are_caught(monkeypatch):
    monkeypatch.setattr(Store, "append", lambda self, rows: None)
    with pytest.raises(AssertionError, match="acknowledged"):
        durables.kills(20)


def test_a_model_changed_in_two_steps_is_caught(monkeypatch):
    def torn(self, X):
        first = self._engine.model.coefficients
        np.linalg.svd(np.ones((60, 60)))
        return X @ first.T + self._engine.model.intercepts

    monkeypatch.setattr("batch2online.OnlineRegression.predict", torn)
    with pytest.raises(AssertionError, match="no version"):
        threads.check("regression predict", 4000, 4)


def test_a_trace_of_refused_rows_is_caught(monkeypatch):
    real = bad_input.coresets.Uniform.add

    def careless(self, rows, targets=None, weights=None):
        self.weight += 1.0
        return real(self, rows, targets, weights)

    monkeypatch.setattr(bad_input.coresets.Uniform, "add", careless)
    with pytest.raises(AssertionError, match="trace"):
        bad_input.campaign(200)


def test_an_allocation_that_trusts_the_file_is_caught(monkeypatch):
    def trusting(member):
        import io

        return np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)

    monkeypatch.setattr(storage, "array_of", trusting)
    monkeypatch.setattr(fuzz, "WATCHED", 1)
    with pytest.raises(AssertionError):
        fuzz.loaders(400)
