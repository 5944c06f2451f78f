"""More families of a process's memory that the detector was developed on: what fills for a long time, and any leaks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

from leak_set.process import Process
from leak_set.series import Series
from leak_set.training import MIB, log_uniform

_KNOWN = 0.7
"""How many trainings know when they end."""
Shape = Callable[[float], float]
"""How full something is, from 0 to 1, after which part of the time that it takes to fill."""


def _may_know(rng: Random, series: Series) -> Series:
    return series if rng.random() < _KNOWN else replace(series, seconds=0.0)


def _fill(rng: Random, family: str, shape: Shape) -> Series:
    """Something that is full after 5 to 75 % of the training, and takes up to 80 % of the free memory."""
    process = Process(rng, hours=log_uniform(rng, 0.5, 8))
    size = (process.limit - process.base) * log_uniform(rng, 0.01, 0.8)
    length = process.seconds * rng.uniform(0.05, 0.75)
    return _may_know(rng, process.series(family, lambda t: size * shape(min(t / length, 1))))


# -- no leak ----------------------------------------------------------------------------------------------------------


def buffer(rng: Random) -> Series:
    return _fill(rng, "buffer-fills-for-long", lambda x: x)


def mapped_file(rng: Random) -> Series:
    speed = rng.uniform(1, 4)
    return _fill(rng, "file-is-mapped", lambda x: (1 - math.exp(-speed * x)) / (1 - math.exp(-speed)))


def cache_in_stairs(rng: Random) -> Series:
    stairs = rng.randint(4, 40)
    return _fill(rng, "cache-in-stairs", lambda x: int(x * stairs) / stairs)


def fills_unevenly(rng: Random) -> Series:
    levels = [0.0]
    for _ in range(60):
        levels.append(levels[-1] + rng.gammavariate(0.7, 1))
    return _fill(rng, "fills-unevenly", lambda x: levels[int(60 * x)] / levels[60])


def fragmentation(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.5, 8))
    size, seconds = process.base * rng.uniform(0.02, 0.4), log_uniform(rng, 60, 6000)
    whole = math.log1p(process.seconds / seconds)
    return _may_know(rng, process.series("fragments", lambda t: size * math.log1p(t / seconds) / whole))


def walk(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.5, 8))
    step, memory, state = process.base * log_uniform(rng, 0.0005, 0.01), rng.uniform(0.9, 0.999), [0.0]

    def held(t: float) -> float:
        state[0] = memory * state[0] + rng.gauss(0, step)
        return state[0]

    return _may_know(rng, process.series("noise-that-remembers", held))


def steady(rng: Random) -> Series:
    return _may_know(rng, Process(rng, hours=log_uniform(rng, 0.5, 8)).series("steady", lambda t: 0))


def each_epoch(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.5, 8))
    epoch = process.seconds / rng.uniform(1, 6)
    size = (process.limit - process.base) * log_uniform(rng, 0.01, 0.8)
    return _may_know(rng, process.series("buffer-of-long-epochs", lambda t: size * min((t % epoch) / epoch * 1.3, 1)))


# -- leaks ------------------------------------------------------------------------------------------------------------


def linear(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.7, 8))
    rate = process.rate()
    return _may_know(rng, process.series("linear", lambda t: rate * t, leak=True))


def fast(rng: Random) -> Series:
    process = Process(rng)
    rate = (process.limit - process.base) / log_uniform(rng, 400, 3000)
    return _may_know(rng, process.series("fast", lambda t: rate * t, leak=True))


def stairs(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.7, 8))
    rate, epoch = process.rate(), process.seconds / rng.uniform(12, 100)
    return _may_know(rng, process.series("stairs", lambda t: rate * epoch * int(t / epoch), leak=True))


def beside_a_buffer(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.7, 8))
    rate, size, seconds = (
        process.rate(),
        process.base * rng.uniform(0.05, 0.5),
        process.seconds * rng.uniform(0.02, 0.3),
    )
    return _may_know(rng, process.series("beside-a-buffer", lambda t: rate * t + size * min(t / seconds, 1), leak=True))


def starts_late(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 1.5, 8))
    rate, begin = process.rate(), process.seconds * rng.uniform(0.1, 0.5)
    return _may_know(rng, process.series("starts-late", lambda t: rate * max(t - begin, 0), leak=True, since=begin))


def uneven(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.7, 8))
    rate, held = process.rate(), [0.0]

    def grown(t: float) -> float:
        held[0] += rate * 10 * rng.gammavariate(0.5, 2)
        return held[0]

    return _may_know(rng, process.series("uneven", grown, leak=True))


def under_garbage(rng: Random) -> Series:
    process = Process(rng, hours=log_uniform(rng, 0.7, 8))
    rate, period = max(process.rate(), 600 * MIB / process.seconds), log_uniform(rng, 20, 600)
    size = min(process.base * rng.uniform(0.01, 0.2), rate * 1800)
    return _may_know(rng, process.series("under-a-sawtooth", lambda t: rate * t + size * (t / period % 1), leak=True))


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    buffer, mapped_file, cache_in_stairs, fills_unevenly, fragmentation, walk, steady, each_epoch,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    linear, fast, stairs, beside_a_buffer, starts_late, uneven, under_garbage,
)  # fmt: skip
