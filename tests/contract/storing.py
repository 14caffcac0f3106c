"""What was stored or copied continues as the original would, bit for bit."""

from __future__ import annotations

import copy
import pickle

import joblib
import pytest

from batch2online import load
from batch2online.sketches.base import Construction
from contract.promises import of_all, promise
from contract.subjects import assert_same, learn, part, state
from state_bytes import deserialise, serialise

PLACES = (1, 16, 75)


@promise(of_all)
def a_saved_subject_continues_where_it_was(case, folder):
    rows, targets, weights = case.data
    if "save" in case.lacks:
        with pytest.raises((ValueError, TypeError), match=case.lacks["save"]):
            saved_and_loaded(case.whole, folder)
        return
    for at in PLACES:
        subject = learn(case.new(), rows[:at], part(targets, slice(at)), weights[:at])
        before = state(subject)
        twin = saved_and_loaded(subject, folder)
        assert state(subject) == before, "saving changed the original"
        assert state(twin) == before, "what is loaded is not what was saved"
        learn(twin, rows[at:], part(targets, slice(at, None)), weights[at:])
        assert_same(twin, case.whole, rows)
        assert state(twin) == state(learn(subject, rows[at:], part(targets, slice(at, None)), weights[at:]))


def saved_and_loaded(subject, folder):
    if isinstance(subject, Construction):
        return deserialise(serialise(subject))
    subject.save(folder / "model")
    twin = load(folder / "model")
    assert twin.get_params().keys() == subject.get_params().keys()
    twin.save(folder / "again")
    assert (folder / "again").read_bytes() == (folder / "model").read_bytes(), "saved again, the file differs"
    return twin


def through_joblib(subject, folder):
    joblib.dump(subject, folder / "subject")
    return joblib.load(folder / "subject")


COPIES = {
    "deepcopy": lambda subject, _: copy.deepcopy(subject),
    "pickle": lambda subject, _: pickle.loads(pickle.dumps(subject)),
    "joblib": through_joblib,
}


@promise(of_all)
def copies_continue_alike_and_leave_the_original_alone(case, folder):
    rows, targets, weights = case.data
    for copied in COPIES.values():
        original = learn(case.new(), rows[:75], part(targets, slice(75)), weights[:75])
        twin = copied(original, folder)
        learn(twin, rows[75:], part(targets, slice(75, None)), weights[75:])
        assert_same(twin, case.whole, rows)
        learn(original, rows[75:], part(targets, slice(75, None)), weights[75:])
        assert_same(original, case.whole, rows)
