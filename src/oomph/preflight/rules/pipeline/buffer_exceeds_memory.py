"""A shuffle, a cache or a prefetch that keeps more than the machine has."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.planning.data_buffers import CACHE, PREFETCH, DataBuffer
from oomph.preflight.facts.data import Data
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, PIPELINE, WARNING, Finding, Rule
from oomph.terminal.amounts import as_size

_NEARLY = 0.8
"""From this share of the memory on, little is left for the training itself."""
_USUAL = 0.25
"""The share that a shuffle may take in the advice."""


def _find(training: Training) -> Iterator[Finding]:
    for data in (training.data, training.validation):
        if data is not None:
            yield from _in_memory(data)
            yield from _on_disk(data)


def _in_memory(data: Data) -> Iterator[Finding]:
    kept = [buffer for buffer in data.buffers if buffer.bytes and not buffer.file]
    size, room = sum(buffer.bytes or 0 for buffer in kept), data.room.memory
    if room is None or size <= _NEARLY * room:
        return
    largest = max(kept, key=lambda buffer: buffer.bytes or 0)
    others = f" ({as_size(size)} with the other buffers)" if as_size(size) != as_size(largest.bytes or 0) else ""
    remedy, line = _remedy(largest, room)
    yield Finding(
        f"{_in_words(largest)}{others}, and the memory here is {as_size(room)}",
        remedy,
        line,
        severity=ERROR if size > room else WARNING,
    )


def _on_disk(data: Data) -> Iterator[Finding]:
    for buffer in data.buffers:
        if buffer.file and buffer.bytes and data.room.disk is not None and buffer.bytes > data.room.disk:
            yield Finding(
                f"{_in_words(buffer)}, and its disk has {as_size(data.room.disk)} free",
                "Give the cache a file on a disk with more room, or leave it out",
            )


def _in_words(buffer: DataBuffer) -> str:
    """ "the shuffle keeps 100,000 elements of 588 KiB: 56.1 GiB"."""
    name = f"the cache {buffer.file}" if buffer.file else f"the {buffer.kind}"
    each, all_of_them = as_size(buffer.element_bytes or 0), as_size(buffer.bytes or 0)
    return f"{name} keeps {buffer.elements:,} elements of {each}: {all_of_them}"


def _remedy(buffer: DataBuffer, room: int) -> tuple[str, str]:
    if buffer.kind == CACHE:
        return "Cache to a file, or before the stage that makes the elements large", 'dataset.cache("FILE")'
    most = _round(int(_USUAL * room) // (buffer.element_bytes or 1))
    if buffer.kind == PREFETCH:
        return "Let tf.data choose how many", "dataset.prefetch(tf.data.AUTOTUNE)"
    return (
        f"Shuffle what is small, such as file names or indices, before the map that makes the elements large; or keep "
        f"{most:,} of them at most",
        f"dataset.shuffle({most})",
    )


def _round(number: int) -> int:
    """The number with one digit: 9,874 as 9,000; at least 1."""
    digits = str(max(1, number))
    return int(digits[0] + "0" * (len(digits) - 1))


RULE = Rule(
    code="CHK602",
    name="buffer-exceeds-memory",
    severity=ERROR,
    depth=PIPELINE,
    why=(
        "The buffer is filled before the first step, or in the course of the first epoch; then the kernel kills the "
        "training, or another process."
    ),
    wrong="dataset.map(decode).shuffle(1_000_000).batch(32)",
    right="dataset.shuffle(1_000_000).map(decode).batch(32)",
    find=_find,
    fault="host-oom",
    source="tensorflow/tensorflow#32376, tensorflow/tensorflow#42586",
)
