"""Reasons are passed on as codes; each has one sentence and a remedy that says what to do."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.protocol.reason_table import (
    CACHE_FILE,
    DATA_ITERATOR,
    DRAWS,
    EARLIER_SHUFFLE,
    GENERAL,
    GENERATOR,
    GONE,
    NORMALIZATION,
    NOT_TF_DATA,
    OPEN_FILE,
    OTHER_VARIABLES,
    RECORDS,
    SHAPE,
    SHUFFLE_OVER,
    SUMS,
    TABLE,
    TAKEN_AHEAD,
    THREADS,
    TOO_LARGE,
)
from oomph.protocol.reasons import Reason, as_data, because, method_failed, reason_from, reasons_from
from oomph.protocol.replacements import STATELESS, UNGUARDED_KINDS


def lost(where: str, what: str = "Strange", trouble: str = "") -> Reason:
    return because("object", where=where, what=what, trouble=trouble)


SEED = "keras.utils.set_random_seed(1)"
AT = {"epoch": 2, "step": 5}
REASONS = [
    # a reason, its sentence, words in its remedy
    (lost("callback Own.counts"), "callback Own.counts (Strange)", "give Own get_state()"),
    (lost("layer 3 Mine.cache"), "layer 3 Mine.cache (Strange)", "give Mine save_own_variables"),
    (lost("model.seen"), "model.seen (Strange)", "tf.Variable, as an attribute"),
    (lost("optimizer.seen"), "optimizer.seen (Strange)", "tf.Variable, as an attribute"),
    (lost("loss.seen"), "loss.seen (Strange)", "tf.Variable, as an attribute"),
    (lost("metric Mine.seen"), "metric Mine.seen (Strange)", "tf.Variable, as an attribute"),
    (lost("data x.order"), "data x.order (Strange)", "of the dataset"),
    (lost("data.order"), "data.order (Strange)", "of the dataset"),
    (lost("class Mine.calls"), "class Mine.calls (Strange)", "instead of the class Mine"),
    (lost("global of __main__: best"), "global of __main__: best (Strange)", "attribute of a callback"),
    (lost("state[1].seen"), "state[1].seen (Strange)", "give its class get_state()"),
    (lost("state['best'].seen"), "state['best'].seen (Strange)", "give its class get_state()"),
    (lost("callback Own.last", "no longer there", GONE), "callback Own.last (no longer there)", "create it before"),
    (lost("callback Own.step", "a generator", GENERATOR), "callback Own.step (a generator)", "with __iter__ and"),
    (lost("callback Own.q", "changing", THREADS), "callback Own.q (changing)", "from other threads"),
    (lost("callback Own.log", "a large open file", OPEN_FILE), "callback Own.log (a large open file)", 'mode "a"'),
    (lost("data", "an iterator", DATA_ITERATOR), "data (an iterator)", "create a new iterator"),
    (lost("callback Own.sums", "another shape", SHAPE), "callback Own.sums (another shape)", "assign a new array"),
    (lost("callback Own.opt", "other ones", OTHER_VARIABLES), "callback Own.opt (other ones)", "optimizer.build"),
    (lost("callback Own.rows", "12.0 GB", TOO_LARGE), "callback Own.rows (12.0 GB)", "keep less"),
    (lost("callback Own.rows", "an array of V12", RECORDS), "callback Own.rows (an array of V12)", "arrays of numbers"),
    (
        because("object-unseen", where="callback Own.table"),
        "callback Own.table: there was no time to examine it",
        "make it smaller",
    ),
    (
        method_failed("callback Own", "set_state", ValueError("no")),
        "callback Own: set_state failed (ValueError: no)",
        "fix set_state()",
    ),
    (
        because("state-not-saved", where="callback Own", error="TypeError: set"),
        "callback Own: its state cannot be saved (TypeError: set)",
        "from get_state()",
    ),
    (because("not-in-first-state", where="state[2] (Mine)"), "state[2] (Mine), which was not saved", "first start"),
    (
        because("changed-by-loop", name="best"),
        "best, which the loop changes but state= does not contain",
        'kept["best"] = ...',
    ),
    (because("history", name="loss", error="a lock"), "loss in the History (a lock)", "in a callback's logs"),
    (
        because("file-changed", path="a/best.h5", how="gone"),
        "the file a/best.h5, which it wrote, is gone",
        "leave a/best.h5 as",
    ),
    (
        because("file-read", path="log.csv"),
        "the file log.csv is read, but has changed since the checkpoint",
        "read back from log.csv in an attribute",
    ),
    *(
        (
            because("raced", call=call),
            f"random numbers of the data pipeline, which parallel calls draw in any order ({call})",
            f"write {instead} instead of {call}",
        )
        for call, instead in STATELESS.items()
    ),
    (because("data-unseeded"), "random numbers of the data pipeline, which has no seed", SEED),
    (because("order-unseeded"), "the order of later epochs, which has no seed", SEED),
    (
        because("draws-too-many"),
        "random numbers of the data pipeline: drawing them again takes too long",
        "dataset.enumerate()",
    ),
    (
        because("draws-of-kind", kind="RandomGamma", where="in the train step"),
        "random numbers of RandomGamma in the train step",
        "not with RandomGamma",
    ),
    (because("draws-in-kernels"), "random numbers whose state is inside TensorFlow's kernels", "SeedGenerator"),
    (
        because("draws-in-kernels", function="train_step"),
        "random numbers whose state is inside TensorFlow's kernels, in train_step",
        "name it in state=",
    ),
    (because("order-too-long"), "the order of the data: replaying earlier epochs takes too long", "shuffle() the last"),
    (
        because("validation-too-long"),
        "the order of the validation data: replaying it takes too long",
        "without a shuffle",
    ),
    (
        because("validation-read-ahead"),
        "the order of the validation data, which is prefetched and repeats",
        "leave out repeat()",
    ),
    (
        because("position-not-saved", why="PyFunc is stateful"),
        "the position in the data cannot be saved: PyFunc is stateful",
        "tf.data.Dataset of TensorFlow's own operations",
    ),
    (
        because("position-not-saved", why="ReadVariableOp is stateful"),
        "the position in the data cannot be saved: ReadVariableOp is stateful",
        "in the model instead of the data pipeline",
    ),
    (
        because("position-not-saved", why="cache() keeps the order of a shuffle that is over", kind=EARLIER_SHUFFLE),
        "the position in the data cannot be saved: cache() keeps the order of a shuffle that is over",
        "let only one shuffle() draw a new order for each epoch, after cache()",
    ),
    (
        because("position-not-saved", why="the shuffle of this epoch is over", kind=SHUFFLE_OVER),
        "the position in the data cannot be saved: the shuffle of this epoch is over",
        "nothing to change in the script",
    ),
    (
        because("position-not-saved", why="a cache file is being written", kind=CACHE_FILE),
        "the position in the data cannot be saved: a cache file is being written",
        "read through the data once before training",
    ),
    (
        because("position-not-saved", why="RandomStandardNormal is stateful"),
        "the position in the data cannot be saved: RandomStandardNormal is stateful",
        "write tf.random.stateless_normal(shape, seed) instead of tf.random.normal, with seed=(1, number)",
    ),
    (
        because("position-not-saved", why="tf.random.gamma is stateful", call="tf.random.gamma"),
        "the position in the data cannot be saved: tf.random.gamma is stateful",
        "write tf.random.stateless_gamma(shape, seed, alpha) instead of tf.random.gamma",
    ),
    (
        because(
            "position-not-saved",
            why="tf.image.random_hue and tf.random.gamma are stateful",
            call="tf.image.random_hue",
            also="tf.random.gamma",
        ),
        "the position in the data cannot be saved: tf.image.random_hue and tf.random.gamma are stateful",
        "write tf.image.stateless_random_hue(image, max_delta, seed) instead of tf.image.random_hue and"
        " tf.random.stateless_gamma(shape, seed, alpha) instead of tf.random.gamma, with seed=(1, number), (2, number)"
        " and so on, and the number from dataset.enumerate()",
    ),
    (
        because("position-not-saved", why="StatefulRandomBinomial is stateful"),
        "the position in the data cannot be saved: StatefulRandomBinomial is stateful",
        "draw with the stateless operations of tf.random instead of StatefulRandomBinomial",
    ),
    (
        because("position-not-saved", why="not a tf.data iterator", kind=NOT_TF_DATA),
        "the position in the data cannot be saved: not a tf.data iterator",
        "iterate over a tf.data.Dataset itself",
    ),
    (
        because("position-not-saved", why="taken ahead", kind=TAKEN_AHEAD),
        "the position in the data cannot be saved: taken ahead",
        "assert_cardinality",
    ),
    (
        because("workers-changed", was=2, now=3),
        "the number of workers has changed: 2 → 3",
        "divide a global batch of the same size among any number of workers",
    ),
    (
        because("other-origin"),
        "the model had been trained differently before this fit; the restored state is that of the earlier kernel",
        "%oomph fresh",
    ),
    (because("value-changed", name="epochs", was="2", now="5"), "epochs: 2 → 5", "--start-over"),
    (because("script-edited", name="train.py"), "train.py was edited", "--start-over"),
    (
        because("cell-edited", cell="cell [2]", names="x, model.compile()"),
        "the code of cell [2] changed (x, model.compile())",
        "%oomph fresh",
    ),
    (
        because("variable-changed", name="EPOCHS", how="is no longer set"),
        "environment variable EPOCHS is no longer set",
        "set EPOCHS in every start",
    ),
    (
        because("all-epochs-trained"),
        "all epochs that the script asks for have already been trained: the saved state is returned",
        "as many epochs as the first attempt did",
    ),
    (because("precision"), "in mixed_bfloat16", "--allow-bfloat16"),
    (because("skip-batch", place="fit 1, step 3"), "leaving out the batch at fit 1, step 3", "--skip-poison"),
    (
        because("smaller-batches"),
        "a batch that did not fit was split into smaller batches, each with its own update",
        "--allow-smaller-batch",
    ),
    (
        because("oom-caught", site="a.py:3"),
        "the script caught an out-of-memory error at a.py:3, outside a guarded step, and handled it itself",
        "oomph.map_batches",
    ),
    (
        because("left-out", count=2, named="a, b", complete=False),
        "left out at least 2 corrupt records: a, b",
        "replace these records",
    ),
    (
        because("trusted", site="a.py:3", lost="callback Own.last (Strange)"),
        "fit at a.py:3: not restored: callback Own.last (Strange)",
        "leave --trust-finished-fits out",
    ),
    (
        because("resumed-itself", epoch=18),
        "the script resumed on its own at epoch 18",
        "leave resuming to oomph",
    ),
    (
        because("finished-not-reached", number=1),
        "fit 1 was finished by an earlier attempt, but not reached again",
        "the same fits in the same order",
    ),
    (
        because("begun-not-reached", number=1),
        "fit 1 was started by an earlier attempt, but not reached again",
        "the same fits in the same order",
    ),
    (
        because("another-path", what="loop", site="a.py:3", differences="epochs: 2 → 5"),
        "the script reached loop at a.py:3 by a different path this time (epochs: 2 → 5)",
        "the same fits in the same order",
    ),
    (
        because("before-the-edit", number=2, edited=1),
        "the state of fit 2 is from before fit 1 was edited",
        "train everything with the edit",
    ),
    (
        because("another-training", what="fit", differences="values of x: a → b"),
        "the checkpoint belongs to a different fit: values of x: a → b",
        "build the same model and the same data",
    ),
    (
        because("generator-passed-on", site="train.py:9"),
        "fit at train.py:9 continues with a generator from which a resumed fit took batches",
        "a new generator for each fit",
    ),
    (
        because("data-advanced"),
        "the data had advanced by the time it turned out that the fit must train again",
        "its own dataset",
    ),
    (
        because("appended-again", site="train.py:45", path="results.csv"),
        "train.py:45 appends to results.csv a second time",
        "write all of results.csv",
    ),
    (because("unrecorded"), "there is no record of an earlier attempt", "keep the run directory intact"),
    (
        because("asked-to-stop"),
        "the script was asked to stop, and may have trained less than it would have",
        "run it to completion",
    ),
    (because("epoch-restarted"), "the interrupted epoch was restarted", "same data"),
    (
        because("loop-without-steps", site="train.py:42"),
        "the training loop at train.py:42 does not iterate over oomph.steps",
        "make the loop at train.py:42 resumable: `for batch in oomph.steps(dataset, epochs=...",
    ),
    (
        because("in-a-kernel", site="cell [3], line 1", notebook="nb.ipynb"),
        "cell [3], line 1 trains in a Jupyter kernel, which oomph cannot restart",
        "oomph run nb.ipynb",
    ),
    (
        because("in-another-process", site="train.py:7"),
        "train.py:7 trains in a process that the script has started",
        "main process",
    ),
    (because("outside-fit", site="train.py:7"), "train.py:7 trains outside a resumable fit", "oomph.steps("),
    (because("keras-2-fit", site="train.py:7"), "train.py:7 trains with Keras 2", "use Keras 3"),
    (
        because("workers-changed", was=4, now=3),
        "the number of workers has changed: 4 → 3",
        "divide a global batch of the same size among any number of workers",
    ),
    *(
        (because("unguarded-kind", site="a.py:1", kind=name), f"a.py:1 trains with {kind.what}", kind.instead)
        for name, kind in UNGUARDED_KINDS.items()
    ),
    (because("unguarded", site="a.py:1"), "a.py:1 trains", "train with model.fit"),
    (because("guard-failed", error="no fit"), "the guard failed: no fit", "oomph doctor"),
    (because("recompiled"), "the model was recompiled during the fit", "call compile() before fit"),
    (because("not-finite", name="dense/kernel"), "dense/kernel is not finite", "TerminateOnNaN"),
    (because("not-written", error="full"), "no checkpoint could be written: full", "free disk space"),
    (
        because("checkpoints-gone", steps=9),
        "the checkpoints, of 9 steps, are gone from the run directory",
        "keep checkpoints/",
    ),
    (because("no-checkpoint"), "no checkpoint had been taken", "--checkpoint-every 1m"),
    (
        because("no-checkpoint", steps=9),
        "no checkpoint had been taken by step 9",
        "--checkpoint-every 4, a number of steps",
    ),
    (because("start-over"), "--start-over was given", "leave --start-over out"),
    (
        because("records-unwritten", error="full"),
        "the records of the steps could not be written: full",
        "free disk space",
    ),
    (
        because("none-repeated"),
        "the compared steps match the original ones, but one fit resumed where it had stopped, with no step to compare",
        "nothing to change",
    ),
    (because("no-records"), "the repeated steps had left no record of their results", "checkpoints more often"),
    (
        because("partly-compared", compared=3, repeated=286),
        "3 of 286 repeated steps compared, equal",
        "checkpoints more often",
    ),
    (
        because("partly-compared", compared=3, repeated=286, epochs=1),
        "3 of 286 repeated steps and the state after 1 epoch compared, equal",
        "checkpoints more often",
    ),
    (because("other-batches", batch=3), "the replayed batches differ, from batch 3 on", "default_rng((seed, epoch))"),
    (because("other-data", **AT), "the data or its order changed, from epoch 2, step 5 on", SEED),
    (
        because("other-rate", rate=0.1, was=0.01, **AT),
        "the learning rate is 0.1 instead of 0.01, from epoch 2, step 5 on",
        "LearningRateScheduler",
    ),
    (because("other-random", **AT), "the random numbers differ, from epoch 2, step 5 on", "SeedGenerator"),
    (
        because("other-result", loss=1.0, was=2.0, **AT),
        "the same batch gives a different result (loss 1, was 2), from epoch 2, step 5 on",
        "enable_op_determinism",
    ),
    (because("other-state", epoch=2), "the state differs after epoch 2", "callbacks must change"),
    (because("other-state", epoch=2, final=True), "the final state differs after epoch 2", "callbacks must change"),
    (
        because("within-noise", noise=1e-7),
        "not bit for bit: within this training's own noise of 1e-07",
        "enable_op_determinism",
    ),
    (
        because("divided", reason="BatchNormalization sees each part alone", coupling=NORMALIZATION),
        "BatchNormalization sees each part alone",
        "replace BatchNormalization",
    ),
    (because("divided", reason="random numbers", coupling=DRAWS), "random numbers", "keep a generator in the model"),
    (because("divided", reason="a metric", coupling=SUMS), "a metric", "sum over samples in the metric's update_state"),
    (because("divided", reason="a coupling"), "a coupling", "use a batch size that fits"),
    (
        because("later-coupling"),
        "a later probe found a coupling that the first one missed",
        "--inexact=refuse",
    ),
]


@pytest.mark.parametrize(("reason", "sentence", "mend"), REASONS, ids=[sentence[:60] for _, sentence, _ in REASONS])
def test_reason_keeps_its_sentence_and_remedy_through_json(reason, sentence, mend):
    read = reason_from(json.loads(json.dumps(reason.as_data())))
    assert (read, str(read)) == (reason, sentence)
    assert mend in read.remedy
    assert "\n" not in read.remedy


def test_every_code_except_free_text_is_covered_by_examples():
    assert {reason.code for reason, *_ in REASONS} == {*TABLE} - {"in-words"}


def test_each_sentence_is_used_by_only_one_reason():
    written = [row.sentence for row in TABLE.values() if isinstance(row.sentence, str)]
    assert len(written) == len(set(written))
    shown = [sentence for _, sentence, _ in REASONS]
    assert len(shown) == len(set(shown))


def test_object_at_an_unknown_location_gets_the_general_remedy():
    assert lost("something else").remedy == GENERAL


@pytest.mark.parametrize(
    "data",
    [
        {"code": "of-a-later-oomph", "number": 3},
        {"code": "value-changed", "name": "epochs"},
        {"code": ["value-changed"]},
        {"code": "within-noise", "noise": 10**400},
        {"code": "other-rate", "rate": 10**400, "was": 1, "epoch": 1},
        ["a", 1],
        None,
        7,
    ],
)
def test_damaged_or_unknown_reason_is_shown_as_its_raw_data(data):
    found = reason_from(data)
    assert str(found) == json.dumps(data)
    assert found.remedy == GENERAL


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    )
)
def test_arbitrary_journal_data_becomes_a_reason(data):
    for reason in (reason_from(data), *reasons_from(data), reason_from({"code": "divided", "reason": data})):
        assert isinstance(str(reason), str)
        assert reason.remedy


def test_unknown_code_or_missing_value_raises_key_error():
    with pytest.raises(KeyError):
        because("no-such-reason")
    with pytest.raises(KeyError):
        because("not-finite")


def test_repeated_reasons_are_written_once():
    reason = because("order-unseeded")
    assert as_data([reason, reason]) == [{"code": "order-unseeded"}]
