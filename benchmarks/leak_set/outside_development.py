"""Families of a process's memory as seen from outside: those that the detector was developed on."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from leak_set.process import Process
from leak_set.series import Series
from leak_set.training import MIB, log_uniform

# -- no leak ----------------------------------------------------------------------------------------------------------


def steady(rng: Random) -> Series:
    return Process(rng).series("steady", lambda t: 0)


def warm_up(rng: Random) -> Series:
    process = Process(rng)
    size, seconds = process.base * rng.uniform(0.05, 0.6), rng.uniform(30, 300)
    return process.series("warm-up", lambda t: size * (1 - math.exp(-t / seconds)))


def garbage(rng: Random) -> Series:
    process = Process(rng)
    size, period = process.base * rng.uniform(0.02, 0.4), log_uniform(rng, 20, 900)
    return process.series("garbage-sawtooth", lambda t: size * (t / period % 1))


def shuffle_buffer(rng: Random) -> Series:
    process = Process(rng)
    size, seconds = process.base * rng.uniform(0.1, 1), rng.uniform(60, 1200)
    return process.series("shuffle-buffer", lambda t: size * min(t / seconds, 1))


def cache_fills(rng: Random) -> Series:
    process = Process(rng)
    size = process.base * rng.uniform(0.1, 1.5)
    return process.series("cache-fills-and-stops", lambda t: size * min(t / process.epoch, 1))


def epochs(rng: Random) -> Series:
    process = Process(rng)
    size = process.base * rng.uniform(0.02, 0.3)
    return process.series("buffer-of-each-epoch", lambda t: size * min((t % process.epoch) / process.epoch * 2, 1))


def validation(rng: Random) -> Series:
    process = Process(rng)
    size = process.base * rng.uniform(0.02, 0.3)
    return process.series("validation", lambda t: size if t % process.epoch > 0.85 * process.epoch else 0)


def steps(rng: Random) -> Series:
    process = Process(rng)
    rises = sorted(rng.uniform(0, process.seconds) for _ in range(rng.randint(1, 4)))
    sizes = [process.base * rng.uniform(0.02, 0.2) for _ in rises]
    return process.series("a-few-steps", lambda t: sum(s for s, at in zip(sizes, rises, strict=True) if t >= at))


def noise_remembers(rng: Random) -> Series:
    process = Process(rng)
    size, state = process.base * log_uniform(rng, 0.001, 0.02), [0.0]

    def held(t: float) -> float:
        state[0] = 0.97 * state[0] + rng.gauss(0, size)
        return state[0]

    return process.series("autoregressive", held)


def bounded_walk(rng: Random) -> Series:
    process = Process(rng)
    step, bound, state = process.base * log_uniform(rng, 0.0005, 0.01), process.base * rng.uniform(0.05, 0.2), [0.0]

    def held(t: float) -> float:
        state[0] = min(max(state[0] + rng.gauss(0, step), -bound), bound)
        return state[0]

    return process.series("bounded-walk", held)


def checkpoints(rng: Random) -> Series:
    process = Process(rng)
    size, every = process.base * rng.uniform(0.05, 0.5), rng.uniform(60, 1800)
    return process.series("checkpoints", lambda t: size if t % every < 20 else 0)


def arenas(rng: Random) -> Series:
    process = Process(rng)
    size = process.base * rng.uniform(0.02, 0.15)
    return process.series("arenas-that-fill-up", lambda t: size * math.log1p(t / 60) / 4)


# -- leaks ------------------------------------------------------------------------------------------------------------


def linear(rng: Random) -> Series:
    process, rate = Process(rng), 0.0
    rate = process.rate()
    return process.series("linear", lambda t: rate * t, leak=True)


def each_epoch(rng: Random) -> Series:
    process = Process(rng)
    process.epoch = log_uniform(rng, 20, 300)
    each = process.rate() * process.epoch
    return process.series("stairs-of-epochs", lambda t: each * int(t / process.epoch), leak=True)


def under_garbage(rng: Random) -> Series:
    process = Process(rng)
    rate, period = process.rate(), log_uniform(rng, 20, 600)
    size = min(process.base * rng.uniform(0.01, 0.2), rate * 1800)
    return process.series("under-a-sawtooth", lambda t: rate * t + size * (t / period % 1), leak=True)


def starts_late(rng: Random) -> Series:
    process = Process(rng, hours=rng.uniform(2, 4))
    rate, begin = process.rate(), rng.uniform(600, 3600)
    return process.series("starts-late", lambda t: rate * max(t - begin, 0), leak=True, since=begin)


def faster_and_faster(rng: Random) -> Series:
    process = Process(rng)
    rate, hours = process.rate(), process.seconds
    return process.series("faster-and-faster", lambda t: rate * t * (0.3 + t / hours), leak=True)


def after_a_warm_up(rng: Random) -> Series:
    process = Process(rng)
    rate, size, seconds = process.rate(), process.base * rng.uniform(0.05, 0.5), rng.uniform(30, 300)
    return process.series("after-a-warm-up", lambda t: rate * t + size * (1 - math.exp(-t / seconds)), leak=True)


def retracing(rng: Random) -> Series:
    process = Process(rng)
    rate, held, last = process.rate(), [0.0], [0.0]

    def grown(t: float) -> float:
        if rng.random() < 0.3:
            held[0] += rate * (t - last[0]) if last[0] else 0
            last[0] = t
        return held[0]

    return process.series("retracing", grown, leak=True)


def beside_validation(rng: Random) -> Series:
    process = Process(rng)
    rate, size = process.rate(), 200 * MIB
    return process.series(
        "beside-validation",
        lambda t: rate * t + (size if t % process.epoch > 0.85 * process.epoch else 0),
        leak=True,
    )


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    steady, warm_up, garbage, shuffle_buffer, cache_fills, epochs, validation, steps, noise_remembers, bounded_walk,
    checkpoints, arenas,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    linear, each_epoch, under_garbage, starts_late, faster_and_faster, after_a_warm_up, retracing, beside_validation,
)  # fmt: skip
