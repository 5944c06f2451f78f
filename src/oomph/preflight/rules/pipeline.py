"""Rules for the input pipeline: the order of its stages, and their cost in time and memory."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.planning.data_buffers import CACHE, PREFETCH, DataBuffer
from oomph.preflight.facts.data import BATCHING, Data
from oomph.preflight.facts.model import Shape
from oomph.preflight.facts.training import StageCost, Training, Waiting
from oomph.preflight.rule import ERROR, WARNING, CheckFinding, rule
from oomph.terminal.amounts import as_size


@rule(
    "CHK310",
    WARNING,
    why="The batches are reordered, but each always contains the same samples.",
    wrong="dataset.batch(32).shuffle(1000)",
    right="dataset.shuffle(1000).batch(32)",
)
def batch_before_shuffle(training: Training) -> Iterator[CheckFinding]:
    """A shuffle of batches instead of samples."""
    stages = training.data.stages
    first = max((index for index, stage in enumerate(stages) if stage.inputs != 1), default=0)
    kinds = [stage.kind for stage in stages[first:]]  # inputs of a zip or a mix may themselves be batched
    batch = next((index for index, kind in enumerate(kinds) if kind in BATCHING), None)
    if batch is None or "unbatch" in kinds or "shuffle" in kinds[:batch]:
        return
    shuffle = next((index for index, kind in enumerate(kinds) if kind == "shuffle"), None)
    if shuffle is None or any(kind in BATCHING for kind in kinds[shuffle:]):
        return  # data batched again after the shuffle was split into samples before it, such as text into sequences
    if not any(kind in kinds[batch:] for kind in ("window", "flat_map", "interleave")):
        yield CheckFinding(
            "the dataset is batched first and shuffled afterwards: whole batches are reordered",
            "Shuffle the samples before they are batched",
            "dataset.shuffle(10_000).batch(32)",
        )


@rule(
    "CHK311",
    WARNING,
    why="The first epoch is stored: each later one repeats its augmentation, or its order, exactly.",
    wrong="dataset.map(augment).cache()",
    right="dataset.cache().map(augment)",
)
def cached_too_late(training: Training) -> Iterator[CheckFinding]:
    """Random numbers, or a random order, frozen by a cache."""
    stages = training.data.stages
    cache = next((index for index, stage in enumerate(stages) if stage.kind == "cache"), None)
    if cache is None or training.fit.epochs < 2:
        return
    drawn = next((stage for stage in stages[:cache] if stage.is_random), None)
    if drawn is not None:
        named = f" {drawn.function}" if drawn.function not in ("", "<lambda>") else ""
        yield CheckFinding(
            f"the map{named} draws random numbers before the cache, so every epoch repeats them",
            "Cache before the random stage",
            f"dataset.cache().map({drawn.function or 'augment'})",
            where=drawn.place,
        )
        return
    kinds = [stage.kind for stage in stages]
    shuffled = next((stage for stage in stages[:cache] if stage.kind == "shuffle"), None)
    is_batched = "batch" in kinds[:cache]  # as in Keras' own directory loaders, before the cache that its guides add
    if shuffled is not None and not is_batched and shuffled.reshuffles is not False and "shuffle" not in kinds[cache:]:
        yield CheckFinding(
            "the samples are shuffled before the cache: every epoch reads them in the order of the first one",
            "Cache before the shuffle",
            "dataset.cache().shuffle(buffer_size)",
        )


@rule(
    "CHK125",
    ERROR,
    why="Inputs no longer match their targets, so the model can only learn the average target.",
    wrong="zip((images.shuffle(1000), labels.shuffle(1000)))",
    right="zip((images, labels)).shuffle(1000)",
    after="CHK121",
)
def shuffled_apart(training: Training) -> Iterator[CheckFinding]:
    """Inputs and targets that are shuffled separately."""
    targets = training.data.of("y")
    if not training.data.shuffled_apart or not targets or any(_may_be_unpaired(part.shape) for part in targets):
        return
    yield CheckFinding(
        "inputs and targets are shuffled separately and then zipped, so inputs lose their targets",
        "Zip first, then shuffle",
        "tf.data.Dataset.zip((inputs, targets)).shuffle(1000)",
    )


def _may_be_unpaired(shape: Shape | None) -> bool:
    """True if a target may instead be an image from a different domain, as for a CycleGAN."""
    return shape is None or len(shape) > 2


_NEARLY_ALL = 0.8
"""Buffers that exceed this share of memory leave little for training."""
_USUAL_SHARE = 0.25
"""The share of memory that a shuffle uses if the remedy is followed."""


@rule(
    "CHK602",
    ERROR,
    why=(
        "The buffer fills up before the first step or during the first epoch; then the kernel kills the script or "
        "another process."
    ),
    wrong="dataset.map(decode).shuffle(1_000_000).batch(32)",
    right="dataset.shuffle(1_000_000).map(decode).batch(32)",
    fault="host-oom",
    source="tensorflow/tensorflow#32376, tensorflow/tensorflow#42586",
)
def buffer_exceeds_memory(training: Training) -> Iterator[CheckFinding]:
    """A shuffle, cache or prefetch that needs more memory than the machine has."""
    for data in (training.data, training.validation):
        if data is not None:
            yield from _in_memory(data)
            yield from _on_disk(data)


def _in_memory(data: Data) -> Iterator[CheckFinding]:
    kept = [buffer for buffer in data.buffers if buffer.bytes and not buffer.file]
    size, room = sum(buffer.bytes or 0 for buffer in kept), data.room.memory
    if room is None or size <= _NEARLY_ALL * room:
        return
    largest = max(kept, key=lambda buffer: buffer.bytes or 0)
    others = f" ({as_size(size)} with the other buffers)" if as_size(size) != as_size(largest.bytes or 0) else ""
    remedy, line = _smaller_buffer(largest, room)
    yield CheckFinding(
        f"{_buffer_in_words(largest)}{others}, but this machine has {as_size(room)} of memory",
        remedy,
        line,
        severity=ERROR if size > room else WARNING,
    )


def _on_disk(data: Data) -> Iterator[CheckFinding]:
    for buffer in data.buffers:
        if buffer.file and buffer.bytes and data.room.disk is not None and buffer.bytes > data.room.disk:
            yield CheckFinding(
                f"{_buffer_in_words(buffer)}, but its disk has {as_size(data.room.disk)} free",
                "Give the cache a file on a disk with more space, or remove the cache",
            )


def _buffer_in_words(buffer: DataBuffer) -> str:
    """Describe the buffer's contents: "the shuffle keeps 100,000 elements of 588 KiB: 56.1 GiB"."""
    name = f"the cache {buffer.file}" if buffer.file else f"the {buffer.kind}"
    each, all_of_them = as_size(buffer.element_bytes or 0), as_size(buffer.bytes or 0)
    return f"{name} keeps {buffer.elements:,} elements of {each}: {all_of_them}"


def _smaller_buffer(buffer: DataBuffer, room: int) -> tuple[str, str]:
    if buffer.kind == CACHE:
        return "Cache to a file, or before the stage that makes the elements large", 'dataset.cache("FILE")'
    most = _one_digit(int(_USUAL_SHARE * room) // (buffer.element_bytes or 1))
    if buffer.kind == PREFETCH:
        return "Let tf.data choose the buffer size", "dataset.prefetch(tf.data.AUTOTUNE)"
    return (
        "Shuffle something small, such as file names or indices, before the map that makes the elements large; or "
        f"buffer at most {most:,} elements",
        f"dataset.shuffle({most})",
    )


def _one_digit(number: int) -> int:
    """Round down to one significant digit, but at least to 1: 9,874 becomes 9,000."""
    digits = str(max(1, number))
    return int(digits[0] + "0" * (len(digits) - 1))


_LONG_SHARE = 0.2
"""The share of time spent waiting above which a change is worthwhile, as in the monitor. Below 0.05 it is noise."""
_SURE_STEPS = 4
_LONG_SECONDS = 0.01
"""The wait per batch, in seconds, above which a change is worthwhile. Calling a step takes about as long."""
_LONG_IN_ALL = 60.0
"""The total wait over the whole training run, in seconds, above which a change is worthwhile."""


@rule(
    "CHK601",
    WARNING,
    why="The accelerator is idle while it waits. On a faster device, the share of waiting only grows.",
    wrong="dataset.map(decode).batch(32)",
    right="dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)",
    fault="slow-input",
    source="tf.data: a machine learning data processing framework, arXiv:2101.12127",
    after="CHK602",
)
def input_bound(training: Training) -> Iterator[CheckFinding]:
    """Steps that wait for their data."""
    waiting = training.waiting
    if waiting is None or waiting.share < _LONG_SHARE or waiting.steps < _SURE_STEPS or not _matters(waiting, training):
        return
    slowest = waiting.slowest
    facts = (
        f"steps spend {waiting.share:.0%} of the time waiting for batches: {waiting.wait_seconds * 1000:.0f} ms, "
        f"compared with {waiting.step_seconds * 1000:.0f} ms of training"
    )
    if slowest is not None:
        facts += f"; {_stage_in_words(slowest)} takes {slowest.seconds * 1000:.0f} ms per batch"
    yield CheckFinding(facts, *_faster_pipeline(waiting, training), where=slowest.place if slowest is not None else "")


def _matters(waiting: Waiting, training: Training) -> bool:
    """True if a change could save enough time to be worthwhile."""
    steps = training.fit.steps
    return waiting.wait_seconds >= _LONG_SECONDS or (steps is not None and waiting.wait_seconds * steps >= _LONG_IN_ALL)


def _stage_in_words(cost: StageCost) -> str:
    function = f" {cost.function}" if cost.function not in ("", "<lambda>") else ""
    return f"{cost.kind}{function}" + (f" at {cost.place}" if cost.place else "")


def _faster_pipeline(waiting: Waiting, training: Training) -> tuple[str, str]:
    if waiting.changes:
        best = waiting.changes[0]
        same = f", and the first {best.same_batches} batches are the same" if best.same_batches else ""
        note = f"; {best.note}" if best.note else ""
        return f"When tried here, a step was {best.gain:.2f} times as fast{same}{note}", best.line
    if waiting.tried:
        return (
            "None of the changes tried here made it 10% faster: decode less, or prepare the data beforehand",
            "",
        )
    stages = {stage.kind: stage for stage in training.data.stages}
    if "map" in stages and not stages["map"].is_parallel:
        remedy = "Run the map in parallel; oomph check --tune measures whether it pays off"
        return remedy, ".map(..., num_parallel_calls=tf.data.AUTOTUNE)"
    return "oomph check --tune tries changes that may make it faster", ""


@rule(
    "CHK307",
    WARNING,
    why="Each operation is called from Python, without XLA, which is two to ten times slower.",
    wrong="model.compile(..., run_eagerly=True)",
    right="model.compile(...)",
)
def eager_left_on(training: Training) -> Iterator[CheckFinding]:
    """run_eagerly left on after debugging."""
    if training.model.run_eagerly and training.fit.kind == "fit":
        yield CheckFinding("the model runs eagerly", "Remove run_eagerly, unless you are debugging")
