"""Families of baselines that were written after the detector was changed, and not used to change it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

from leak_set.inside_fills import without_epochs
from leak_set.series import Series
from leak_set.training import MIB, Moment, Training, fits, log_uniform

Held = Callable[[Moment], float]


def _series(rng: Random, training: Training, family: str, held: Held, leak: bool = False, since: float = 0) -> Series:
    """A fit whose length in steps is known or not, or a loop of somebody's own."""
    whole, chance = training.series(family, held, leak, since), rng.random()
    if chance < 0.12:
        return replace(whole, points=tuple(without_epochs(whole.points)), epochs=0, steps=0)
    return replace(whole, steps=0) if chance < 0.37 else whole


def _stopped_early(rng: Random, training: Training, family: str, held: Held, leak: bool = False) -> Series:
    """A fit that was to take longer than it does."""
    whole = _series(rng, training, family, held, leak)
    return replace(whole, epochs=int(whole.epochs * rng.uniform(1.3, 6)))


def _room(training: Training) -> float:
    return training.limit - training.model


# -- no leak ----------------------------------------------------------------------------------------------------------


def snapshots(rng: Random) -> Series:
    training = Training(rng)
    number = rng.randint(3, 12)
    every = training.epochs * rng.uniform(0.2, 0.8) / number
    size = min(training.model / 3, _room(training) / number / 1.5)
    return _series(rng, training, "snapshot-of-each-cycle", lambda at: size * min(int(at.epochs / every), number))


def queue_of_keys(rng: Random) -> Series:
    training = Training(rng)
    size, epochs = _room(training) * rng.uniform(0.02, 0.6), training.epochs * rng.uniform(0.05, 0.8)
    return _series(rng, training, "queue-of-keys", lambda at: size * min(at.epochs / epochs, 1))


def resolution_doubles(rng: Random) -> Series:
    training = Training(rng)
    stages = rng.randint(3, 6)
    size = _room(training) * rng.uniform(0.1, 0.8) / 4**stages
    return _series(
        rng, training, "resolution-doubles", lambda at: size * 4 ** int(stages * at.epochs / (training.epochs + 1))
    )


def longer_sequences(rng: Random) -> Series:
    training = Training(rng)
    until, size = training.epochs * rng.uniform(0.2, 0.85), training.model * rng.uniform(0.05, 0.8)
    return _series(
        rng,
        training,
        "longer-and-longer-sequences",
        lambda at: size * min(at.epochs / until, 1) * rng.uniform(0.9, 1.0),
    )


def pool_of_hard_examples(rng: Random) -> Series:
    training = Training(rng)
    size, middle = training.model * rng.uniform(0.05, 1.5), training.epochs * rng.uniform(0.1, 0.5)
    return _series(
        rng, training, "pool-of-hard-examples", lambda at: size / (1 + math.exp(-6 * (at.epochs - middle) / middle))
    )


def words(rng: Random) -> Series:
    training = Training(rng)
    size, power = training.model * rng.uniform(0.05, 0.8), rng.uniform(0.35, 0.65)
    return _series(rng, training, "words-by-heaps-law", lambda at: size * (at.epochs / training.epochs) ** power)


def least_recently_used(rng: Random) -> Series:
    training = Training(rng)
    capacity = _room(training) * rng.uniform(0.02, 0.6)
    each, held = capacity / training.epochs / rng.uniform(0.1, 0.8), [0.0]
    for _ in range(training.epochs):
        grown = held[-1] + each * rng.gammavariate(1.5, 1 / 1.5)
        held.append(grown if grown < capacity else capacity * rng.uniform(0.93, 1))
    return _series(rng, training, "least-recently-used", lambda at: held[int(at.epochs)])


def grid_of_queries(rng: Random) -> Series:
    training = Training(rng)
    epochs = training.epochs * rng.uniform(0.1, 0.8)
    size = min(training.model * rng.uniform(0.05, 2), 0.8 * _room(training))
    return _series(rng, training, "table-of-seen-states", lambda at: size * (1 - (1 - min(at.epochs / epochs, 1)) ** 2))


def replay(rng: Random) -> Series:
    training = Training(rng)
    begin = training.epochs * rng.uniform(0, 0.2)
    length, size = training.epochs * rng.uniform(0.1, 0.6), _room(training) * rng.uniform(0.02, 0.6)
    return _series(rng, training, "replay-after-a-while", lambda at: size * min(max(at.epochs - begin, 0) / length, 1))


def waves_of_garbage(rng: Random) -> Series:
    training = Training(rng)
    size, period = training.model * rng.uniform(0.02, 0.5), training.epochs * rng.uniform(0.15, 1.5)
    return _series(rng, training, "seldom-collected", lambda at: size * (at.epochs / period % 1) if period else 0)


def reflecting_walk(rng: Random) -> Series:
    training = Training(rng)
    top, step, state = training.model * rng.uniform(0.02, 0.3), rng.uniform(0.02, 0.25), [0.0]

    def held(at: Moment) -> float:
        state[0] = abs(state[0] + rng.gauss(0, step))
        state[0] = 2 - state[0] if state[0] > 1 else state[0]
        return top * state[0]

    return _series(rng, training, "reflecting-walk", held)


def level_shifts(rng: Random) -> Series:
    training = Training(rng)
    shifts = [(rng.uniform(0, training.epochs), training.model * rng.uniform(-0.1, 0.3)) for _ in range(5)]
    return _series(rng, training, "level-shifts", lambda at: sum(size for when, size in shifts if at.epochs >= when))


def average_from_half(rng: Random) -> Series:
    training = Training(rng)
    begin = training.epochs * rng.uniform(0.3, 0.8)
    return _series(rng, training, "average-from-half", lambda at: training.model / 3 if at.epochs >= begin else 0)


def flat(rng: Random) -> Series:
    return _series(rng, Training(rng, epochs=rng.randint(2, 150)), "flat", lambda at: 0)


def flat_and_few(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(1, 4), steps=int(log_uniform(rng, 500, 50_000)))
    return _series(rng, training, "few-epochs", lambda at: 0)


def fills_in_few_epochs(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(1, 5), steps=int(log_uniform(rng, 2000, 40_000)))
    training.step_seconds = log_uniform(rng, 0.03, 0.4)
    length, size = training.epochs * rng.uniform(0.05, 0.8), _room(training) * rng.uniform(0.02, 0.6)
    return _series(rng, training, "fills-in-few-epochs", lambda at: size * min(at.epochs / length, 1))


def batches_of_each_epoch(rng: Random) -> Series:
    training = Training(rng)
    size = training.model * rng.uniform(0.05, 0.6)
    return _series(rng, training, "predictions-of-each-epoch", lambda at: size * at.part if at.part < 1 else 0)


def stopped_early(rng: Random) -> Series:
    training = Training(rng)
    size, epochs = training.model * rng.uniform(0.05, 0.8), training.epochs * rng.uniform(0.1, 1.0)
    return _stopped_early(rng, training, "fills-and-stops-early", lambda at: size * min(at.epochs / epochs, 1))


def folds(rng: Random) -> Series:
    epochs, steps, model = rng.randint(4, 40), rng.randint(10, 400), log_uniform(rng, 4 * MIB, 1024 * MIB)
    loop = [Training(rng, epochs, steps, 0, model, model / 80) for _ in range(rng.randint(3, 10))]
    size, part = model * rng.uniform(0.05, 0.5), rng.uniform(0.1, 0.7)
    return fits("folds-with-buffers", loop, lambda number, at: size * min(at.epochs / epochs / part, 1))


def search(rng: Random) -> Series:
    epochs, steps = rng.randint(2, 12), rng.randint(10, 300)
    base = log_uniform(rng, 4 * MIB, 512 * MIB)
    trials = [
        Training(rng, epochs, steps, 0, base * log_uniform(rng, 0.2, 5), base / 50) for _ in range(rng.randint(5, 30))
    ]
    return fits("search-that-clears", trials, lambda number, at: 0)


def then_fine_tuning(rng: Random) -> Series:
    first, second = Training(rng), Training(rng)
    second.model = first.model * rng.uniform(1.0, 1.6)
    size, part = first.model * rng.uniform(0.02, 0.4), rng.uniform(0.1, 0.7)
    return fits(
        "then-fine-tuning",
        [first, second],
        lambda number, at: size * min(at.epochs / part / (first, second)[number].epochs, 1),
    )


# -- leaks ------------------------------------------------------------------------------------------------------------


def _total(rng: Random, training: Training) -> float:
    return max(_room(training) * log_uniform(rng, 0.01, 4), 6 * training.batch, 2 * MIB)


def outputs_kept(rng: Random) -> Series:
    training = Training(rng)
    total, held = _total(rng, training), [0.0]
    for _ in range(training.epochs):
        held.append(held[-1] + total / training.epochs * rng.uniform(0.6, 1.4))
    return _series(rng, training, "outputs-kept", lambda at: held[int(at.epochs)], leak=True)


def gradients_of_each_step(rng: Random) -> Series:
    training = Training(rng)
    total = _total(rng, training)
    return _series(rng, training, "gradients-of-each-step", lambda at: total * at.epochs / training.epochs, leak=True)


def variable_of_each_epoch(rng: Random) -> Series:
    training = Training(rng)
    each = _total(rng, training) / training.epochs
    return _series(rng, training, "variable-of-each-epoch", lambda at: each * int(at.epochs), leak=True)


def at_the_limit_soon(rng: Random) -> Series:
    training = Training(rng)
    each = _room(training) / log_uniform(rng, 0.8, 4)
    return _series(rng, training, "at-the-limit-soon", lambda at: each * at.epochs, leak=True)


def at_the_limit_later(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(20, 80))
    each = _room(training) / log_uniform(rng, 4, 16)
    return _series(rng, training, "at-the-limit-later", lambda at: each * at.epochs, leak=True)


def in_validation(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 150))
    every = rng.randint(2, 4)
    each = _total(rng, training) / (training.epochs // every)
    return _series(rng, training, "in-validation", lambda at: each * (int(at.epochs) // every), leak=True)


def small_under_noise(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 150))
    total, noise = training.batch * rng.uniform(6, 15), training.batch * rng.uniform(0, 0.7)
    return _series(
        rng,
        training,
        "small-under-noise",
        lambda at: max(total, 2 * MIB) * at.epochs / training.epochs + rng.gauss(0, noise),
        leak=True,
    )


def from_a_callback_on(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 120))
    total, begin = _total(rng, training), int(training.epochs * rng.uniform(0.1, 0.55))
    rest = training.epochs - begin
    return _series(
        rng, training, "from-a-callback-on", lambda at: total * max(at.epochs - begin, 0) / rest, True, begin
    )


def graphs(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(20, 100))
    each, held = _total(rng, training) / training.epochs, [0.0]
    for _ in range(training.epochs):
        held.append(held[-1] + each * rng.choice((0, 1, 1, 1, 2)))
    return _series(rng, training, "graphs", lambda at: held[int(at.epochs)], leak=True)


def more_and_more(rng: Random) -> Series:
    training = Training(rng)
    total, power = _total(rng, training), rng.uniform(1.3, 2.2)
    return _series(rng, training, "more-and-more", lambda at: total * (at.epochs / training.epochs) ** power, leak=True)


def beside_garbage(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 100))
    total, period = _total(rng, training), rng.uniform(1.5, 8)
    size = total * rng.uniform(0.02, 0.2)
    return _series(
        rng,
        training,
        "beside-garbage",
        lambda at: total * at.epochs / training.epochs + size * (at.epochs / period % 1),
        leak=True,
    )


def after_a_queue(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 100))
    total, size, epochs = _total(rng, training), training.model * rng.uniform(0.05, 0.5), training.epochs * 0.15
    return _series(
        rng,
        training,
        "after-a-queue-is-full",
        lambda at: total * at.epochs / training.epochs + size * min(at.epochs / epochs, 1),
        leak=True,
    )


def in_few_epochs(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(1, 5), steps=int(log_uniform(rng, 2000, 40_000)))
    training.step_seconds = log_uniform(rng, 0.03, 0.4)
    total = _total(rng, training)
    return _series(rng, training, "in-few-epochs", lambda at: total * at.epochs / training.epochs, leak=True)


def models_of_folds(rng: Random) -> Series:
    epochs, steps, model = rng.randint(3, 30), rng.randint(10, 300), log_uniform(rng, 4 * MIB, 1024 * MIB)
    loop = [Training(rng, epochs, steps, 0, model, model / 100) for _ in range(rng.randint(6, 10))]
    kept = model * rng.uniform(0.3, 1)
    return fits("models-of-folds-kept", loop, lambda number, at: kept * number, leak=True)


def each_short_fit(rng: Random) -> Series:
    steps, model = rng.randint(10, 500), log_uniform(rng, 4 * MIB, 2048 * MIB)
    loop = [Training(rng, 1, steps, 0, model, model / 200) for _ in range(rng.randint(30, 90))]
    each = model * log_uniform(rng, 0.01, 0.3)
    return fits("each-short-fit", loop, lambda number, at: each * number, leak=True)


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    snapshots, queue_of_keys, resolution_doubles, longer_sequences, pool_of_hard_examples, words, least_recently_used,
    grid_of_queries, replay, waves_of_garbage, reflecting_walk, level_shifts, average_from_half, flat, flat_and_few,
    fills_in_few_epochs, batches_of_each_epoch, stopped_early, folds, search, then_fine_tuning,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    outputs_kept, gradients_of_each_step, variable_of_each_epoch, at_the_limit_soon, at_the_limit_later, in_validation,
    small_under_noise, from_a_callback_on, graphs, more_and_more, beside_garbage, after_a_queue, in_few_epochs,
    models_of_folds, each_short_fit,
)  # fmt: skip
