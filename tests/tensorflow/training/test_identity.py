"""Each fit is recognised: never mistaken for another, and never restarted if an earlier attempt left a state."""

from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest

from oomph.resume.training.identity import FitIdentity, KnownState, Recognised, Verdict, fingerprint, recognise
from oomph.resume.training.provenance import CALLBACKS, CONFIGURATION, DATA, SCRIPT, STRUCTURE, TURN


def test_identically_built_models_have_the_same_fingerprint(small_model):
    first = fingerprint(small_model(optimizer=keras.optimizers.Adam(0.1)))
    keras.backend.clear_session()
    assert fingerprint(small_model(optimizer=keras.optimizers.Adam(0.1))) == first


def test_training_and_learning_rate_do_not_change_the_fingerprint(small_model):
    model = small_model()
    before = fingerprint(model)
    model.fit(np.ones((4, 4)), np.ones((4, 2)), verbose=0)
    model.optimizer.learning_rate = 0.5
    assert fingerprint(model) == before


@pytest.mark.parametrize(
    "other",
    [
        lambda make: make(keras.layers.Dense(4)),
        lambda make: make(keras.layers.Dense(3), keras.layers.Dense(3)),
        lambda make: make(keras.layers.Dense(3, use_bias=False)),
        lambda make: make(keras.layers.Dense(3, trainable=False)),
        lambda make: make(optimizer="sgd"),
        lambda make: make(optimizer=keras.optimizers.Adam(beta_1=0.5)),
        lambda make: make(keras.layers.Dense(3, dtype="float64")),
    ],
)
def test_different_model_or_optimizer_has_a_different_fingerprint(small_model, other):
    assert fingerprint(other(small_model)) != fingerprint(small_model())


def test_an_unbuilt_model_has_a_fingerprint():
    def make(units):
        model = keras.Sequential([keras.layers.Dense(units)])
        model.compile("adam", "mse")
        return model

    assert fingerprint(make(2)) == fingerprint(make(2))


def test_an_optimizer_without_a_configuration_is_identified_by_its_class(small_model):
    class Odd(keras.optimizers.SGD):
        def get_config(self):
            raise NotImplementedError

    assert fingerprint(small_model(optimizer=Odd())) == fingerprint(small_model(optimizer=Odd()))
    assert fingerprint(small_model(optimizer=Odd())) != fingerprint(small_model(optimizer="sgd"))


def identity(**facts):
    return FitIdentity(
        **{"ordinal": 0, "site": "train.py:5", "fingerprint": "f", "place": "p", "occurrence": 0, **facts}
    )


@pytest.mark.parametrize(
    ("facts", "same"),
    [
        ({"ordinal": 3}, True),
        ({"site": "train.py:9"}, True),
        ({"fingerprint": "g"}, True),
        ({"place": "q"}, False),
        ({"occurrence": 1}, False),
    ],
)
def test_fit_is_identified_by_its_call_chain_and_loop_iteration(facts, same):
    assert (identity(**facts).key == identity().key) is same


def test_each_fit_number_has_its_own_witness_key():
    """The first fit's witnesses do not apply to a fit that was retrained under another number."""
    found = {identity().witness_key, identity(ordinal=1).witness_key, identity(occurrence=1).witness_key}
    assert len(found) == 3
    assert all(0 <= key < 1 << 64 for key in found)
    assert identity(site="train.py:9", fingerprint="g").witness_key == identity().witness_key


GROUPS = (STRUCTURE, CONFIGURATION, CALLBACKS, TURN, DATA)


def known(*differing: str, finished=False, edited=False, same_fingerprint=True) -> KnownState:
    """Return an earlier attempt's state that differs in these groups."""
    found = {group: [f"{group} differs"] for group in differing}
    if edited:
        found[SCRIPT] = ["train.py was edited"]
    return KnownState(
        finished, edited, same_fingerprint, lambda *groups: [each for group in groups for each in found.get(group, [])]
    )


def test_a_fit_without_a_record_is_trained():
    for took_another_path in (True, False):
        assert recognise(None, took_another_path) == Recognised(Verdict.TRAIN)


def test_an_unchanged_fit_is_resumed_or_returned():
    assert recognise(known(), False) == Recognised(Verdict.RESUME)
    assert recognise(known(finished=True), False) == Recognised(Verdict.RETURN)


@pytest.mark.parametrize("group", GROUPS)
def test_a_finished_fit_trains_again_if_anything_differs(group):
    found = recognise(known(group, finished=True), False)
    assert found == Recognised(Verdict.TRAIN, f"{group} differs", another_path=True)


def test_a_finished_fit_with_another_optimizer_trains_again_with_a_reason():
    found = recognise(known(finished=True, same_fingerprint=False), False)
    assert (found.verdict, found.reason) == (Verdict.TRAIN, "a different model or optimizer")


@pytest.mark.parametrize("group", [CONFIGURATION, CALLBACKS, TURN, DATA])
def test_finished_fit_in_an_edited_script_trains_again(group):
    found = recognise(known(group, finished=True, edited=True), False)
    assert found == Recognised(Verdict.TRAIN, f"{group} differs", another_path=False)


def test_a_finished_fit_is_returned_after_an_unrelated_edit():
    assert recognise(known(finished=True, edited=True), False).verdict is Verdict.RETURN


@pytest.mark.parametrize("finished", [True, False])
def test_another_model_in_an_edited_script_is_refused_with_a_reason(finished):
    found = recognise(known(STRUCTURE, finished=finished, edited=True), False)
    assert found == Recognised(Verdict.REFUSE, "train.py was edited; structure differs")


@pytest.mark.parametrize("group", [STRUCTURE, DATA])
def test_unfinished_fit_that_differs_without_an_edit_is_refused(group):
    assert recognise(known(group), False) == Recognised(Verdict.REFUSE, f"{group} differs")


def test_resuming_with_another_optimizer_is_refused_unless_the_script_was_edited():
    assert recognise(known(same_fingerprint=False), False).verdict is Verdict.REFUSE
    assert recognise(known(same_fingerprint=False, edited=True), False).verdict is Verdict.RESUME


@pytest.mark.parametrize("group", [CONFIGURATION, CALLBACKS, TURN, DATA])
def test_interrupted_fit_in_an_edited_script_is_resumed(group):
    assert recognise(known(group, edited=True), False).verdict is Verdict.RESUME


@pytest.mark.parametrize("group", [CONFIGURATION, CALLBACKS, TURN])
def test_editing_a_settings_file_does_not_restart_the_fit(group):
    """The script is unchanged; a larger number of epochs, for example, comes from a file next to it."""
    assert recognise(known(group), False).verdict is Verdict.RESUME


@pytest.mark.parametrize("group", GROUPS)
def test_differing_fit_on_another_path_is_trained_instead_of_refused(group):
    found = recognise(known(group), True)
    assert found == Recognised(Verdict.TRAIN, f"{group} differs", another_path=True)
    assert recognise(known(), True).verdict is Verdict.RESUME


def test_only_unchanged_fits_are_returned_and_no_other_model_is_resumed():
    for size in range(len(GROUPS) + 1):
        for groups in itertools.combinations(GROUPS, size):
            for finished, edited, same, way in itertools.product((True, False), repeat=4):
                found = recognise(known(*groups, finished=finished, edited=edited, same_fingerprint=same), way)
                if found.verdict is Verdict.RETURN:
                    assert finished
                    assert not groups
                    assert same
                if found.verdict is Verdict.RESUME:
                    assert not finished
                    assert STRUCTURE not in groups
                    assert edited or (same and DATA not in groups)
                if found.verdict is Verdict.REFUSE or found.another_path:
                    assert found.reason


def test_differences_beyond_the_first_six_are_only_counted_in_the_reason():
    many = KnownState(
        False, False, True, lambda *groups: [f"layer {n}" for n in range(9)] if STRUCTURE in groups else []
    )
    assert recognise(many, False).reason.endswith("layer 5; and 3 more")
