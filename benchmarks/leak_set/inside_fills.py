"""More families that the detector was developed on: what fills for a part of the training, fast and small leaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from leak_set.series import Point, Series
from leak_set.training import MIB, SECONDS_BETWEEN, SHARE_BETWEEN, STEPS_BETWEEN, Moment, Training, fits, log_uniform

_LOOPS, _LENGTHS_UNKNOWN = 0.15, 0.2
"""How many trainings are loops of their own, which tell no epochs, and how many fits do not know their steps."""
Shape = Callable[[float], float]
"""How full something is, from 0 to 1, after which part of the time that it takes to fill."""


def _may_know(rng: Random, series: Series) -> Series:
    chance = rng.random()
    if chance < _LOOPS:
        return replace(series, points=tuple(without_epochs(series.points)), epochs=0, steps=0)
    return replace(series, steps=0) if chance < _LOOPS + _LENGTHS_UNKNOWN else series


def without_epochs(points: tuple[Point, ...]) -> Iterator[Point]:
    """What a loop tells: readings after so many steps, or so much time."""
    time, step = 0.0, 0
    for point in points:
        if point.time - time >= max(SECONDS_BETWEEN, SHARE_BETWEEN * point.time) or point.step >= step + STEPS_BETWEEN:
            time, step = point.time, point.step
            yield replace(point, epoch=0)


def _fill(rng: Random, family: str, shape: Shape, training: Training | None = None, begin: float = 0.0) -> Series:
    """Something that is full after 10 to 75 % of the training, and takes up to 80 % of the free memory."""
    training = training or Training(rng)
    size = (training.limit - training.model) * log_uniform(rng, 0.01, 0.8)
    length = training.epochs * rng.uniform(0.1, 0.75 - begin)
    first = training.epochs * begin

    def held(at: Moment) -> float:
        return size * shape(min(max((at.epochs - first) / length, 0.0), 1.0))

    return _may_know(rng, training.series(family, held))


# -- no leak ----------------------------------------------------------------------------------------------------------


def replay_buffer(rng: Random) -> Series:
    return _fill(rng, "replay-buffer", lambda x: x)


def ring_of_copies(rng: Random) -> Series:
    training = Training(rng)
    copies = max(int(training.epochs * rng.uniform(0.1, 0.75)), 2)
    each = (training.limit - training.model) * log_uniform(rng, 0.01, 0.8) / copies
    return _may_know(rng, training.series("ring-of-copies", lambda at: each * min(int(at.epochs), copies)))


def curriculum(rng: Random) -> Series:
    stages = rng.randint(3, 20)
    return _fill(rng, "curriculum", lambda x: int(x * stages) / stages)


def curriculum_of_uneven_stages(rng: Random) -> Series:
    ends = sorted(rng.random() for _ in range(rng.randint(4, 25)))
    return _fill(rng, "curriculum-of-uneven-stages", lambda x: sum(x >= end for end in ends) / len(ends))


def cache_of_keys(rng: Random) -> Series:
    speed = rng.uniform(1, 4)
    return _fill(rng, "cache-of-keys", lambda x: (1 - math.exp(-speed * x)) / (1 - math.exp(-speed)))


def fills_unevenly(rng: Random) -> Series:
    levels = [0.0]
    for _ in range(60):
        levels.append(levels[-1] + rng.gammavariate(0.7, 1))
    return _fill(rng, "fills-unevenly", lambda x: levels[int(60 * x)] / levels[60])


def fills_faster(rng: Random) -> Series:
    power = rng.uniform(1, 1.6)
    return _fill(rng, "fills-faster-and-faster", lambda x: x**power)


def fills_later(rng: Random) -> Series:
    return _fill(rng, "begins-to-fill-later", lambda x: x, begin=rng.uniform(0.1, 0.4))


def few_long_epochs(rng: Random) -> Series:
    training = Training(
        rng, epochs=rng.randint(1, 4), steps=rng.randint(8_000, 40_000), step_seconds=rng.uniform(0.1, 0.4)
    )
    return _fill(rng, "fills-in-few-long-epochs", lambda x: x, training)


def few_epochs(rng: Random) -> Series:
    return _fill(rng, "fills-in-few-epochs", lambda x: x, Training(rng, epochs=rng.randint(3, 14)))


def each_fit_fills(rng: Random) -> Series:
    steps, model = rng.randint(10, 500), log_uniform(rng, 4 * MIB, 2048 * MIB)
    epochs, part = rng.randint(6, 25), rng.uniform(0.1, 0.8)
    loop = [Training(rng, epochs, steps, 0, model, model / 50) for _ in range(rng.randint(2, 6))]
    size = model * rng.uniform(0.1, 1)
    return fits("each-fit-fills", loop, lambda number, at: size * min(at.epochs / epochs / part, 1))


def fills_over_fits(rng: Random) -> Series:
    steps, model = rng.randint(10, 500), log_uniform(rng, 4 * MIB, 2048 * MIB)
    epochs, number_of_fits, part = rng.randint(4, 25), rng.randint(2, 4), rng.uniform(0.1, 0.75)
    loop = [Training(rng, epochs, steps, 0, model, model / 50) for _ in range(number_of_fits)]
    size = model * rng.uniform(0.1, 1)
    return fits(
        "fills-over-fits",
        loop,
        lambda number, at: size * min((number * epochs + at.epochs) / epochs / number_of_fits / part, 1),
    )


def replay_over_short_fits(rng: Random) -> Series:
    steps, model = rng.randint(10, 500), log_uniform(rng, 4 * MIB, 2048 * MIB)
    loop = [Training(rng, 1, steps, 0, model, model / 100) for _ in range(rng.randint(20, 100))]
    size, part = model * log_uniform(rng, 0.02, 1), rng.uniform(0.1, 0.75) * len(loop)
    return fits("replay-buffer-over-short-fits", loop, lambda number, at: size * min((number + at.epochs) / part, 1))


def grows_from_fit_to_fit(rng: Random) -> Series:
    epochs, steps, model = rng.randint(2, 20), rng.randint(10, 500), log_uniform(rng, 4 * MIB, 512 * MIB)
    factor, number = rng.uniform(1.1, 2), rng.randint(3, 9)
    stages = [Training(rng, epochs, steps, 0, model * factor**stage, model / 50) for stage in range(number)]
    return fits("model-grows-from-fit-to-fit", stages, lambda number, at: 0)


def pool_in_each_epoch(rng: Random) -> Series:
    training = Training(rng)
    size, part = (training.limit - training.model) * log_uniform(rng, 0.01, 0.8), rng.uniform(0.3, 1)
    return _may_know(
        rng, training.series("pool-in-each-epoch", lambda at: size * min(at.part / part, 1) if at.part < 1 else 0)
    )


def noise_remembers(rng: Random) -> Series:
    training = Training(rng)
    step, memory, state = training.batch * rng.uniform(0.3, 3), rng.uniform(0.5, 0.97), [0.0]

    def held(at: Moment) -> float:
        state[0] = memory * state[0] + rng.gauss(0, step)
        return state[0]

    return _may_know(rng, training.series("noise-that-remembers", held))


def steady(rng: Random) -> Series:
    return _may_know(rng, Training(rng, epochs=rng.randint(2, 200)).series("steady-of-any-length", lambda at: 0))


# -- leaks ------------------------------------------------------------------------------------------------------------


def fast(rng: Random) -> Series:
    training = Training(rng)
    each = (training.limit - training.model) / rng.uniform(1.3, 3)
    return _may_know(rng, training.series("fast", lambda at: each * at.epochs, leak=True))


def eight_epochs(rng: Random) -> Series:
    training = Training(rng)
    each = (training.limit - training.model) / rng.uniform(3, 12)
    return _may_know(rng, training.series("limit-in-a-dozen-epochs", lambda at: each * at.epochs, leak=True))


def fast_by_epoch(rng: Random) -> Series:
    training = Training(rng)
    each = (training.limit - training.model) / rng.uniform(3, 12)
    return _may_know(rng, training.series("limit-in-a-dozen-stairs", lambda at: each * int(at.epochs), leak=True))


def small(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 120))
    total = max(training.batch * rng.uniform(4, 10), 2 * MIB)
    return _may_know(rng, training.series("small", lambda at: total * at.epochs / training.epochs, leak=True))


def small_and_noisy(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 120))
    total = max(training.batch * rng.uniform(8, 20), 2 * MIB)
    memory, state = rng.uniform(0, 0.7), [0.0]

    def held(at: Moment) -> float:
        state[0] = memory * state[0] + rng.gauss(0, training.batch)
        return total * at.epochs / training.epochs + state[0]

    return _may_know(rng, training.series("small-and-noisy", held, leak=True))


def any_size(rng: Random) -> Series:
    training = Training(rng)
    total = max((training.limit - training.model) * log_uniform(rng, 0.02, 3), 6 * training.batch, 2 * MIB)
    return _may_know(rng, training.series("any-size", lambda at: total * at.epochs / training.epochs, leak=True))


def after_a_buffer(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 80))
    total, size, length = (
        training.total(),
        training.model * rng.uniform(0.05, 0.6),
        training.epochs * rng.uniform(0, 0.3),
    )
    return _may_know(
        rng,
        training.series(
            "beside-a-buffer",
            lambda at: total * at.epochs / training.epochs + size * min(at.epochs / (length + 0.01), 1),
            leak=True,
        ),
    )


def starts_late(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 120))
    total, begin = training.total(), training.epochs * rng.uniform(0.2, 0.6)
    rest = training.epochs - begin
    return _may_know(
        rng, training.series("starts-later", lambda at: total * max(at.epochs - begin, 0) / rest, True, begin)
    )


def uneven(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 100))
    each, held = training.total() / training.epochs, [0.0]
    for _ in range(training.epochs):
        held.append(held[-1] + each * rng.gammavariate(0.6, 1 / 0.6))
    return _may_know(rng, training.series("uneven", lambda at: held[int(at.epochs)], leak=True))


def few_epochs_leak(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(3, 14), steps=rng.randint(300, 20_000))
    total = max((training.limit - training.model) * log_uniform(rng, 0.05, 3), 6 * training.batch)
    return _may_know(
        rng, training.series("leak-in-few-epochs", lambda at: total * at.epochs / training.epochs, leak=True)
    )


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    replay_buffer, ring_of_copies, curriculum, curriculum_of_uneven_stages, cache_of_keys, fills_unevenly, fills_faster,
    fills_later, few_long_epochs, few_epochs, each_fit_fills, fills_over_fits, replay_over_short_fits,
    grows_from_fit_to_fit, pool_in_each_epoch, noise_remembers, steady,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    fast, eight_epochs, fast_by_epoch, small, small_and_noisy, any_size, after_a_buffer, starts_late, uneven,
    few_epochs_leak,
)  # fmt: skip
