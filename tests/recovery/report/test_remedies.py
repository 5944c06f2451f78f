"""What would better a label: each reason that the code produces has a remedy of its own, all others a general one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oomph
from oomph.journal.journal import Event
from oomph.run.report.causes import causes
from oomph.run.report.labels import ORDER, SMALLER_BATCHES
from oomph.run.report.remedies import Remedy, remedies, remedy_of

SOURCE = Path(oomph.__file__).parent
REASONS = [
    # a reason, the file that produces it, words of its source, words of its remedy
    (
        "the records of the steps could not be written: No space left on device", "run/report/uncompared.py",
        "the records of the steps could not be written", "free disk space",
    ),
    (
        "the repeated steps had left no record of their results", "run/report/uncompared.py",
        "the repeated steps had left no record of their results", "checkpoints more often",
    ),
    (
        "the script resumed by itself at epoch 18", "resume/fit/own_resume.py",
        "{BY_ITSELF} at epoch", "leave resuming to oomph",
    ),
    (
        "3 of 286 repeated steps compared, equal", "protocol/coverage.py",
        "compared, equal", "checkpoints more often",
    ),
    (
        "fit at train.py:9 continues with a generator that a resumed fit has taken batches from", "resume/fit/reporting.py",
        "continues with a generator that a resumed fit has taken batches from", "a new generator for each fit",
    ),
    ("train.py:7 trains outside a resumable fit", "run/report/labels.py", "trains outside a resumable fit", "oomph.steps("),
    ("callback Own.counts (Strange)", "resume/training/fit_objects.py", "callback {type(callback)", "give Own get_state()"),
    ("layer 3 Mine.cache (Strange)", "resume/training/fit_objects.py", "layer {number}", "give Mine save_own_variables"),
    ("model.seen (Strange)", "resume/training/fit_objects.py", '("model", model)', "tf.Variable, as an attribute"),
    ("optimizer.seen (Strange)", "resume/training/fit_objects.py", '("optimizer"', "tf.Variable, as an attribute"),
    ("loss.seen (Strange)", "resume/training/fit_objects.py", '("loss"', "tf.Variable, as an attribute"),
    ("metric Mine.seen (Strange)", "resume/training/fit_objects.py", "metric {type(metric)", "tf.Variable, as an attribute"),
    ("data x.order (Strange)", "resume/training/fit_objects.py", "data {name}", "of the data set"),
    ("data.order (Strange)", "resume/loop/objects.py", '("data", data)', "of the data set"),
    ("class Mine.calls (Strange)", "resume/objects/walk.py", "class {own_class", "instead of the class Mine"),
    ("global of __main__: best (Strange)", "resume/objects/walk.py", "global of {name}: ", "attribute of a callback"),
    ("state[1].seen (Strange)", "resume/loop/roots.py", 'f"state[{number}]"', "give its class get_state()"),
    ("state['best'].seen (Strange)", "resume/loop/roots.py", 'f"state[{name!r}]"', "give its class get_state()"),
    (
        "callback Own.table: there was no time to look at it", "resume/objects/picture.py",
        "there was no time to look at it", "let it hold less",
    ),
    ("callback Own.last (no longer there)", "resume/objects/restoration.py", "(no longer there)", "create it before"),
    (
        "callback Own.step (a generator that values are sent to)", "resume/objects/forward.py",
        "a generator that values are sent to", "with __iter__ and __next__",
    ),
    (
        "callback Own.step (a generator that cannot be run to where it was)",
        "resume/objects/forward.py", "a generator that cannot be run to where it was", "with __iter__ and __next__",
    ),
    (
        "callback Own.step (a generator that values are sent to)", "resume/objects/forward.py",
        "a generator that values are sent to", "with __iter__ and __next__",
    ),
    (
        "callback Own.step (a generator that cannot be moved to where it was)",
        "resume/objects/suspended.py", "a generator that cannot be moved", "with __iter__ and __next__",
    ),
    ("callback Own.new (generator)", "resume/objects/picture.py", "{key} ({kind})", "with __iter__ and __next__"),
    (
        "callback Own.queue (an object that other threads change)", "resume/objects/walk.py",
        "an object that other threads change", "do not change it from other threads",
    ),
    (
        "callback Own.log (a large open file)", "resume/objects/open_file.py",
        "a large open file", 'with mode "a"',
    ),
    (
        "callback Own.it (an iterator that TensorFlow cannot save)",
        "resume/objects/library_kinds.py", "an iterator that TensorFlow cannot save", "create a new iterator",
    ),
    (
        "callback Own.sums (an array of another shape)", "resume/objects/arrays.py",
        "an array of another shape", "assign a new array",
    ),
    (
        "callback Own.sums (a variable of another shape)", "resume/objects/arrays.py",
        "a variable of another shape", "the shape [None]",
    ),
    (
        "callback Own.optimizer (an optimizer with other variables)",
        "resume/objects/library_kinds.py", "an optimizer with other variables", "optimizer.build",
    ),
    ("callback Own.rows (12.0 GB, too large to be kept)", "resume/objects/picture.py", "too large to be kept", "keep less"),
    ("callback Own.rows (an array of V12)", "resume/objects/picture.py", "an array of {content", "arrays of numbers"),
    (
        "state[2] (Mine): get_state failed (ValueError: no)", "resume/loop/objects.py", "failed ({type(error)",
        "fix get_state()",
    ),
    ("state[2] (Mine), which was not saved", "resume/loop/objects.py", "which was not saved", "first start"),
    (
        "best, which the loop changes and state= does not hold", "resume/loop/running.py",
        "which the loop changes and state= does not hold", 'kept["best"] = ',
    ),
    (
        "random numbers of RandomGamma in the train step", "exact_step/step/full_batch_step.py", "in the train step",
        "keras.random.SeedGenerator(1), and draw with keras.random.normal(..., seed=self.random) and the like, not with RandomG",
    ),
    (
        "random numbers that TensorFlow's kernels count themselves", "resume/fit/step_draws.py",
        "random numbers that TensorFlow's kernels count themselves", "keras.random.SeedGenerator(1)",
    ),
    (
        "random numbers that TensorFlow's kernels count themselves, in train_step", "keras_bridge/random_numbers/uncheckpointed_ops.py",
        "random numbers that TensorFlow's kernels count themselves, in", "name it in state=",
    ),
    (
        "random numbers of the data pipeline, which parallel calls draw in any order (tf.image.random_hue)",
        "protocol/stateless_draws.py", "which parallel calls draw in any order", "tf.image.stateless_random_hue(",
    ),
    (
        "random numbers of the data pipeline, which has no seed", "resume/training/data_position.py",
        "random numbers of the data pipeline, which has no seed", "keras.utils.set_random_seed(1)",
    ),
    (
        "the order of later epochs, which has no seed", "keras_bridge/pipelines/datasets.py",
        "the order of later epochs, which has no seed", "keras.utils.set_random_seed(1)",
    ),
    (
        "random numbers of the data pipeline: drawing them again takes too long", "resume/training/data_position.py",
        "drawing them again takes too long", "dataset.enumerate()",
    ),
    (
        "the order of the data: replaying earlier epochs takes too long", "resume/training/data_position.py",
        "replaying earlier epochs takes too long", "make shuffle() the last",
    ),
    (
        "the replayed batches differ, from batch 3 on", "resume/fit/resumption.py",
        "the replayed batches differ", "np.random.default_rng((seed, epoch))",
    ),
    (
        "the data or their order changed, from epoch 2, step 5 on", "checkpoint/comparison.py",
        "the data or their order changed", "keras.utils.set_random_seed(1)",
    ),
    (
        "the random numbers differ, from epoch 2, step 5 on", "checkpoint/comparison.py",
        "the random numbers differ", "SeedGenerator",
    ),
    (
        "the learning rate is 0.1, was 0.01, from epoch 2, step 5 on", "checkpoint/comparison.py",
        "the learning rate is", "LearningRateScheduler",
    ),
    (
        "the same batch gives a different result (loss 1, was 2), from epoch 2, step 5 on", "checkpoint/comparison.py",
        "the same batch gives a different result", "enable_op_determinism",
    ),
    ("the state differs after epoch 2", "checkpoint/comparison.py", "the state differs", "what callbacks do"),
    (
        "the final state differs after epoch 2", "checkpoint/comparison.py",
        "the final state differs", "what callbacks do",
    ),
    (
        "not bit for bit: within this training's own noise of 1e-07", "run/report/labels.py",
        "not bit for bit: ", "enable_op_determinism",
    ),
    (
        "the file log.csv is read, and is not what it was at the checkpoint", "resume/fit/resumption.py",
        "is read, and is not what it was at the checkpoint", "read back from log.csv in an attribute",
    ),
    (
        "the order of the validation data, which are read ahead while they repeat", "resume/fit/validation_data.py",
        "the order of the validation data", "leave repeat() out",
    ),
    (
        "the data had advanced before it turned out that the fit must train again", "resume/fit/replay.py",
        "the data had advanced before", "its own dataset",
    ),
    (
        "train.py:45 appends to results.csv a second time", "run/report/labels.py",
        " a second time", "write results.csv as a whole",
    ),
    (
        "the file a/best.h5, which it wrote, is gone", "resume/fit/written_files.py", "which it wrote, is",
        "leave a/best.h5 as",
    ),
    ("the interrupted epoch was restarted", "run/report/labels.py", "the interrupted epoch was restarted", "same data"),
    (
        "fit 1 was finished by an earlier attempt, and not reached again", "run/report/labels.py",
        "was finished by an earlier attempt, and not reached again", "the same fits in the same order",
    ),
    (
        "fit 1 was begun by an earlier attempt, and not reached again", "run/report/labels.py",
        "was begun by an earlier attempt, and not reached again", "the same fits in the same order",
    ),
    (
        "the script reached fit at a.py:3 by another path than before (epochs: 2 → 5)", "resume/fit/continuation.py",
        "by another path than before", "the same fits in the same order",
    ),
    (
        "the script reached loop at a.py:3 by another path than before (epochs: 2 → 5)", "resume/loop/resumable.py",
        "by another path than before", "the same fits in the same order",
    ),
    (
        "fit at a.py:3: not restored: callback Own.last (Strange)", "resume/fit/replay.py", ": not restored: ",
        "leave --trust-finished-fits out",
    ),
    (
        "the checkpoint is of another fit: values of x: ndarray 12 → ndarray 34", "resume/fit/continuation.py",
        "the checkpoint is of another fit: ", "keras.utils.set_random_seed(1)",
    ),
    (
        "the checkpoint is of another loop: epochs: 2 → 5", "resume/loop/resumable.py",
        "the checkpoint is of another loop: ", "build the same model and the same data",
    ),
    (SMALLER_BATCHES, "run/report/labels.py", SMALLER_BATCHES, "--allow-smaller-batch"),
    ("in mixed_bfloat16", "run/policy/ladder.py", "in mixed_bfloat16", "--allow-bfloat16"),
    ("leaving out the batch at fit 1, epoch 1, step 3", "run/policy/ladder.py", "leaving out the batch at", "--skip-poison"),
    (
        "a later probe found a coupling that the first one missed", "run/report/labels.py",
        "a later probe found a coupling", "--inexact=refuse",
    ),
    ("train.py was edited", "resume/training/provenance.py", "was edited", "--start-over"),
    ("epochs: 2 → 5", "resume/training/provenance.py", " → ", "--start-over"),
    (
        "environment variable EPOCHS is no longer set", "resume/training/provenance.py",
        "environment variable", "set EPOCHS in every start",
    ),
    (
        "all epochs that the script asks for were trained before: the saved state is returned", "run/report/labels.py",
        "all epochs that the script asks for were trained before", "as many epochs as in the first start",
    ),
    ("learning rate: 0.1 → 0.01", "resume/training/provenance.py", "learning rate: ", "--start-over"),
    (
        "the model was recompiled within the fit", "resume/fit/checkpoints.py",
        "the model was recompiled within the fit", "call compile() before fit",
    ),
    ("dense/kernel is not finite", "resume/training/step_checkpoints.py", "is not finite", "TerminateOnNaN"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "file", "words", "mend"), REASONS, ids=[reason[:60] for reason, *_ in REASONS])
def test_each_reason_that_the_code_produces_has_a_remedy_of_its_own(reason, file, words, mend):
    assert words in (SOURCE / file).read_text(), "the code says it in other words now"
    assert mend in remedy_of(reason)
    assert remedy_of(reason) != remedy_of("something else")


def test_what_nobody_has_foreseen_has_a_general_remedy():
    assert "get_state() and set_state(state)" in remedy_of("the moon has set")


@given(st.text(), st.sampled_from(ORDER))
def test_whatever_the_reason_is_there_is_one_line(reason, label):
    for remedy in remedies(label, [reason]):
        assert remedy.text
        assert "\n" not in remedy.text.replace(reason, "")


@pytest.mark.parametrize("label", ORDER)
def test_each_label_that_could_be_better_has_a_remedy_without_any_reason(label):
    assert bool(remedies(label, ())) is (label not in ("exact", "verified"))


def test_what_the_same_change_mends_is_told_once_and_the_cause_stands_for_the_difference():
    lost = "callback Own.counts (Strange)"
    seen = f"the same batch gives a different result (not restored: {lost}, callback Own.other (Strange))"
    assert remedies("not-equal", [lost, "callback Own.other (Strange)", seen]) == [Remedy(lost, remedy_of(lost))]


# -- causes of labels that have no reasons ------------------------------------------------------------------------------


def event(event: str, /, attempt: int = 1, **data: Any) -> Event:
    return Event(event, data, attempt=attempt)


def mends(label: str, *events: Event) -> str:
    return "\n".join(remedy.text for remedy in remedies(label, causes(label, events)))


def test_a_loop_of_the_scripts_own_is_told_how_to_be_resumed():
    seen = event("loop-seen", site="train.py:42")
    for label in ("unguarded", "started-over"):
        assert "make the loop at train.py:42 resumable: `for batch in oomph.steps(dataset, epochs=..." in mends(
            label, seen
        )
    assert "oomph.steps" in mends("unguarded")
    assert "oomph doctor" in mends("unguarded", event("guard-failed", reason="no TensorFlowTrainer.fit"))


def test_why_there_was_no_checkpoint():
    assert "--checkpoint-every" in mends("started-over")
    assert "free disk space" in mends("started-over", event("checkpoint-failed", reason="No space left on device"))
    anew = event("checkpoint-refused", name="", reason="the model was recompiled within the fit")
    assert "call compile() before fit" in mends("started-over", anew)
    assert "TerminateOnNaN" in mends("started-over", event("checkpoint-skipped", reason="dense/kernel is not finite"))
    assert causes("started-over", [event("checkpoint", iterator="saved")]) == ()


def test_why_batches_are_taken_anew():
    kept = [event("checkpoint", iterator="saved"), event("checkpoint", iterator="the shuffle of this epoch is over")]
    assert causes("replayed", kept) == ()
    generator = event("checkpoint", iterator="PyFunc is stateful")
    assert causes("replayed", [*kept, generator]) == ("the position in the data cannot be saved: PyFunc is stateful",)
    assert "tf.data.Dataset of TensorFlow's own operations" in mends("replayed", generator)


@pytest.mark.parametrize(
    ("iterator", "mend"),
    [
        (
            "RandomStandardNormal is stateful",
            "tf.random.stateless_normal and the like instead of RandomStandardNormal",
        ),
        ("not a tf.data iterator", "iterate over a tf.data.Dataset"),
        ("a batch of it was taken ahead, for ends_epoch", "assert_cardinality"),
        ("whatever TensorFlow says in its next version", "tf.data.Dataset of TensorFlow's own operations"),
    ],
)
def test_what_would_be_exact_depends_on_what_is_in_the_way(iterator, mend):
    assert mend in mends("replayed", event("checkpoint", iterator=iterator))


def test_why_a_run_was_given_up():
    refused = event(
        "gave-up", fault="checkpoint-failure", reason="the checkpoint is of another fit: values of x: a → b"
    )
    assert "keras.utils.set_random_seed(1)" in mends("failed", refused)
    assert "oomph explain" in mends("failed")


@pytest.mark.parametrize(
    ("reason", "start"),
    [
        ("BatchNormalization sees each micro-batch alone", "replace BatchNormalization"),
        ("custom train_step; BatchNormalization sees each micro-batch alone", "replace BatchNormalization"),
        ("random numbers that TensorFlow cannot draw again", "keep a generator in the model"),
        ("metric f1 depends on which samples are together", "sum over samples in update_state"),
        ("a number that the step returns is not a mean over samples", "sum over samples in update_state"),
        ("custom loss mine, and there was no memory for a probe", "use a batch size that fits"),
        ("the update depends on which samples are together (probe: relative difference 0.2)", "use a batch size"),
    ],
)
def test_each_reason_of_an_approximate_run_has_its_own_remedy(reason, start):
    (remedy,) = remedies("approximate", [reason])
    assert remedy.text.startswith(start)
