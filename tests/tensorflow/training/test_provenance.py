"""What a checkpoint was made from, as facts stored in JSON, and what has changed since."""

from __future__ import annotations

import json
import os
import time

import keras
import numpy as np
import pytest

from oomph.keras_bridge import models
from oomph.redaction import redaction
from oomph.resume.training import call_place, provenance
from oomph.resume.training.fit_objects import FitObjects
from oomph.resume.training.provenance import CALLBACKS, CONFIGURATION, DATA, STRUCTURE, TURN

ARGUMENTS = {"epochs": 3, "batch_size": 16, "initial_epoch": 0}


def facts(model, *callbacks, **options):
    return json.loads(json.dumps(provenance.facts_of(model, ARGUMENTS, callbacks, **options)))


def test_equal_facts_show_no_change_and_survive_json(small_model):
    def stopping():
        return keras.callbacks.EarlyStopping(patience=3)

    one = facts(small_model(), stopping(), values={"values of x": "a"}, turn={"fold": "1"})
    assert (
        provenance.changes(one, facts(small_model(), stopping(), values={"values of x": "a"}, turn={"fold": "1"})) == []
    )


@pytest.mark.parametrize(
    ("group", "change", "words"),
    [
        (DATA, {"values": {"values of x": "b"}}, "values of x: a → b"),
        (TURN, {"turn": {"fold": "2"}}, "fold: 1 → 2"),
    ],
)
def test_changed_data_and_a_changed_loop_iteration_are_reported(small_model, group, change, words):
    given = {"values": {"values of x": "a"}, "turn": {"fold": "1"}}
    before, now = facts(small_model(), **given), facts(small_model(), **{**given, **change})
    assert [*map(str, provenance.changes(before, now, group))] == [words]


def test_switching_off_xla_does_not_count_as_a_changed_model(small_model):
    model, other = small_model(), small_model()
    model.jit_compile = other.jit_compile = True
    models.switch_off_xla(other)
    assert not other.jit_compile
    assert provenance.changes(facts(model), facts(other)) == []


def test_changed_callback_kinds_and_settings_are_reported(small_model):
    before = facts(small_model(), keras.callbacks.EarlyStopping(patience=3))
    (change,) = provenance.changes(before, facts(small_model(), keras.callbacks.EarlyStopping(patience=5)), CALLBACKS)
    assert str(change) == "EarlyStopping 0: patience: 3 → 5"
    (change,) = provenance.changes(before, facts(small_model(), keras.callbacks.TerminateOnNaN()), CALLBACKS)
    assert str(change) == "callbacks: EarlyStopping → TerminateOnNaN"


class Clocked(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.began, self.began_ns, self.run = time.time(), time.time_ns(), time.strftime("run-%Y%m%d-%H%M%S")

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_clock_values_and_unreadable_objects_are_not_changed_settings(small_model):
    before = facts(small_model(), Clocked())
    time.sleep(1.01)
    assert [*map(str, provenance.changes(before, facts(small_model(), Clocked())))] == []


def test_added_layer_is_a_change_but_an_unrecorded_fact_is_not(small_model):
    before, now = facts(small_model()), facts(small_model(keras.layers.Dense(3), keras.layers.Dense(3)))
    del before[CONFIGURATION]["loss"]
    assert provenance.changes(before, facts(small_model()), CONFIGURATION) == []
    assert any("layer 4" in str(change) for change in provenance.changes(before, now, STRUCTURE))


def test_a_different_loop_iteration_is_not_reported_as_a_change_by_default(small_model):
    before, now = facts(small_model(), turn={"fold": "1"}), facts(small_model(), turn={"fold": "2"})
    assert provenance.changes(before, now) == []


KEY, TOKEN = "Kq93jfPz81LmW0aa", "xoxq-Zq8kfP2vL0x9Qw7tR5"


class Reports(keras.callbacks.Callback):
    def __init__(self, key=KEY):
        super().__init__()
        self.api_key, self.url, self.pin_password = key, f"https://bob:{key}@host/x", 48151623


def test_changed_secrets_are_detected_by_digest_without_being_stored(small_model):
    before = facts(small_model(), Reports(), turn={"token": call_place.plain(TOKEN, "token")})
    assert not any(secret in json.dumps(before) for secret in (KEY, TOKEN, "48151623"))
    changed = provenance.changes(before, facts(small_model(), Reports("Kq93jfNEW1LmW0bb")), CALLBACKS)
    assert [str(change).partition(" → ")[0][:-5] for change in changed] == [
        "Reports 0: api_key: ***",
        "Reports 0: url: ***",
    ]
    assert provenance.changes(before, facts(small_model(), Reports()), CALLBACKS) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", KEY),
        ("note", f"sent with {KEY}"),
        ("words", ["--token", "aB3xY9kLmN0pQ2"]),
        ("password", ("hunter2", 5)),
        ("slack_token", np.str_(TOKEN)),
    ],
)
def test_secret_arguments_are_masked(monkeypatch, name, value):
    monkeypatch.setattr(redaction, "_known", {KEY})
    text = call_place.plain(value, name)
    assert "***" in text
    assert not any(secret in text for secret in (KEY, TOKEN, "aB3xY9kLmN0pQ2", "hunter2"))


def test_ordinary_settings_are_not_masked():
    assert call_place.plain(5, "patience") == "5"
    assert call_place.plain("val_loss", "monitor") == "'val_loss'"
    assert call_place.plain(2048, "max_tokens") == "2048"
    assert call_place.plain(["a", "b"], "keys") == "('a', 'b')"


def test_settings_changed_in_the_script_count_as_intended(small_model):
    before = facts(small_model(), settings={"global of __main__: DROP": "3", "pid": "1"})
    now = facts(small_model(), settings={"global of __main__: DROP": "9"})
    assert list(map(str, provenance.what_was_given(before, now))) == ["global of __main__: DROP: 3 → 9"]


class Dropping(keras.callbacks.Callback):
    def __init__(self, options):
        super().__init__()
        self.drop, self._options, self._every = 0.5, options, 7


def test_settings_exclude_secrets_clocks_and_process_ids(small_model):
    options = {"warm": 3, "began": time.time(), "me": os.getpid(), "password": 123456, "many": list(range(5))}
    found = FitObjects(small_model(), {}, [Dropping(options)]).settings()
    mine = {name.rpartition("Dropping")[2]: value for name, value in found.items() if "Dropping" in name}
    assert mine.pop("._options['password']") not in ("123456", "")
    assert mine == {"._every": "7", "._options['warm']": "3"}
