"""Contains the table of all reasons, with a sentence and a remedy for each code, causes before effects. Pure.

A sentence or remedy contains placeholders for the reason's values, or is a function of these values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from oomph.protocol.replacements import CALLS, STATELESS, UNGUARDED_KINDS, instead_of
from oomph.terminal.amounts import counted

_SEED = "call keras.utils.set_random_seed(1) at the top of the script"
_SAME_FITS = "make every start of the script reach the same fits in the same order, whatever it finds on disk"
_OWN_GENERATOR = (
    "keep a generator in the model, self.random = keras.random.SeedGenerator(1), and draw with "
    "keras.random.normal(..., seed=self.random) and the like"
)
_AS_CLASS = "write the generator as a class with __iter__ and __next__ that keeps its state in attributes"
_PLAIN = "numbers, text, lists, dicts, NumPy arrays or generators, or a tf.Variable"
_ORDER = (
    "derive the order of each epoch from its number alone, np.random.default_rng((seed, epoch)); "
    "a keras.utils.PyDataset can do so in on_epoch_end"
)
TF_DATA = (
    "to be exact, read the data with a tf.data.Dataset of TensorFlow's own operations (from_tensor_slices, files), "
    "without a Python generator, py_function or PyDataset"
)
FITTING = "use a batch size that fits"
_STEPS = "`for batch in oomph.steps(dataset, epochs=..., state=[model, optimizer]):`"
RESUMABLE = f"train with model.fit; for a custom loop, write it as {_STEPS}"
_DETERMINISM = "call tf.config.experimental.enable_op_determinism() at the top"
_MORE_CHECKPOINTS = "take checkpoints more often, with --checkpoint-every: the first steps after each leave a record"
_ROOM = "free disk space, or choose another folder with --run-dir"
_SAME_VALUES = "make every start of the script use the same values; after an edit, use --start-over"
_SAME_CELLS = (
    "run the cell as it was; to train everything with the edit, use %oomph fresh in a notebook, and --start-over with"
    " oomph run"
)
GENERAL = (
    f"keep anything that training changes in {_PLAIN} of the model or of a callback, or give the callback get_state()"
    " and set_state(state)"
)
GENERATOR, THREADS, OPEN_FILE, DATA_ITERATOR, SHAPE, OTHER_VARIABLES, GONE, RECORDS, UNSEEN, TOO_LARGE = (
    "generator", "threads", "open-file", "data-iterator", "shape", "other-variables", "gone", "records", "unseen",
    "too-large",
)  # fmt: skip
"""The codes of the reasons why an object cannot be restored."""
_OF_TROUBLES = {
    UNSEEN: "make it smaller: keep large tables in NumPy arrays, which are fast to examine",
    GENERATOR: _AS_CLASS,
    THREADS: "do not change it from other threads, or give its class get_state() and set_state(state)",
    OPEN_FILE: 'open the file with mode "a" for each line, and close it after writing',
    DATA_ITERATOR: "create a new iterator in each epoch, or use a dataset without Python in it",
    SHAPE: "assign a new array instead of the old one, and give variables that grow the shape [None]",
    OTHER_VARIABLES: "build that optimizer before the fit: optimizer.build(model.trainable_variables)",
    GONE: "create it before the fit, in every start of the script",
    TOO_LARGE: "keep less in it, or write it to a file and read it in every start of the script",
    RECORDS: "keep its columns in arrays of numbers, not in one array of records",
}
NOT_TF_DATA, TAKEN_AHEAD, SHUFFLE_OVER, EARLIER_SHUFFLE, CACHE_FILE = (
    "not-tf-data", "taken-ahead", "shuffle-over", "earlier-shuffle", "cache-file",
)  # fmt: skip
"""The codes of the reasons why a position in the data cannot be saved, in addition to TensorFlow's own reasons."""
_OF_POSITIONS = {
    NOT_TF_DATA: "iterate over a tf.data.Dataset itself, where no strategy has to divide it",
    SHUFFLE_OVER: "nothing to change in the script: near the end of an epoch, after its shuffle, no position is saved",
    EARLIER_SHUFFLE: "let only one shuffle() draw a new order for each epoch, after cache() and any other; leave the "
    "others out, or give them reshuffle_each_iteration=False",
    CACHE_FILE: "read through the data once before training, so that the cache file is complete",
    TAKEN_AHEAD: "declare the length of the data: dataset.apply(tf.data.experimental.assert_cardinality(number))",
}
NORMALIZATION, DRAWS, SUMS = "batch-normalization", "draws", "sums"
"""The codes of the couplings between a batch's samples that make splitting the batch change the result."""
_OF_COUPLINGS = {
    NORMALIZATION: f"replace BatchNormalization with LayerNormalization or GroupNormalization, or {FITTING}",
    DRAWS: _OWN_GENERATOR,
    SUMS: "sum over samples in the metric's update_state, and divide in result",
}
_PLACE = re.compile(r"(?P<place>[a-z]+)(?: \d+| of (?P<module>[^:]+):)?(?: (?P<name>[\w.]+))?")
"""Matches an object's name in the walk, such as "callback Own.counts", "layer 3 Mine.cache" or "global of __main__:
best"."""


class ReasonRow(NamedTuple):
    """One kind of reason."""

    sentence: str | Callable[..., str]
    remedy: str | Callable[..., str] = GENERAL


def _mend_object(where: str, what: str, trouble: str = "") -> str:
    """Return the remedy for an object, based on its trouble if there is one, otherwise on where the object is."""
    if trouble in _OF_TROUBLES:
        return _OF_TROUBLES[trouble]
    found = _PLACE.match(where)
    name = ((found and found["name"]) or "it").partition(".")[0]
    match found and found["place"]:
        case "callback":
            return f"give {name} get_state() and set_state(state), which return and restore its state"
        case "layer":
            return f"keep it in {_PLAIN} of {name}, or give {name} save_own_variables and load_own_variables"
        case "model" | "optimizer" | "loss" | "metric":
            return f"keep it in {_PLAIN}, as an attribute"
        case "state":
            return "keep it in numbers, lists, dicts or arrays, or give its class get_state() and set_state(state)"
        case "data":
            return f"keep it in {_PLAIN} of the dataset"
        case "class":
            return f"keep it in {_PLAIN}, or in an attribute of an object instead of the class {name}"
        case "global":
            return f"keep it in {_PLAIN}, or as an attribute of a callback with get_state()"
    return GENERAL


def _mend_position(why: str, kind: str = "", call: str = "", also: str = "") -> str:
    """Return the remedy for a position that cannot be saved.

    The remedy depends on the random operation `call`, or on the obstacle `why`, which mostly quotes TensorFlow.
    `also` lists the other random operations in the pipeline, which would be the next obstacles.
    """
    if kind in _OF_POSITIONS:
        return _OF_POSITIONS[kind]
    if "Variable" in why or "RngReadAndSkip" in why:
        return "read variables, and draw with Keras' random layers, in the model instead of the data pipeline"
    kernel = why.removesuffix(" is stateful")
    known = call or CALLS.get(kernel, "")
    if known in STATELESS:
        return instead_of(known, *(other for other in also.split(", ") if other in STATELESS))
    is_random = re.search("Random|Normal|Multinomial|Sample", kernel) and kernel.isalnum()
    return f"draw with the stateless operations of tf.random instead of {kernel}" if is_random else TF_DATA


def _unguarded(site: str, kind: str) -> str:
    return f"{site} trains with {UNGUARDED_KINDS[kind].what}"


def _from(epoch: int, step: int) -> str:
    return f"from epoch {epoch}, step {step} on"


def _other_rate(rate: float, was: float, epoch: int, step: int = 0) -> str:
    at = _from(epoch, step) if step else f"after epoch {epoch}"
    return f"the learning rate is {rate:g} instead of {was:g}, {at}"


def _other_random(epoch: int, step: int = 0) -> str:
    return (
        f"the random numbers differ, {_from(epoch, step)}" if step else f"the random numbers differ after epoch {epoch}"
    )


def _other_result(epoch: int, step: int, loss: float | None = None, was: float | None = None) -> str:
    losses = "" if loss is None else f" (loss {loss:.9g}, was {was:.9g})"
    return f"the same batch gives a different result{losses}, {_from(epoch, step)}"


def compared_part(compared: int, repeated: int, epochs: int = 0) -> str:
    """Describe how many of the repeated steps were compared."""
    steps = f"{compared} of {counted(repeated, 'repeated step')}"
    return f"{steps} and the state after {counted(epochs, 'epoch')}" if epochs else steps


def _no_checkpoint(steps: int = 0) -> str:
    return "no checkpoint had been taken" + (f" by step {steps}" if steps else "")


def _take_one_before(steps: int = 0) -> str:
    """Return the remedy for training that ended after `steps` steps (0 if unknown), before the first checkpoint."""
    earlier = f"{steps // 2}, a number of steps" if steps > 1 else "1m, or a number of steps"
    return f"take the first checkpoint earlier: --checkpoint-every {earlier}"


def _left_out(count: int, named: str, complete: bool) -> str:
    if not count:
        return "left out corrupt records whose names could not be found"
    return f"left out {'' if complete else 'at least '}{count} corrupt record{'s' * (count != 1)}: {named}"


TABLE = {
    # Changes made on purpose between two starts.
    "start-over": ReasonRow(
        "--start-over was given", "leave --start-over out, so that the run resumes from its checkpoints"
    ),
    "before-the-edit": ReasonRow(
        "the state of fit {number} is from before fit {edited} was edited",
        "to train everything with the edit, use --start-over",
    ),
    "script-edited": ReasonRow("{name} was edited", _SAME_VALUES),
    "cell-edited": ReasonRow("the code of {cell} changed ({names})", _SAME_CELLS),
    "variable-changed": ReasonRow(
        "environment variable {name} {how}",
        "set {name} in every start as in the first; after a change, use --start-over",
    ),
    "other-origin": ReasonRow(
        "the model had been trained differently before this fit; the restored state is that of the earlier kernel",
        _SAME_CELLS,
    ),
    "value-changed": ReasonRow("{name}: {was} → {now}", _SAME_VALUES),
    "all-epochs-trained": ReasonRow(
        "all epochs that the script asks for have already been trained: the saved state is returned",
        "ask for as many epochs as the first attempt did, and resume the run once more",
    ),
    # Objects in the script that oomph cannot restore.
    "object": ReasonRow("{where} ({what})", _mend_object),
    "object-unseen": ReasonRow("{where}: there was no time to examine it", _OF_TROUBLES[UNSEEN]),
    "method-failed": ReasonRow("{where}: {method} failed ({error})", "fix {method}(): it raised an error"),
    "state-not-saved": ReasonRow(
        "{where}: its state cannot be saved ({error})",
        "return only numbers, text, lists, tuples, dicts and arrays from get_state()",
    ),
    "not-in-first-state": ReasonRow(
        "{where}, which was not saved", "keep it in state= from the first start of the script"
    ),
    "changed-by-loop": ReasonRow(
        "{name}, which the loop changes but state= does not contain",
        'keep {name} in a dict, and the dict in state=: state=[..., kept], then kept["{name}"] = ...',
    ),
    "history": ReasonRow(
        "{name} in the History ({error})", "put only numbers, text, lists and arrays in a callback's logs"
    ),
    "file-changed": ReasonRow("the file {path}, which it wrote, is {how}", "leave {path} as the fit wrote it"),
    "file-read": ReasonRow(
        "the file {path} is read, but has changed since the checkpoint",
        "also keep the data read back from {path} in an attribute of the callback, and use that",
    ),
    # Random numbers and the order of the data.
    "raced": ReasonRow(
        "random numbers of the data pipeline, which parallel calls draw in any order ({call})",
        lambda call: instead_of(call),
    ),
    "data-unseeded": ReasonRow(
        "random numbers of the data pipeline, which has no seed",
        f"{_SEED}, or give the pipeline's random operations a seed",
    ),
    "order-unseeded": ReasonRow("the order of later epochs, which has no seed", _SEED),
    "draws-too-many": ReasonRow(
        "random numbers of the data pipeline: drawing them again takes too long",
        "derive them from the element's number: dataset.enumerate(), then tf.random.stateless_uniform with "
        "seed=(1, number)",
    ),
    "draws-of-kind": ReasonRow("random numbers of {kind} {where}", f"{_OWN_GENERATOR}, not with {{kind}}"),
    "draws-in-kernels": ReasonRow(
        lambda function="": (
            f"random numbers whose state is inside TensorFlow's kernels{function and ', in '}{function}"
        ),
        f"{_OWN_GENERATOR}; in a custom loop, name it in state=",
    ),
    "order-too-long": ReasonRow(
        "the order of the data: replaying earlier epochs takes too long",
        "make shuffle() the last step that orders the data, after cache(), repeat() and concatenate()",
    ),
    "validation-too-long": ReasonRow(
        "the order of the validation data: replaying it takes too long",
        "validate on data without a shuffle",
    ),
    "validation-read-ahead": ReasonRow(
        "the order of the validation data, which is prefetched and repeats",
        "make the validation data finite: leave out repeat(), or the shuffle",
    ),
    "position-not-saved": ReasonRow(
        lambda why, kind="", call="", also="": f"the position in the data cannot be saved: {why}", _mend_position
    ),
    # Fits that an earlier attempt trained and this one did not reach.
    "finished-not-reached": ReasonRow(
        "fit {number} was finished by an earlier attempt, but not reached again", _SAME_FITS
    ),
    "begun-not-reached": ReasonRow("fit {number} was started by an earlier attempt, but not reached again", _SAME_FITS),
    "another-path": ReasonRow(
        "the script reached {what} at {site} by a different path this time ({differences})", _SAME_FITS
    ),
    # Effects of an option, the script or its surroundings on training.
    "precision": ReasonRow("in mixed_bfloat16", "leave --allow-bfloat16 out, or use a smaller batch size"),
    "skip-batch": ReasonRow("leaving out the batch at {place}", "leave --skip-poison out, and fix the batch"),
    "smaller-batches": ReasonRow(
        "a batch that did not fit was split into smaller batches, each with its own update",
        f"leave --allow-smaller-batch out, or {FITTING}",
    ),
    "oom-caught": ReasonRow(
        "the script caught an out-of-memory error at {site}, outside a guarded step, and handled it itself",
        f"if it is a step of a training, put @oomph.guard on it; else compute it in parts, with oomph.map_batches, or "
        f"{FITTING}",
    ),
    "left-out": ReasonRow(_left_out, "replace these records, or remove them from the data"),
    "trusted": ReasonRow(
        "fit at {site}: not restored: {lost}", "leave --trust-finished-fits out, so that the fit trains again"
    ),
    "resumed-itself": ReasonRow(
        "the script resumed on its own at epoch {epoch}",
        "leave resuming to oomph: begin at the first epoch, without loading your own checkpoint; oomph also "
        "restores random numbers and the position in the data",
    ),
    "another-training": ReasonRow(
        "the checkpoint belongs to a different {what}: {differences}",
        f"{_SEED}, and make every start of the script build the same model and the same data",
    ),
    "generator-passed-on": ReasonRow(
        "fit at {site} continues with a generator from which a resumed fit took batches",
        "create a new generator for each fit",
    ),
    "data-advanced": ReasonRow(
        "the data had advanced by the time it turned out that the fit must train again", "give each fit its own dataset"
    ),
    "appended-again": ReasonRow(
        "{site} appends to {path} a second time",
        "collect the rows in the script, and write all of {path} at its end",
    ),
    "unrecorded": ReasonRow(
        "there is no record of an earlier attempt",
        "keep the run directory intact: journal/ records what each attempt did",
    ),
    "asked-to-stop": ReasonRow(
        "the script was asked to stop, and may have trained less than it would have",
        "to finish it, run it to completion, or resume it where its checkpoint was kept",
    ),
    "workers-changed": ReasonRow(
        "the number of workers has changed: {was} → {now}",
        "divide a global batch of the same size among any number of workers: then only rounding differs",
    ),
    "epoch-restarted": ReasonRow(
        "the interrupted epoch was restarted", "make every start of the script use the same data"
    ),
    # Training that was not guarded or not saved.
    "loop-without-steps": ReasonRow(
        "the training loop at {site} does not iterate over oomph.steps",
        f"make the loop at {{site}} resumable: {_STEPS}",
    ),
    "outside-fit": ReasonRow("{site} trains outside a resumable fit", RESUMABLE),
    "keras-2-fit": ReasonRow("{site} trains with Keras 2", UNGUARDED_KINDS["keras-2"].instead),
    "in-a-kernel": ReasonRow(
        "{site} trains in a Jupyter kernel, which oomph cannot restart", "run the notebook itself: oomph run {notebook}"
    ),
    "in-another-process": ReasonRow(
        "{site} trains in a process that the script has started", "train in the script's main process"
    ),
    "unguarded-kind": ReasonRow(_unguarded, lambda site, kind: UNGUARDED_KINDS[kind].instead),
    "unguarded": ReasonRow("{site} trains", RESUMABLE),
    "guard-failed": ReasonRow(
        "the guard failed: {error}",
        "install the versions that oomph doctor asks for, or report the failure with the journal if it asks for none",
    ),
    "recompiled": ReasonRow(
        "the model was recompiled during the fit",
        "call compile() before fit, and train after the change in a separate fit",
    ),
    "not-finite": ReasonRow(
        "{name} is not finite", "stop such training with the callback keras.callbacks.TerminateOnNaN()"
    ),
    "not-written": ReasonRow("no checkpoint could be written: {error}", _ROOM),
    "checkpoints-gone": ReasonRow(
        "the checkpoints, of {steps} steps, are gone from the run directory",
        "keep checkpoints/ in the run directory until the run has finished",
    ),
    "no-checkpoint": ReasonRow(_no_checkpoint, _take_one_before),
    # Effects of a division into micro-batches.
    "divided": ReasonRow(
        lambda reason, coupling="": str(reason), lambda reason, coupling="": _OF_COUPLINGS.get(coupling, FITTING)
    ),
    "later-coupling": ReasonRow(
        "a later probe found a coupling that the first one missed",
        "use --inexact=refuse, or make every layer treat each sample independently",
    ),
    # Results of comparing repeated steps.
    "records-unwritten": ReasonRow("the records of the steps could not be written: {error}", _ROOM),
    "none-repeated": ReasonRow(
        "the compared steps match the original ones, but one fit resumed where it had stopped, with no step to compare",
        "nothing to change in the script: a fit that resumes at the last step that it completed has nothing to repeat",
    ),
    "no-records": ReasonRow("the repeated steps had left no record of their results", _MORE_CHECKPOINTS),
    "partly-compared": ReasonRow(lambda **known: f"{compared_part(**known)} compared, equal", _MORE_CHECKPOINTS),
    "other-batches": ReasonRow("the replayed batches differ, from batch {batch} on", _ORDER),
    "other-data": ReasonRow(
        lambda epoch, step=1: f"the data or its order changed, {_from(epoch, step)}",
        f"{_SEED}; leave deterministic = False out of a tf.data.Dataset's options; {_ORDER}",
    ),
    "other-rate": ReasonRow(
        _other_rate,
        "derive the rate from the epoch (LearningRateScheduler) or from the step (a schedule in the optimizer), or "
        "give the callback that sets it get_state() and set_state(state)",
    ),
    "other-random": ReasonRow(_other_random, f"{_SEED}; in code that draws its own random numbers, {_OWN_GENERATOR}"),
    "other-result": ReasonRow(
        _other_result, f"{_DETERMINISM}; keep anything the step reads in the model, as a tf.Variable"
    ),
    "other-state": ReasonRow(
        lambda epoch, final=False: f"the {'final ' if final else ''}state differs after epoch {epoch}",
        "callbacks must change the model based only on the epoch and on their own attributes, which oomph saves",
    ),
    "within-noise": ReasonRow(
        lambda noise: f"not bit for bit: within this training's own noise of {noise:.1g}",
        f"for equal bits, {_DETERMINISM}",
    ),
    # Anything that is not in the table: an error's own text, a damaged journal, a reason from a later oomph.
    "in-words": ReasonRow("{text}"),
}
