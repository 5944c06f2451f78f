"""Families of a process's memory that were written after the detector was changed, and not used to change it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

from leak_set.process import Held, Process
from leak_set.series import Series
from leak_set.training import MIB, log_uniform


def _process(rng: Random) -> Process:
    return Process(rng, hours=log_uniform(rng, 0.4, 10))


def _series(rng: Random, process: Process, family: str, held: Held, leak: bool = False, since: float = 0) -> Series:
    """A process whose training knows its end, or does not."""
    whole = process.series(family, held, leak, since)
    return whole if rng.random() < 0.75 else replace(whole, seconds=0.0)


def _room(process: Process) -> float:
    return process.limit - process.base


# -- no leak ----------------------------------------------------------------------------------------------------------


def shuffle_buffer(rng: Random) -> Series:
    process = _process(rng)
    size, length = _room(process) * rng.uniform(0.02, 0.6), process.seconds * rng.uniform(0.01, 0.8)
    return _series(rng, process, "shuffle-buffer", lambda t: size * min(t / length, 1))


def cache(rng: Random) -> Series:
    process = _process(rng)
    process.epoch = process.seconds / rng.uniform(1.3, 20)
    size = _room(process) * rng.uniform(0.02, 0.7)
    return _series(rng, process, "cache-of-the-first-epoch", lambda t: size * min(t / process.epoch, 1))


def pages(rng: Random) -> Series:
    process = _process(rng)
    size, seconds = _room(process) * rng.uniform(0.02, 0.6), process.seconds * rng.uniform(0.05, 0.5)
    return _series(rng, process, "pages-of-a-file", lambda t: size * (1 - math.exp(-t / seconds)))


def replay(rng: Random) -> Series:
    process = _process(rng)
    begin, length = process.seconds * rng.uniform(0, 0.1), process.seconds * rng.uniform(0.1, 0.7)
    size = _room(process) * rng.uniform(0.02, 0.6)
    return _series(rng, process, "replay", lambda t: size * min(max(t - begin, 0) / length, 1))


def tuned_prefetch(rng: Random) -> Series:
    process = _process(rng)
    rises = sorted(process.seconds * rng.uniform(0, 0.6) for _ in range(rng.randint(3, 15)))
    each = process.base * rng.uniform(0.01, 0.05)
    return _series(rng, process, "tuned-prefetch", lambda t: each * sum(at <= t for at in rises))


def reads_in_parts(rng: Random) -> Series:
    process = _process(rng)
    parts, length = rng.randint(5, 60), process.seconds * rng.uniform(0.02, 0.4)
    size = _room(process) * rng.uniform(0.05, 0.6)
    return _series(rng, process, "reads-in-parts", lambda t: size * min(int(parts * t / length) / parts, 1))


def collected(rng: Random) -> Series:
    process = _process(rng)
    size, period = process.base * rng.uniform(0.02, 0.4), process.seconds * log_uniform(rng, 0.01, 1)
    return _series(rng, process, "collected-now-and-then", lambda t: size * (t / period % 1))


def levels_off(rng: Random) -> Series:
    process = _process(rng)
    size, power = process.base * rng.uniform(0.02, 0.4), rng.uniform(0.3, 0.6)
    return _series(rng, process, "grows-less-and-less", lambda t: size * (t / process.seconds) ** power)


def noise(rng: Random) -> Series:
    process = _process(rng)
    size, memory, state = process.base * log_uniform(rng, 0.001, 0.02), rng.uniform(0.8, 0.995), [0.0]

    def held(t: float) -> float:
        state[0] = memory * state[0] + rng.gauss(0, size)
        return state[0]

    return _series(rng, process, "noise-with-memory", held)


def validation(rng: Random) -> Series:
    process = _process(rng)
    size, epoch = process.base * rng.uniform(0.05, 0.4), process.seconds / rng.uniform(3, 60)
    return _series(rng, process, "validation", lambda t: size if t % epoch > 0.8 * epoch else 0)


def flat(rng: Random) -> Series:
    return _series(rng, _process(rng), "flat", lambda t: 0)


def few_megabytes(rng: Random) -> Series:
    process = _process(rng)
    rate = log_uniform(rng, 1, 30) * 1024 / 60
    return _series(rng, process, "kilobytes-of-history", lambda t: rate * t)


# -- leaks ------------------------------------------------------------------------------------------------------------


def _rate(rng: Random) -> float:
    return log_uniform(rng, 3, 300) * MIB / 60


def list_grows(rng: Random) -> Series:
    process, rate = _process(rng), _rate(rng)
    return _series(rng, process, "list-grows", lambda t: rate * t, leak=True)


def soon(rng: Random) -> Series:
    process = _process(rng)
    rate = _room(process) / log_uniform(rng, 300, 3000)
    return _series(rng, process, "at-the-limit-soon", lambda t: rate * t, leak=True)


def of_each_epoch(rng: Random) -> Series:
    process, rate = _process(rng), _rate(rng)
    epoch = process.seconds / rng.uniform(15, 120)
    return _series(rng, process, "of-each-epoch", lambda t: rate * epoch * int(t / epoch), leak=True)


def more_and_more(rng: Random) -> Series:
    process, rate = _process(rng), _rate(rng)
    return _series(rng, process, "more-and-more", lambda t: rate * t * (0.4 + t / process.seconds), leak=True)


def later(rng: Random) -> Series:
    process, rate = _process(rng), _rate(rng)
    begin = process.seconds * rng.uniform(0.05, 0.5)
    return _series(rng, process, "begins-later", lambda t: rate * max(t - begin, 0), leak=True, since=begin)


def after_a_cache(rng: Random) -> Series:
    process, rate = _process(rng), _rate(rng)
    size, seconds = process.base * rng.uniform(0.05, 0.5), process.seconds * rng.uniform(0.02, 0.2)
    return _series(rng, process, "after-a-cache", lambda t: rate * t + size * min(t / seconds, 1), leak=True)


def in_bursts(rng: Random) -> Series:
    process, rate, held = _process(rng), _rate(rng), [0.0]

    def grown(t: float) -> float:
        held[0] += rate * 10 / 0.15 * (rng.random() < 0.15)
        return held[0]

    return _series(rng, process, "in-bursts", grown, leak=True)


def under_garbage(rng: Random) -> Series:
    process, rate = _process(rng), _rate(rng)
    size, period = rate * rng.uniform(60, 1200), log_uniform(rng, 30, 600)
    return _series(rng, process, "under-garbage", lambda t: rate * t + size * (t / period % 1), leak=True)


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    shuffle_buffer, cache, pages, replay, tuned_prefetch, reads_in_parts, collected, levels_off, noise, validation,
    flat, few_megabytes,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    list_grows, soon, of_each_epoch, more_and_more, later, after_a_cache, in_bursts, under_garbage,
)  # fmt: skip
