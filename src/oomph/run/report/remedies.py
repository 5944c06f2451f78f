"""What to change in a script so that a resumed run gets a better label. Pure.

The reasons of a label are words from all over `tensorflow/`. Each row here matches one wording and says what to change
in the script. A reason that no row matches gets a general remedy. A label without reasons has its own remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from oomph.protocol.stateless_draws import STATELESS, instead_of, raced
from oomph.protocol.unguarded import KINDS
from oomph.run.report.labels import (
    APPROXIMATE,
    BY_ITSELF,
    EXACT,
    FAILED,
    NOT_EQUAL,
    REPLAYED,
    SMALLER_BATCHES,
    STARTED_OVER,
    UNGUARDED,
    UNVERIFIED,
    VERIFIED,
)

BEST = (EXACT, VERIFIED)
"""Labels that need no remedy."""
_SEED = "call keras.utils.set_random_seed(1) at the top of the script"
_SAME_FITS = "make every start of the script reach the same fits in the same order, whatever it finds on disk"
_ALL_ANEW = "to train everything with the edit, use --start-over"
_OWN_GENERATOR = (
    "keep a generator in the model, self.random = keras.random.SeedGenerator(1), and draw with "
    "keras.random.normal(..., seed=self.random) and the like"
)
_AS_CLASS = "write the generator as a class with __iter__ and __next__ that keeps its state in attributes"
_PLAIN = "numbers, text, lists, dicts, NumPy arrays or generators, or a tf.Variable"
_OTHER_THREADS = "do not change it from other threads, or give its class get_state() and set_state(state)"
_ORDER = (
    "draw the order of each epoch from its number alone, np.random.default_rng((seed, epoch)); "
    "a keras.utils.PyDataset can do so in on_epoch_end"
)
_TF_DATA = (
    "to be exact, read the data with a tf.data.Dataset of TensorFlow's own operations (from_tensor_slices, files), "
    "without a Python generator, py_function or PyDataset"
)
_FITTING = "use a batch size that fits"
_STEPS = "write it as `for batch in oomph.steps(dataset, epochs=..., state=[model, optimizer]):`"
_RESUMABLE = f"train with model.fit; for a loop of your own, {_STEPS}"


class Remedy(NamedTuple):
    """One reason, and what to do about it."""

    reason: str
    text: str


class _Row(NamedTuple):
    """The wording of a reason, and its remedy; `{name}` stands for a group of the pattern."""

    wording: str
    text: str


_OF_OBJECTS = (
    # First what is wrong with an object: it says more than where the object is.
    _Row(
        r"there was no time to look at it",
        "let it hold less: keep large tables in NumPy arrays, which are fast to examine",
    ),
    _Row(r"a generator that |\(a generator\)|\(generator\)", _AS_CLASS),
    _Row(r"an object that other threads change", _OTHER_THREADS),
    _Row(r"a large open file", 'open the file with mode "a" for each line, and close it after writing'),
    _Row(
        r"an iterator that TensorFlow cannot save",
        "create a new iterator in each epoch, or use a dataset without Python in it",
    ),
    _Row(
        r"(?:an array|a variable) of another shape",
        "assign a new array instead of the old one, and give variables that grow the shape [None]",
    ),
    _Row(
        r"an optimizer with other variables",
        "build that optimizer before the fit: optimizer.build(model.trainable_variables)",
    ),
    _Row(r"\(no longer there\)", "create it before the fit, in every start of the script"),
    _Row(
        r": (?P<method>get_state|set_state|state_dict|load_state_dict) failed",
        "fix {method}(): it raised an error",
    ),
    _Row(r", which was not saved", "keep it in state= from the first start of the script on"),
    _Row(
        r"^(?P<name>\S+), which the loop changes and state= does not hold",
        'keep {name} in a dict, and the dict in state=: state=[..., kept], then kept["{name}"] = ...',
    ),
    _Row(r"^the file (?P<path>.+), which it wrote, is (?:gone|another one)", "leave {path} as the fit wrote it"),
    _Row(r"too large to be kept\)", "keep less in it, or write it to a file and read it in every start of the script"),
    _Row(r"\(an array of ", "keep its columns in arrays of numbers, not in one array of records"),
    # Then where the object is.
    _Row(
        r"^callback (?P<name>\w+)",
        "give {name} get_state() and set_state(state), which return and restore its state",
    ),
    _Row(
        r"^layer \d+ (?P<name>\w+)",
        f"keep it in {_PLAIN} of {{name}}, or give {{name}} save_own_variables and load_own_variables",
    ),
    _Row(r"^(?:model|optimizer|loss|metric \w+)\b", f"keep it in {_PLAIN}, as an attribute"),
    _Row(
        r"^state\b",
        "keep it in numbers, lists, dicts or arrays, or give its class get_state() and set_state(state)",
    ),
    _Row(r"^data\b", f"keep it in {_PLAIN} of the data set"),
    _Row(
        r"^class (?P<name>[\w.]+)",
        f"keep it in {_PLAIN}, or in an attribute of an object instead of the class {{name}}",
    ),
    _Row(
        r"^global of (?P<module>\S+): (?P<name>\w+)?",
        f"keep it in {_PLAIN}, or as an attribute of a callback with get_state()",
    ),
)
_OF_RANDOM_NUMBERS = (
    *(_Row(rf"^{re.escape(raced(call))}", instead_of(call)) for call in STATELESS),
    _Row(
        r"^random numbers of the data pipeline, which has no seed",
        f"{_SEED}, or give the random operations of the pipeline a seed",
    ),
    _Row(r"^the order of later epochs, which has no seed", _SEED),
    _Row(
        r"^random numbers of the data pipeline: drawing them again takes too long",
        "draw them from the number of the element: dataset.enumerate(), then tf.random.stateless_uniform with "
        "seed=(1, number)",
    ),
    _Row(r"^random numbers of (?P<kind>\w+) in the train step", f"{_OWN_GENERATOR}, not with {{kind}}"),
    _Row(
        r"^random numbers that TensorFlow's kernels count themselves(?:, in (?P<function>\S+))?",
        f"{_OWN_GENERATOR}; in a loop of your own, name it in state=",
    ),
    _Row(
        r"^the order of the data: replaying earlier epochs takes too long",
        "make shuffle() the last step that orders the data, after cache(), repeat() and concatenate()",
    ),
)
_OF_COMPARISONS = (
    _Row(r"^the replayed batches differ", _ORDER),
    _Row(r"^the data or their order changed", f"{_SEED}; {_ORDER}"),
    _Row(r"^the random numbers differ", f"{_SEED}; what draws by itself: {_OWN_GENERATOR}"),
    _Row(
        r"^the learning rate is ",
        "derive the rate from the epoch (LearningRateScheduler) or from the step (a schedule in the optimizer), or "
        "give the callback that sets it get_state() and set_state(state)",
    ),
    _Row(
        r"^the same batch gives a different result",
        "call tf.config.experimental.enable_op_determinism() at the top; keep what the step reads in the model, "
        "as a tf.Variable",
    ),
    _Row(
        r"^the (?:final )?state differs",
        "what callbacks do to the model must depend only on the epoch and on their own attributes, which oomph saves",
    ),
    _Row(
        r"^the file (?P<path>.+) is read, and is not what it was at the checkpoint",
        "also keep what is read back from {path} in an attribute of the callback, and read that",
    ),
    _Row(
        r"^the order of the validation data",
        "make the validation data finite: leave repeat() out, or their shuffle",
    ),
    _Row(
        r"^the data had advanced before",
        "give each fit its own dataset",
    ),
    _Row(
        r"^\S+ appends to (?P<path>.+) a second time",
        "collect the rows in the script, and write {path} as a whole at its end",
    ),
    _Row(r"^not bit for bit: ", "for equal bits, call tf.config.experimental.enable_op_determinism() at the top"),
    _Row(r"^the interrupted epoch was restarted", "make every start of the script use the same data"),
)
_OF_FITS = (
    _Row(
        rf"^{re.escape(BY_ITSELF)}",
        "leave resuming to oomph: begin at the first epoch, without loading a checkpoint of your own; oomph also "
        "restores random numbers and the position in the data",
    ),
    _Row(r"^fit \d+ was (?:finished|begun) by an earlier attempt, and not reached again", _SAME_FITS),
    _Row(r"^the script reached (?:fit|loop) at .+ by another path than before", _SAME_FITS),
    _Row(r"^the state of fit \d+ is from before fit \d+ was edited", _ALL_ANEW),
    _Row(r": not restored: ", "leave --trust-finished-fits out, so that the fit trains again"),
    _Row(
        r"the checkpoint is of another (?:fit|loop): (?P<difference>.+)",
        f"{_SEED}, and make every start of the script build the same model and the same data",
    ),
    _Row(rf"^{re.escape(SMALLER_BATCHES)}", "leave --allow-smaller-batch out, or use a batch size that fits"),
    _Row(r"continues with a generator that a resumed fit has taken batches from", "make a new generator for each fit"),
    _Row(r"^in mixed_bfloat16", "leave --allow-bfloat16 out, or use a smaller batch size"),
    _Row(r"^leaving out the batch at ", "leave --skip-poison out, and fix the batch"),
    _Row(r"^left out .*corrupt record", "replace these records, or take them out of the data"),
    _Row(
        r"^a later probe found a coupling",
        "use --inexact=refuse, or make every layer treat each sample independently",
    ),
    _Row(
        r"^environment variable (?P<name>\S+) (?:is|has)",
        "set {name} in every start as in the first; after a change, use --start-over",
    ),
    _Row(
        r"^all epochs that the script asks for were trained before",
        "ask for as many epochs as in the first start, and resume the run once more",
    ),
    _Row(r"\.py was edited|→", "make every start of the script use the same values; after an edit, use --start-over"),
)
_OF_CHECKPOINTS = (
    _Row(
        r"^the training loop at (?P<site>\S+) does not iterate over oomph\.steps",
        f"make the loop at {{site}} resumable: {_STEPS.removeprefix('write it as ')}",
    ),
    _Row(
        r"recompiled within the fit",
        "call compile() before fit, and train what follows the change in its own fit",
    ),
    _Row(r"is not finite", "end such a training with the callback keras.callbacks.TerminateOnNaN()"),
    _Row(
        r"^(?:no checkpoint|the records of the steps) could (?:not )?be written: ",
        "free disk space, or choose another folder with --run-dir",
    ),
    _Row(
        r"^the repeated steps had left no record|^\d+ of \d+ repeated steps?\b.* compared, equal$",
        "take checkpoints more often, with --checkpoint-every: the first steps after each leave a record",
    ),
    _Row(r" trains outside a resumable fit$", _RESUMABLE),
    _Row(
        r"^the guard failed: ",
        "install the versions that oomph doctor asks for, or report the failure with the journal if it asks for none",
    ),
    _Row(
        r"^no checkpoint had been taken",
        "take the first checkpoint earlier: --checkpoint-every 1m, or a number of steps",
    ),
    _Row(
        r"^the position in the data cannot be saved: (?P<kind>\w*(?:Random|Normal|Multinomial|Sample)\w*) is stateful",
        "draw with tf.random.stateless_normal and the like instead of {kind}, with the seed (1, number) of "
        "dataset.enumerate()",
    ),
    _Row(
        r"^the position in the data cannot be saved: not a tf\.data iterator",
        "in a loop of your own, iterate over a tf.data.Dataset; under a strategy there is no remedy",
    ),
    _Row(
        r"^the position in the data cannot be saved: a batch of it was taken ahead",
        "declare the length of the data: dataset.apply(tf.data.experimental.assert_cardinality(number))",
    ),
    _Row(r"^the position in the data cannot be saved", _TF_DATA),
)
_OF_PARTS = (
    _Row(
        r"BatchNormalization sees each micro-batch alone",
        "replace BatchNormalization with LayerNormalization or GroupNormalization, or use a batch size that fits",
    ),
    _Row(r"^random numbers that TensorFlow cannot draw again", _OWN_GENERATOR),
    _Row(
        r"^metric .* depends on which samples are together|a number that the step returns is not a mean over samples",
        "sum over samples in update_state of the metric, and divide in result",
    ),
    _Row(r"which samples are together|no memory for a probe|a probe could not tell", _FITTING),
)
_OF_KINDS = tuple(_Row(f" trains with {re.escape(kind.what)}$", kind.instead) for kind in KINDS.values())
_ROWS = tuple(
    (re.compile(row.wording), row.text)
    for row in (
        *_OF_KINDS,
        *_OF_PARTS,
        *_OF_CHECKPOINTS,
        *_OF_RANDOM_NUMBERS,
        *_OF_COMPARISONS,
        *_OF_FITS,
        *_OF_OBJECTS,
    )
)
_GENERAL = (
    f"keep what the training changes in {_PLAIN} of the model or of a callback, or give the callback get_state() and "
    "set_state(state)"
)
_OF_LABELS = {
    UNVERIFIED: "nothing to change in the script: too few comparable steps lay between the checkpoint and the fault",
    REPLAYED: _TF_DATA,
    APPROXIMATE: _FITTING,
    NOT_EQUAL: _GENERAL,
    STARTED_OVER: "leave --start-over out if it was given, and take the first checkpoint earlier: "
    "--checkpoint-every 10s",
    UNGUARDED: _RESUMABLE,
    FAILED: "fix what ended the script: oomph explain names it",
}


def remedies(label: str, reasons: Iterable[str]) -> list[Remedy]:
    """What would improve a label: one remedy per reason, and one for all reasons with the same remedy.

    Args:
        label: the label of a run.
        reasons: why it is not better; without any, the label's own remedy applies.
    """
    if label in BEST:
        return []
    found: dict[str, Remedy] = {}
    for reason in map(_cause_in, reasons):
        text = remedy_of(reason)
        found.setdefault(text, Remedy(reason, text))
    return list(found.values()) or [Remedy("", _OF_LABELS[label])]


def remedy_of(reason: str) -> str:
    """What to do about one reason."""
    for wording, text in _ROWS:
        match = wording.search(reason)
        if match is not None:
            return text.format(**{name: value or "it" for name, value in match.groupdict().items()})
    return _GENERAL


def _cause_in(reason: str) -> str:
    """The first line of the reason, or of what was not restored if the reason names that: it is the cause."""
    _, known, lost = reason.partition(" (not restored: ")
    lines = (lost.removesuffix(")") if known else reason).splitlines()
    return lines[0].rstrip(" :.,") if lines else ""
