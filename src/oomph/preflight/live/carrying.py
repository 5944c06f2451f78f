"""Tests whether training would survive a fault under oomph: out of memory, data position, seeds, callbacks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import (
    APPROXIMATE,
    EXACT,
    REFUSED,
    RESTART_ONLY,
    Promise,
)
from oomph.exact_step.step.division import foretold
from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.workers import lacks_workers
from oomph.objects.picture import Picture
from oomph.planning.live.readable import readable
from oomph.preflight.document import LOST, PARTLY, PROVED, UNCOMPARED, UNKNOWN, Carried
from oomph.protocol.reason_table import TF_DATA
from oomph.protocol.reasons import Reason
from oomph.resume.state import iterators

_SEED = "call keras.utils.set_random_seed(1) at the top of the script"
_MOST_BYTES = 256 << 20
"""The total buffer size, in bytes, above which a pipeline's position is not saved as a test."""
_EPOCH_ARGUMENTS = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "class_weight")


def carried_by_fit(model: Any, given: Mapping[str, Any], batch: Any) -> list[Carried]:
    """Predict how well a fit would survive a fault.

    Args:
        model: the compiled model; its variables are left unchanged.
        given: the arguments passed to fit.
        batch: the first batch, as fit passes it to `train_step`.
    """
    return [
        *_tried("out of memory", lambda: _micro_batches(model, batch)),
        *_tried("data", lambda: _data(model, given)),
        *_tried("seeds", _seeds),
        *_tried("callbacks", lambda: _callbacks(given)),
    ]


def carried_by_loop() -> list[Carried]:
    """Predict how well a custom loop would survive a fault."""
    return [
        Carried(
            "loop", LOST, "a custom loop starts over after a restart",
            "write it as `for batch in oomph.steps(dataset, epochs=..., state=[model, optimizer]):`",
        )
    ]  # fmt: skip


def _tried(what: str, look: Callable[[], Carried | None]) -> Iterator[Carried]:
    try:
        found = look()
    except Exception as error:  # the rules report a model or data that raises
        found = Carried(what, UNKNOWN, f"could not be tried: {type(error).__name__}")
    if found is not None:
        yield found


def _micro_batches(model: Any, batch: Any) -> Carried:
    """Test a step in micro-batches, using the same probe as `oomph run`."""
    if lacks_workers(model.distribute_strategy):
        return Carried("out of memory", UNKNOWN, "the strategy has only this worker here; under oomph run --workers N,"
                       " a worker divides its part of the batch if its model allows that")  # fmt: skip
    promise, found = foretold(model, batch)
    if promise.kind == EXACT:
        return Carried("out of memory", PROVED, f"micro-batches give the same update ({found})")
    state, words = _OF_PROMISES.get(promise.kind, (UNKNOWN, promise.kind))
    return Carried("out of memory", state, f"{words}: {promise.reason}", _better(promise))


_OF_PROMISES = {
    APPROXIMATE: (PARTLY, "micro-batches give about the same update"),
    REFUSED: (LOST, "the batch is not split"),
    RESTART_ONLY: (LOST, "the step is not guarded, so a fault leads to a restart"),
}


def _better(promise: Promise) -> str:
    return (
        ("use a batch size that fits; oomph plan shows which one does")
        if promise.kind in (REFUSED, RESTART_ONLY)
        else ""
    )


def _data(model: Any, given: Mapping[str, Any]) -> Carried:
    """Predict whether the data position survives. If it is lost, a restart reads the epoch's batches again."""
    arguments = {name: given[name] for name in _EPOCH_ARGUMENTS if given.get(name) is not None}
    shuffle = given.get("shuffle", True) if not isinstance(given.get("x"), tf.data.Dataset) else False
    if iterators.is_one_pass(given.get("x")):
        return Carried("data", PARTLY, "after a restart, a generator is read again up to its position",
                       TF_DATA)  # fmt: skip
    epochs = KERAS.epochs.value()(
        shuffle=shuffle, distribute_strategy=model.distribute_strategy, steps_per_execution=1, **arguments
    )
    telling = iterators.telling(epochs)
    if telling is not None:
        return _told_position(telling)
    dataset = KERAS.distributed_dataset.of(epochs)
    lost = datasets.lost_draws(dataset)
    if lost is not None:
        return Carried("data", LOST, f"a resumed run gets different batches: {lost}", lost.remedy)
    if isinstance(given.get("x"), tf.data.Dataset) and given["x"].options().deterministic is False:
        return Carried(
            "data",
            PARTLY,
            "the dataset's option deterministic = False lets its elements arrive in any order",
            "remove that option: a resumed run then gets the same batches",
        )
    return _tried_position(dataset, given.get("x"))


def _are_too_large(x: Any) -> bool:
    """True if a pipeline's buffers are too large to fill and write just for a test."""
    if not isinstance(x, tf.data.Dataset):
        return False
    found = readable(x)
    return found.is_changed or sum(buffer.bytes or 0 for buffer in found.buffers) > _MOST_BYTES


def _told_position(data: iterators.TellingData) -> Carried:
    """Ask Grain for its position after one batch, return to that position, and compare the next batch."""
    iterator = iter(data.dataset)
    next(iterator, None)
    told, expected = data.position(1), next(iterator, None)
    arrives = expected is not None and told is not None and data.go_to(told, 1)
    if arrives and _fingerprint(expected) == _fingerprint(next(iter(data.dataset), None)):
        return Carried("data", PROVED, "returning to the position that Grain reported gave the same next batch")
    return Carried("data", PARTLY, "Grain does not report its position: a restart reads the epoch's batches again")


def _tried_position(dataset: Any, x: Any) -> Carried:
    """Save the position after one batch, restore it into a new iterator, and compare the next batch."""
    iterator = iter(dataset)
    with tempfile.TemporaryDirectory(prefix="oomph-") as folder:
        refused = iterators.is_caching(iterator) or iterators.keeps_a_shuffle(dataset)
        refused = refused or iterators.save(iterator, Path(folder))  # before any Python code in the pipeline is called
        if refused is not None:
            return _not_saved(refused)
        if _are_too_large(x):
            return Carried("data", UNKNOWN, "the pipeline's buffers are too large to save as a test")
        if next(iterator, None) is None:
            return Carried("data", UNKNOWN, "there are no batches")
        iterators.save(iterator, Path(folder))
        expected, resumed = next(iterator, None), iter(dataset)
        iterators.restore(resumed, Path(folder))
    if expected is None:
        return Carried("data", UNCOMPARED, "the position in the data can be saved, but there is only one batch")
    if _fingerprint(expected) == _fingerprint(next(resumed, None)):
        return Carried("data", PROVED, "restoring a saved position gave the same next batch")
    return Carried(
        "data", PARTLY, ("restoring a saved position gave a different batch: the order of the data is random"), _SEED
    )


def _not_saved(reason: Reason) -> Carried:
    why = f"the position in the data cannot be saved ({reason.value('why')})"
    return Carried("data", PARTLY, f"{why}: the epoch's batches are read again", reason.remedy)


def _fingerprint(batch: Any) -> int:
    return fingerprints.as_number(fingerprints.of_tensors(tf.nest.flatten(batch, expand_composites=True)))


def _seeds() -> Carried:
    if TENSORFLOW.global_seed.value()() is None:
        return Carried("seeds", PARTLY, "no seed is set: two runs of the script differ", _SEED)
    return Carried("seeds", UNCOMPARED, "a global seed is set")


def _callbacks(given: Mapping[str, Any]) -> Carried | None:
    """Predict whether the state of custom callbacks can be saved. Returns None if there are no such callbacks."""
    listed = given.get("callbacks")
    listed = listed.callbacks if isinstance(listed, keras.callbacks.CallbackList) else listed
    own = [each for each in (listed if isinstance(listed, (list, tuple)) else [listed]) if _is_own(each)]
    if not own:
        return None
    picture = Picture.of([(f"callback {type(each).__name__}", each) for each in own])
    reasons = [*picture.troubles.values()]
    if reasons:
        return Carried("callbacks", PARTLY, f"not saved: {'; '.join(map(str, reasons[:3]))}", reasons[0].remedy)
    names = ", ".join(dict.fromkeys(type(each).__name__ for each in own))
    return Carried("callbacks", UNCOMPARED, f"the state of {names} can be saved")


def _is_own(callback: Any) -> bool:
    return callback is not None and not type(callback).__module__.startswith("keras.")
