"""Families of baselines from within the training process: those that the detector was developed on."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from leak_set.series import Series
from leak_set.training import MIB, Training, fits, log_uniform

# -- no leak ----------------------------------------------------------------------------------------------------------


def steady(rng: Random) -> Series:
    return Training(rng).series("steady", lambda at: 0)


def warm_up(rng: Random) -> Series:
    training = Training(rng)
    size, epochs = training.model * rng.uniform(0.1, 2), rng.uniform(0.3, 1.5)
    return training.series("warm-up", lambda at: size * (1 - math.exp(-at.epochs / epochs)))


def cache_fills(rng: Random) -> Series:
    training = Training(rng)
    size, epochs = training.model * rng.uniform(0.1, 2), rng.uniform(0.5, 3)
    return training.series("cache-fills-and-stops", lambda at: size * min(at.epochs / epochs, 1))


def shuffle_buffer(rng: Random) -> Series:
    training = Training(rng)
    size = training.model * rng.uniform(0.1, 1)
    return training.series("shuffle-buffer", lambda at: size * min(at.part * 3, 1) if at.part < 1 else 0)


def garbage(rng: Random) -> Series:
    training = Training(rng)
    size, period = training.model * rng.uniform(0.02, 0.6), rng.uniform(2, 9)
    return training.series("garbage-sawtooth", lambda at: size * (at.epochs / period % 1))


def validation_every_five(rng: Random) -> Series:
    training = Training(rng)
    size = training.model * rng.uniform(0.02, 0.3)
    return training.series("validation-every-5", lambda at: size if at.part == 1 and at.epoch % 5 == 0 else 0)


def unfreezes(rng: Random) -> Series:
    first, second = Training(rng), Training(rng)
    second.model = first.model * rng.uniform(1.2, 3)
    return fits("two-phase-fine-tuning", [first, second], lambda number, at: 0)


def one_jump(rng: Random) -> Series:
    training = Training(rng)
    size, at_epoch = training.model * rng.uniform(0.1, 1), rng.randint(1, training.epochs)
    return training.series("one-jump", lambda at: size if at.epochs >= at_epoch else 0)


def noise_remembers(rng: Random) -> Series:
    training = Training(rng)
    size, state = training.model * log_uniform(rng, 0.002, 0.05), [0.0]

    def held(at: object) -> float:
        state[0] = 0.85 * state[0] + rng.gauss(0, size)
        return state[0]

    return training.series("autoregressive", held)


def bounded_walk(rng: Random) -> Series:
    training = Training(rng)
    step, bound, state = training.model * log_uniform(rng, 0.002, 0.05), training.model * rng.uniform(0.1, 0.4), [0.0]

    def held(at: object) -> float:
        state[0] = min(max(state[0] + rng.gauss(0, step), -bound), bound)
        return state[0]

    return training.series("bounded-walk", held)


def growing_embedding(rng: Random) -> Series:
    training = Training(rng)
    size = training.model * rng.uniform(0.05, 0.5)
    return training.series("embedding-finds-new-words", lambda at: size * math.log1p(9 * at.epochs) / 3)


def tuner(rng: Random) -> Series:
    epochs, steps, model = rng.randint(3, 12), rng.randint(10, 300), log_uniform(rng, 4 * MIB, 1024 * MIB)
    trials = [Training(rng, epochs, steps, 0, model * log_uniform(rng, 0.3, 3)) for _ in range(rng.randint(6, 25))]
    return fits("tuner-trials", trials, lambda number, at: 0)


def cross_validation(rng: Random) -> Series:
    epochs, steps, model = rng.randint(3, 12), rng.randint(10, 300), log_uniform(rng, 4 * MIB, 1024 * MIB)
    folds = [Training(rng, epochs, steps, 0, model, model / 100) for _ in range(10)]
    return fits("cross-validation", folds, lambda number, at: 0)


def variable_lengths(rng: Random) -> Series:
    training = Training(rng)
    size = training.batch * rng.uniform(1, 10)
    return training.series("variable-lengths", lambda at: size * rng.random())


def first_epochs_jump(rng: Random) -> Series:
    training = Training(rng)
    sizes = [training.model * rng.uniform(0.02, 0.5) for _ in range(3)]
    return training.series("first-epochs-jump", lambda at: sum(sizes[: int(at.epochs)]))


def history(rng: Random) -> Series:
    training = Training(rng)
    kilobytes = log_uniform(rng, 256, 8192)
    return training.series("history-of-kilobytes", lambda at: kilobytes * at.epoch)


def long_epoch(rng: Random) -> Series:
    training = Training(
        rng, epochs=rng.randint(1, 2), steps=rng.randint(20_000, 60_000), step_seconds=rng.uniform(0.1, 0.4)
    )
    return training.series("long-epoch", lambda at: 0)


def long_epoch_fills(rng: Random) -> Series:
    training = Training(
        rng, epochs=rng.randint(1, 2), steps=rng.randint(20_000, 60_000), step_seconds=rng.uniform(0.1, 0.4)
    )
    size, seconds = training.model * rng.uniform(0.1, 1), rng.uniform(60, 1200)
    return training.series("long-epoch-fills", lambda at: size * min(at.time / seconds, 1))


# -- leaks ------------------------------------------------------------------------------------------------------------


def list_of_losses(rng: Random) -> Series:
    training = Training(rng)
    step = max(256 * rng.randint(1, 4), 3 * MIB / training.steps / training.epochs)
    training.batch = min(training.batch, step * training.steps * training.epochs / 8)
    return training.series("list-of-losses", lambda at: step * at.epochs * training.steps, leak=True)


def list_of_tensors(rng: Random) -> Series:
    training = Training(rng)
    total = training.total()
    return training.series("list-of-tensors", lambda at: total * at.epochs / training.epochs, leak=True)


def retracing(rng: Random) -> Series:
    training = Training(rng)
    graph, held = training.total() / training.epochs / 3, [0.0] * (training.epochs + 1)
    for epoch in range(1, training.epochs + 1):
        held[epoch] = held[epoch - 1] + graph * rng.choice((2, 3, 3, 4))
    return training.series("retracing", lambda at: held[int(at.epochs)], leak=True)


def metrics_kept(rng: Random) -> Series:
    training = Training(rng)
    each = training.total() / training.epochs
    return training.series("metrics-kept", lambda at: each * int(at.epochs), leak=True)


def leak_every_five(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(50, 120))
    each = training.total() / (training.epochs // 5)
    return training.series("leak-in-validation-every-5", lambda at: each * (int(at.epochs) // 5), leak=True)


def starts_late(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 90))
    total, begin = training.total(), training.epochs * rng.uniform(0.2, 0.6)
    rest = training.epochs - begin
    return training.series("starts-late", lambda at: total * max(at.epochs - begin, 0) / rest, True, begin)


def slow(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(40, 120))
    total = max(training.batch * rng.uniform(4, 8), 2 * MIB)
    return training.series("slow", lambda at: total * at.epochs / training.epochs, leak=True)


def under_garbage(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(40, 100))
    total, period = training.total(), rng.uniform(2, 6)
    size = total * rng.uniform(0.02, 0.25)
    return training.series(
        "under-a-sawtooth", lambda at: total * at.epochs / training.epochs + size * (at.epochs / period % 1), leak=True
    )


def faster_and_faster(rng: Random) -> Series:
    training = Training(rng)
    total, power = training.total(), rng.uniform(1.2, 2)
    return training.series("faster-and-faster", lambda at: total * (at.epochs / training.epochs) ** power, leak=True)


def in_a_long_epoch(rng: Random) -> Series:
    training = Training(
        rng, epochs=rng.randint(1, 2), steps=rng.randint(20_000, 60_000), step_seconds=rng.uniform(0.1, 0.4)
    )
    total = training.total()
    return training.series("leak-in-a-long-epoch", lambda at: total * at.epochs / training.epochs, leak=True)


def models_kept(rng: Random) -> Series:
    epochs, steps, model = rng.randint(1, 8), rng.randint(10, 300), log_uniform(rng, 4 * MIB, 1024 * MIB)
    trials = [Training(rng, epochs, steps, 0, model, model / 100) for _ in range(rng.randint(15, 30))]
    kept = model * rng.uniform(0.3, 1)
    return fits("models-kept-from-fit-to-fit", trials, lambda number, at: kept * number, leak=True)


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    steady, warm_up, cache_fills, shuffle_buffer, garbage, validation_every_five, unfreezes, one_jump, noise_remembers,
    bounded_walk, growing_embedding, tuner, cross_validation, variable_lengths, first_epochs_jump, history, long_epoch,
    long_epoch_fills,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    list_of_losses, list_of_tensors, retracing, metrics_kept, leak_every_five, starts_late, slow, under_garbage,
    faster_and_faster, in_a_long_epoch, models_kept,
)  # fmt: skip
