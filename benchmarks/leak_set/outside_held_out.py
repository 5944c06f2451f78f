"""Families of a process's memory that were written before the detector was tuned and not looked at meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from leak_set.process import Process
from leak_set.series import Series
from leak_set.training import MIB, log_uniform

# -- no leak ----------------------------------------------------------------------------------------------------------


def workers_start(rng: Random) -> Series:
    process = Process(rng)
    workers, every, size = rng.randint(2, 12), rng.uniform(5, 60), process.base * rng.uniform(0.03, 0.2)
    return process.series("workers-start-one-by-one", lambda t: size * min(int(t / every), workers))


def memory_mapped(rng: Random) -> Series:
    process = Process(rng)
    size = process.base * rng.uniform(0.1, 1.5)
    return process.series("mapped-file-is-read", lambda t: size * (1 - math.exp(-t / process.epoch / 2)))


def workers_restart(rng: Random) -> Series:
    process = Process(rng)
    size = process.base * rng.uniform(0.1, 0.5)
    return process.series("workers-restart-each-epoch", lambda t: size if t % process.epoch > 8 else 0)


def garbage_at_random(rng: Random) -> Series:
    process = Process(rng)
    rate, state, chance = process.base * log_uniform(rng, 1e-4, 1e-3), [0.0], rng.uniform(0.01, 0.1)

    def held(t: float) -> float:
        state[0] = 0.0 if rng.random() < chance else state[0] + rate * 10 * rng.random()
        return state[0]

    return process.series("garbage-at-random", held)


def two_phases(rng: Random) -> Series:
    process = Process(rng)
    at, size = process.seconds * rng.uniform(0.2, 0.8), process.base * rng.uniform(0.1, 1)
    return process.series("second-phase", lambda t: size * min((t - at) / 60, 1) if t > at else 0)


def given_back(rng: Random) -> Series:
    process = Process(rng)
    size, seconds = process.base * rng.uniform(0.1, 0.5), rng.uniform(600, 3600)
    return process.series("given-back-slowly", lambda t: size * math.exp(-t / seconds))


def logs(rng: Random) -> Series:
    process = Process(rng)
    rate = log_uniform(rng, 1, 50) * 1024 / 60
    return process.series("history-of-kilobytes", lambda t: rate * t)


def waves(rng: Random) -> Series:
    process = Process(rng)
    size, period, turn = process.base * rng.uniform(0.01, 0.1), rng.uniform(300, 2400), rng.random()
    return process.series("waves", lambda t: size * math.sin(2 * math.pi * (t / period + turn)))


def heavy_tails(rng: Random) -> Series:
    process = Process(rng)
    return process.series("heavy-tailed-spikes", lambda t: process.noise * min(rng.paretovariate(1.2) - 1, 50))


def first_epochs(rng: Random) -> Series:
    process = Process(rng)
    process.epoch = log_uniform(rng, 20, 300)
    size = process.base * rng.uniform(0.05, 0.4)
    return process.series("first-epochs-grow-less-and-less", lambda t: size * (1 - 0.5 ** int(t / process.epoch)))


# -- leaks ------------------------------------------------------------------------------------------------------------


def uneven(rng: Random) -> Series:
    process = Process(rng)
    rate, held = process.rate(), [0.0]

    def grown(t: float) -> float:
        held[0] += rate * 10 * rng.gammavariate(0.5, 2)
        return held[0]

    return process.series("uneven", grown, leak=True)


def partly_released(rng: Random) -> Series:
    process = Process(rng)
    rate, period = process.rate(), rng.uniform(60, 400)
    return process.series("partly-released", lambda t: rate * t + 0.6 * rate * (t % period), leak=True)


def behind_heavy_tails(rng: Random) -> Series:
    process = Process(rng)
    rate = process.rate()
    return process.series(
        "behind-heavy-tailed-spikes",
        lambda t: rate * t + process.noise * min(rng.paretovariate(1.5) - 1, 30),
        leak=True,
    )


def pauses(rng: Random) -> Series:
    process = Process(rng)
    rate, epoch = process.rate(), rng.uniform(60, 400)
    return process.series(
        "pauses-in-validation",
        lambda t: rate * (int(t / epoch) * 0.7 * epoch + min(t % epoch, 0.7 * epoch)),
        leak=True,
    )


def arrays(rng: Random) -> Series:
    process = Process(rng)
    each, chance = log_uniform(rng, 20, 400) * MIB, rng.uniform(0.1, 0.5)
    held = [0.0]

    def grown(t: float) -> float:
        held[0] += each if rng.random() < chance else 0
        return held[0]

    return process.series("arrays-at-random", grown, leak=True)


def beside_a_buffer(rng: Random) -> Series:
    process = Process(rng)
    rate, size = process.rate(), process.base * rng.uniform(0.1, 0.5)
    seconds = rng.uniform(60, 600)
    return process.series("after-a-shuffle-buffer", lambda t: rate * t + size * min(t / seconds, 1), leak=True)


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    workers_start, memory_mapped, workers_restart, garbage_at_random, two_phases, given_back, logs, waves, heavy_tails,
    first_epochs,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    uneven, partly_released, behind_heavy_tails, pauses, arrays, beside_a_buffer,
)  # fmt: skip
