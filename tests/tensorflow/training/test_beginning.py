"""The changes between two starts of the same fit."""

from __future__ import annotations

import json
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from oomph.checkpoint.container import Checkpoint, Position
from oomph.checkpoint.manifest import Meta
from oomph.resume.training import provenance
from oomph.resume.training.identity import fingerprint
from oomph.resume.training.provenance import CALLBACKS, DATA, ENVIRONMENT, SCRIPT, STRUCTURE, TURN, Beginning

ARGUMENTS = {"epochs": 3, "batch_size": 16, "steps_per_epoch": None, "shuffle": True, "initial_epoch": 0}


@pytest.fixture
def begin(small_model):
    def make(*layers, edited="", arguments=(), **compiled):
        model = small_model(*layers, **compiled)
        beginning = Beginning(model, {**ARGUMENTS, **dict(arguments)}, [])
        beginning._facts[SCRIPT] = {"train.py": f"hash {edited}"}
        return beginning

    return make


def saved(beginning: Beginning) -> Checkpoint:
    meta = {
        "made_by": beginning.facts(None),
        "fingerprint": fingerprint(beginning._model),
        "learning_rate": beginning.learning_rate,
    }
    return Checkpoint(Path("step"), Position(0), Meta.of(json.loads(json.dumps(meta))), ())


def compared(now: Beginning, checkpoint: Checkpoint) -> str:
    return now.compared(checkpoint, fingerprint(now._model))


def test_restarting_an_unchanged_script_shows_no_changes(begin):
    def start():
        return begin(keras.layers.Dense(3), keras.layers.Dropout(0.2), optimizer=keras.optimizers.Adam(0.1))

    checkpoint = saved(start())
    assert [*map(str, start().changes(checkpoint))] == []
    assert compared(start(), checkpoint) == "same"


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (lambda: [keras.layers.Dense(4)], "weights of layer 2"),
        (lambda: [keras.layers.Dense(3), keras.layers.Dense(3)], "layer 4: none → Dense"),
        (lambda: [keras.layers.EinsumDense("ab,bc->ac", 3)], "layer 2: Dense → EinsumDense"),
        (lambda: [keras.layers.Dense(3, trainable=False)], "are trained: True → False"),
        (lambda: [keras.layers.Dense(3, dtype="float64")], "float64"),
    ],
)
def test_a_changed_model_is_distinguished_from_a_harmless_edit(begin, layers, words):
    checkpoint = saved(begin())
    now = begin(*layers(), edited="since")
    assert compared(now, checkpoint) == "another model"
    assert any(words in str(change) for change in now.changes(checkpoint, STRUCTURE))
    assert compared(begin(*layers()), checkpoint) == "unstable", "the same script"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"optimizer": keras.optimizers.Adam(beta_1=0.8)}, "optimizer beta_1: 0.9 → 0.8"),
        ({"loss": "mae"}, "loss: mse → mae"),
        ({"arguments": {"epochs": 5}}, "epochs: 3 → 5"),
        ({"layer": lambda: keras.layers.Dense(3, activation="relu")}, "activation: linear → relu"),
    ],
)
def test_script_edits_that_keep_the_variables_are_reported(begin, edit, words):
    checkpoint = saved(begin())
    layers = [edit.pop("layer")()] if "layer" in edit else []
    now = begin(*layers, edited="since", **edit)
    assert compared(now, checkpoint) in ("same", "edited")
    assert words in provenance.listed(now.changes(checkpoint))
    assert "train.py was edited" in provenance.listed(now.changes(checkpoint))


def test_a_changed_batch_size_counts_as_changed_data(begin):
    checkpoint = saved(begin())
    assert [*map(str, begin(arguments={"batch_size": 8}).changes(checkpoint, DATA))] == ["batch_size: 16 → 8"]
    assert [*map(str, begin().changes(checkpoint, DATA))] == []


def test_changes_beyond_the_first_six_are_only_counted():
    assert provenance.listed([f"change {n}" for n in range(8)]).endswith("change 5; and 2 more")


@pytest.mark.parametrize(("edited", "steps", "kept"), [("", 7, 0.5), ("", 0, 0.1), ("since", 7, 0.1)])
def test_edited_learning_rate_overrides_the_checkpoint(begin, edited, steps, kept):
    """A configuration may set it without an edit. After some steps, it may come from one of the script's files."""
    checkpoint = saved(begin(optimizer=keras.optimizers.SGD(1.0)))
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.iterations.assign(steps)
    now = begin(edited=edited, optimizer=optimizer)
    now._model.optimizer.learning_rate = 0.5  # the value that the restore put there: a callback had lowered it
    said = "".join(map(str, now.keep_edited_learning_rate(checkpoint)))
    assert float(now._model.optimizer.learning_rate) == pytest.approx(kept)
    assert said == ("learning rate: 1 → 0.1" if kept == 0.1 else "")


def test_learning_rate_lowered_by_a_callback_stays_lowered(begin):
    checkpoint = saved(begin(optimizer=keras.optimizers.SGD(1.0)))
    now = begin(edited="elsewhere", optimizer=keras.optimizers.SGD(1.0))
    now._model.optimizer.learning_rate = 0.5
    assert now.keep_edited_learning_rate(checkpoint) == []
    assert float(now._model.optimizer.learning_rate) == 0.5


def test_a_schedule_has_no_fixed_learning_rate(begin):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    assert begin(optimizer=keras.optimizers.SGD(schedule)).learning_rate is None


def test_edits_that_change_the_result_count_as_intended(begin):
    checkpoint = saved(begin())
    now = begin(edited="since", arguments={"epochs": 5, "initial_epoch": 1, "batch_size": 8})
    assert [*map(str, now.meant(checkpoint))] == ["epochs: 3 → 5", "batch_size: 16 → 8"]
    assert [*map(str, begin(edited="since").meant(checkpoint))] == [], "a comment, say"


def test_a_changed_callback_setting_counts_as_intended_without_an_edit(begin):
    def with_patience(number, edited=""):
        beginning = begin(edited=edited)
        stopping = keras.callbacks.EarlyStopping(patience=number)
        again = Beginning(beginning._model, ARGUMENTS, [stopping])
        again._facts[SCRIPT] = beginning._facts[SCRIPT]
        return again

    checkpoint = saved(with_patience(3))
    (change,) = with_patience(5, edited="since").meant(checkpoint)
    assert "patience" in str(change)
    assert "3 → 5" in str(change).replace("'", "")
    assert len(with_patience(5).meant(checkpoint)) == 1, "it may come from a configuration file"
    assert [*map(str, with_patience(3).meant(checkpoint))] == []
    assert len(with_patience(5).changes(checkpoint, CALLBACKS)) == 1


def test_loop_iterations_are_distinguished_by_value_and_learning_rate(begin):
    def turn(fold, rate):
        model = begin(optimizer=keras.optimizers.SGD(rate))._model
        return Beginning(model, ARGUMENTS, [], turn={"fold": str(fold)})

    checkpoint = saved(turn(0, 0.5))
    assert [*map(str, turn(0, 0.5).changes(checkpoint, TURN))] == []
    assert [*map(str, turn(1, 0.25).changes(checkpoint, TURN))] == ["fold: 0 → 1", "learning rate: 0.5 → 0.25"]
    assert [*map(str, turn(1, 0.25).changes(checkpoint))] == [], "what is of this turn alone is no change of the fit"


def test_data_is_identified_by_element_spec_and_length():
    class Epochs:
        _distributed_dataset = tf.data.Dataset.range(4)

        class data_adapter:
            num_batches = 4

    facts = provenance.data_facts(Epochs)
    assert facts == {"elements of the data": str(Epochs._distributed_dataset.element_spec), "batches in an epoch": 4}


def test_a_different_machine_and_other_versions_are_reported(begin):
    checkpoint = saved(begin())
    checkpoint.meta.made_by["surroundings"] |= {
        "machine": "node7",
        "TensorFlow": "2.17.0",
        "devices": "/device:GPU:0",
    }
    said = provenance.listed(begin().changes(checkpoint))
    for words in ("machine: node7 → ", "TensorFlow: 2.17.0 → ", "devices: /device:GPU:0 → /device:CPU:0"):
        assert words in said
    assert compared(begin(), checkpoint) == "same"


def with_facts(beginning, group, **facts):
    beginning._facts[group] |= facts
    return beginning


def test_changed_arguments_and_non_job_environment_count_as_intended(begin):
    def start(value, job, words):
        now = with_facts(begin(), ENVIRONMENT, **{"environment variable EPOCHS": value})
        with_facts(now, "surroundings", **{"environment variable SLURM_JOB_ID": job})
        return with_facts(now, SCRIPT, **{"arguments of the script": words})

    checkpoint = saved(start("6f1a", "1", "--rate 1"))
    assert [*map(str, start("6f1a", "1", "--rate 1").meant(checkpoint))] == []
    now = start(None, "2", "--rate 2")
    assert now.script_was_edited(checkpoint)
    assert [*map(str, now.meant(checkpoint))] == [
        "arguments of the script: --rate 1 → --rate 2",
        "environment variable EPOCHS is no longer set",
    ]
    assert "environment variable SLURM_JOB_ID has a different value" in [*map(str, now.changes(checkpoint))]
    assert [*map(str, start(None, "1", "x").meant(saved(start("6f1a", "1", "x"))))] == [
        "environment variable EPOCHS is no longer set"
    ]
    assert [*map(str, begin().meant(saved(start("6f1a", "1", "x"))))] == [], (
        "a variable that is no longer read says nothing"
    )


def test_changed_callback_settings_count_as_intended_but_names_do_not(begin):
    def start(patience, path):
        facts = {"EarlyStopping 0: patience": patience, "TensorBoard 1: log_dir": repr(path)}
        return with_facts(begin(), CALLBACKS, **facts)

    checkpoint = saved(start(3, "logs/0900"))
    assert [*map(str, start(3, "logs/1000").meant(checkpoint))] == []
    assert [*map(str, start(5, "logs/1000").meant(checkpoint))] == ["EarlyStopping 0: patience: 3 → 5"]


def test_a_changed_learning_rate_schedule_counts_as_intended(begin):
    def start(steps):
        return begin(optimizer=keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, steps)))

    (change,) = start(20).meant(saved(start(10)))
    assert str(change).startswith("optimizer schedule: ")


def test_other_number_of_workers_is_a_change_that_is_meant(begin):
    checkpoint = saved(begin(keras.layers.Dense(3)))
    now = begin(keras.layers.Dense(3))
    assert now.other_workers(checkpoint) == []
    checkpoint.meta.made_by["surroundings"]["workers"] = 2
    assert [*map(str, now.other_workers(checkpoint))] == ["the number of workers has changed: 2 → 1"]
    assert now.meant(checkpoint) == now.other_workers(checkpoint)
