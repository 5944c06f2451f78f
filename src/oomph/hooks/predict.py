"""GuardedPredict: wraps Keras' predict function; runs a batch as micro-batches if it does not fit as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import APPROXIMATE, EXACT, REFUSED, Promise
from oomph.exact_step.step.out_of_memory import Failed, SizeSearch, attempt
from oomph.exact_step.step.probe import ProbeFinding
from oomph.exact_step.step.step_protocol import Failure, Recovery, StepWatch
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.batch.replicas import Replicas, cuts, outside_strategy_scope
from oomph.resume.loop import loops

_SAMPLES = 8
_FEWER_SAMPLES = 2
"""The number of samples in a second probe, used if there was not enough memory for the usual number."""
_ROUNDING = {"float64": 1e-9, "float32": 1e-3, "bfloat16": 0.1, "float16": 0.05}


class GuardedPredict:
    """The predict function of one model.

    Args:
        plain: Keras' own function, which expects a list of batches and returns their joined outputs.
        replicas: the replicas of the model's strategy; the outputs of a batch are in replica order.
        watch: is notified of failures and recoveries.
        promise: what is known about the model; exact if it treats each sample independently.
        inexact: "allow" to split batches even if a sample's outputs depend on its neighbours.
    """

    def __init__(
        self,
        plain: Callable[[Any], Any],
        replicas: Replicas,
        watch: StepWatch,
        promise: Promise,
        inexact: str | None = None,
    ) -> None:
        self._plain, self._replicas, self._watch = plain, replicas, watch
        self._promise, self._inexact = promise, inexact
        self._search = SizeSearch()
        self._verdicts: dict[str, Promise] = {}
        """The promise for each batch layout."""

    def __call__(self, data: Any) -> Any:
        with outside_strategy_scope():
            return self._executed(data)

    def _executed(self, data: Any) -> Any:
        loops.note_called(self._plain)  # guarded calls are not recorded elsewhere
        if not self._search.is_whole and not self._judged(data[0]).refused:
            return _joined([self._in_parts(batch, None, time.monotonic()) for batch in data])
        started = time.monotonic()
        outcome = attempt(partial(self._plain, data))
        if not isinstance(outcome, Failed):
            return outcome
        sizes = [self._replicas.size(batch) for batch in data]
        self._report(outcome, sizes[0], sizes[0], started)
        if None in sizes or self._judged(data[0]).refused:
            self._search.undivided()
            raise outcome.error
        return _joined([self._in_parts(batch, outcome, started) for batch in data])

    def _in_parts(self, batch: Any, failed: Failed | None, started: float) -> Any:
        """Run one batch as micro-batches that fit, and return its outputs; computed outputs are kept if one fails."""
        sizes = self._replicas.sizes(batch) or []
        size = max(sizes, default=0)
        if not size:
            return self._plain([batch])
        search, done, outputs, ooms = self._search, 0, [], 1 if failed else 0
        while done < size:
            part = search.next_size(size)
            if part is None and failed is not None:
                self._watch.not_recoverable(failed.error, "compute", "one sample does not fit", None)
            part = min(part or 1, size - done)
            outcome = search.run(part, partial(self._outputs, batch, cuts(sizes, done, part)))
            if isinstance(outcome, Failed):
                failed, ooms = outcome, ooms + 1
                self._report(outcome, size, part, started)
                continue
            outputs.append(outcome)
            done += part
        search.settle(size)
        if ooms:
            self._watch.recovered(Recovery(size, search.chosen or 1, ooms, time.monotonic() - started))
        return _joined([_joined(list(own)) for own in zip(*outputs, strict=True)])

    def _outputs(self, batch: Any, places: list[tuple[int, int]]) -> list[Any]:
        """Return each replica's outputs for a slice of the batch, collected in host memory."""
        own = zip(self._replicas.local(batch), places, strict=True)
        outputs = self._plain([self._replicas.together([batches.part_of(mine, *place) for mine, place in own])])
        with tf.device("/CPU:0"):
            if len(places) == 1:
                return [tf.nest.map_structure(tf.identity, outputs)]
            counts = [stop - first for first, stop in places]
            columns = [tf.split(leaf, counts) for leaf in tf.nest.flatten(outputs)]
            return [tf.nest.pack_sequence_as(outputs, list(leaves)) for leaves in zip(*columns, strict=True)]

    def _report(self, failed: Failed, batch: int | None, part: int | None, started: float) -> None:
        seconds = time.monotonic() - started
        self._watch.failed(Failure(failed.oom, failed.error, "compute", batch, part, seconds))
        if part is not None:
            self._search.learn(failed, part, seconds)

    def _judged(self, batch: Any) -> Promise:
        """Return the promise for batches of this layout. One probe per layout shows if samples affect each other."""
        layout = batches.layout_of(self._replicas.local(batch)[0])
        if layout in self._verdicts:
            return self._verdicts[layout]
        finding = self._probed_or_why_not(batch)
        judged = _judge(self._promise, finding, self._inexact)
        self._watch.probed(judged, finding)
        if finding.conclusive or finding.obstacle:
            self._verdicts[layout] = judged
        return judged

    def _probed_or_why_not(self, batch: Any) -> ProbeFinding:
        try:
            for samples in (_SAMPLES, _FEWER_SAMPLES):
                found = attempt(partial(self._probed, batch, samples))
                if not isinstance(found, Failed):
                    return cast("ProbeFinding", found)
        except Exception as error:  # raised by the model, on fewer samples than usual
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return ProbeFinding(0, conclusive=False, obstacle=f"predict fails on part of a batch ({lines[0][:160]})")
        return ProbeFinding(0, conclusive=False, no_memory=True)

    def _probed(self, batch: Any, most: int) -> ProbeFinding:
        samples = min([most, *(self._replicas.sizes(batch) or [0])])
        if samples < 2:
            return ProbeFinding(0, conclusive=False)
        few = self._replicas.together([batches.sample_of(own, samples) for own in self._replicas.local(batch)])
        first, sizes = samples // 2 + 1 if samples > 2 else 1, [samples] * self._replicas.count
        places = [cuts(sizes, 0, samples), cuts(sizes, 0, first), cuts(sizes, first, samples - first)]
        whole, *parts = [tf.nest.flatten(self._outputs(few, place)[0]) for place in places]
        worst, tolerance = 0.0, 1e-9
        for one, *others in zip(whole, *parts, strict=True):
            rows = [leaf.shape[0] if leaf.shape.rank else None for leaf in others]
            if rows != [first, samples - first]:
                return ProbeFinding(samples, conclusive=False, obstacle="it does not return one output per sample")
            if one.dtype.is_floating:
                tolerance = max(tolerance, _ROUNDING.get(one.dtype.name, 0.1))
                joined = tf.cast(tf.concat(others, 0), tf.float64).numpy()
                one = tf.cast(one, tf.float64).numpy()
                if not np.array_equal(one, joined, equal_nan=True):
                    difference = float(np.linalg.norm(one - joined) / (np.linalg.norm(one) + 1e-30))
                    worst = max(worst, difference if np.isfinite(difference) else float("inf"))
        return ProbeFinding(samples, worst, tolerance=tolerance)


def _judge(promise: Promise, finding: ProbeFinding, inexact: str | None) -> Promise:
    """Return the promise for the outputs of micro-batches. Pure."""
    if finding.obstacle:
        reason = finding.obstacle
    elif finding.conclusive and not finding.equal:
        reason = "a sample's outputs depend on its neighbours"
    elif not finding.conclusive and promise.kind != EXACT:
        reason = f"{promise.reason}, and {finding.why_nothing}"
    elif finding.no_memory:
        reason = f"each sample is treated independently, but {finding.why_nothing}"
        return Promise(REFUSED if inexact == "refuse" else APPROXIMATE, reason)
    else:
        return Promise(EXACT)
    return Promise(APPROXIMATE, reason) if inexact == "allow" else Promise(REFUSED, reason)


def _joined(outputs: list[Any]) -> Any:
    if len(outputs) == 1:
        return outputs[0]
    with tf.device("/CPU:0"):
        return tf.nest.map_structure(lambda *leaves: tf.concat(leaves, axis=0), *outputs)
