"""Families of baselines that were written before the detector was tuned and not looked at meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from leak_set.series import Series
from leak_set.training import MIB, Training, fits, log_uniform

# -- no leak ----------------------------------------------------------------------------------------------------------


def progressive_resizing(rng: Random) -> Series:
    training = Training(rng)
    stages, size = rng.randint(3, 5), training.model * rng.uniform(0.02, 0.3)
    return training.series("progressive-resizing", lambda at: size * int(stages * at.epochs / (training.epochs + 1)))


def gradual_unfreezing(rng: Random) -> Series:
    training = Training(rng)
    layers, every, size = rng.randint(3, 6), rng.randint(1, 3), training.model * rng.uniform(0.05, 0.3)
    return training.series("gradual-unfreezing", lambda at: size * min(int(at.epochs) // every, layers))


def rotating_copies(rng: Random) -> Series:
    training = Training(rng)
    copies = rng.randint(2, 6)
    return training.series("rotating-copies", lambda at: training.model * min(int(at.epochs), copies))


def buffers_tuned(rng: Random) -> Series:
    training = Training(rng)
    rises = sorted(rng.uniform(0, training.epochs / 2) for _ in range(rng.randint(2, 6)))
    return training.series("prefetch-grows-in-steps", lambda at: training.batch * sum(x <= at.epochs for x in rises))


def alternating(rng: Random) -> Series:
    training = Training(rng)
    size = training.model * rng.uniform(0.05, 0.5)
    return training.series("alternating-phases", lambda at: size * (at.epoch % 2))


def averaging_begins(rng: Random) -> Series:
    training = Training(rng)
    begin = int(0.75 * training.epochs)
    return training.series("weight-averaging-begins", lambda at: training.model / 3 if at.epoch > begin else 0)


def ring_of_predictions(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 90))
    places, size = rng.randint(3, 8), training.model * rng.uniform(0.01, 0.1)
    return training.series("ring-of-predictions", lambda at: size * min(int(at.epochs), places))


def garbage_at_random(rng: Random) -> Series:
    training = Training(rng)
    size, state = training.model * rng.uniform(0.01, 0.1), [0.0]

    def held(at: object) -> float:
        state[0] = 0.0 if rng.random() < 0.25 else state[0] + size * rng.random()
        return state[0]

    return training.series("garbage-at-random", held)


def heavy_tails(rng: Random) -> Series:
    training = Training(rng)
    return training.series("heavy-tailed-spikes", lambda at: training.batch * min(rng.paretovariate(1.2) - 1, 40))


def best_copy(rng: Random) -> Series:
    training = Training(rng)
    begin = rng.randint(1, training.epochs)
    return training.series("copy-of-the-best", lambda at: training.model / 3 if at.epoch >= begin else 0)


def slow_waves(rng: Random) -> Series:
    training = Training(rng)
    size, period = training.model * rng.uniform(0.01, 0.2), rng.uniform(10, 40)
    turn = rng.random()
    return training.series("slow-waves", lambda at: size * math.sin(2 * math.pi * (at.epochs / period + turn)))


def falls(rng: Random) -> Series:
    training = Training(rng)
    return training.series("falls", lambda at: training.model * 0.5 * math.exp(-at.epochs / 10))


def many_fits(rng: Random) -> Series:
    steps, model = rng.randint(10, 500), log_uniform(rng, 4 * MIB, 2048 * MIB)
    loop = [Training(rng, 1, steps, 0, model, model / 50) for _ in range(rng.randint(20, 60))]
    return fits("one-epoch-fits", loop, lambda number, at: 0)


def fits_with_fills(rng: Random) -> Series:
    steps, model = rng.randint(10, 500), log_uniform(rng, 4 * MIB, 2048 * MIB)
    loop = [Training(rng, 5, steps, 0, model, model / 50) for _ in range(rng.randint(3, 10))]
    size = model * rng.uniform(0.1, 0.5)
    return fits("fits-that-warm-up", loop, lambda number, at: size * min(at.epochs / 2, 1))


def walk_slowly(rng: Random) -> Series:
    training = Training(rng)
    state, step = [0.0], training.batch * rng.uniform(0.3, 2)

    def held(at: object) -> float:
        state[0] = 0.93 * state[0] + rng.gauss(0, step)
        return state[0]

    return training.series("slowly-forgetting-noise", held)


def long_epochs_alternate(rng: Random) -> Series:
    training = Training(
        rng, epochs=rng.randint(2, 5), steps=rng.randint(8_000, 20_000), step_seconds=rng.uniform(0.1, 0.4)
    )
    size = training.model * rng.uniform(0.05, 0.5)
    return training.series("long-epochs-sawtooth", lambda at: size * (at.part % 1))


# -- leaks ------------------------------------------------------------------------------------------------------------


def gradients_kept(rng: Random) -> Series:
    training = Training(rng)
    each = training.model * rng.uniform(0.1, 0.5)
    training.limit = training.model + each * training.epochs * 1.5
    return training.series("gradients-kept", lambda at: each * int(at.epochs), leak=True)


def predictions_kept(rng: Random) -> Series:
    training = Training(rng)
    mean, held = training.total() / training.epochs, [0.0]
    for _ in range(training.epochs):
        held.append(held[-1] + mean * rng.gammavariate(2, 0.5))
    return training.series("predictions-of-many-sizes-kept", lambda at: held[int(at.epochs)], leak=True)


def every_other(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 80))
    each = training.total() / (training.epochs // 2)
    return training.series("every-other-epoch", lambda at: each * (int(at.epochs) // 2), leak=True)


def at_random(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 100))
    each, held = training.total() / training.epochs, [0.0]
    for _ in range(training.epochs):
        held.append(held[-1] + each * sum(rng.random() < 0.25 for _ in range(4)))
    return training.series("at-random", lambda at: held[int(at.epochs)], leak=True)


def partly_released(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(40, 100))
    each, held, every = training.total() / training.epochs * 1.4, [0.0], rng.randint(5, 9)
    for epoch in range(1, training.epochs + 1):
        held.append(held[-1] + (each if epoch % every else -each))
    return training.series("partly-released", lambda at: held[int(at.epochs)], leak=True)


def from_fit_to_fit(rng: Random) -> Series:
    steps, model = rng.randint(10, 500), log_uniform(rng, 4 * MIB, 2048 * MIB)
    loop = [Training(rng, 1, steps, 0, model, model / 200) for _ in range(rng.randint(25, 60))]
    each = model * rng.uniform(0.02, 0.3)
    return fits("one-epoch-fits-leak", loop, lambda number, at: each * number, leak=True)


def two_fits(rng: Random) -> Series:
    first, second = Training(rng), Training(rng)
    second.model = first.model
    each = first.total() / first.epochs
    return fits("leak-in-both-fits", [first, second], lambda n, at: each * (at.epochs + n * first.epochs), leak=True)


def behind_heavy_tails(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(30, 100))
    total = max(training.total(), 15 * training.batch)
    return training.series(
        "behind-heavy-tailed-spikes",
        lambda at: total * at.epochs / training.epochs + training.batch * min(rng.paretovariate(1.5) - 1, 20),
        leak=True,
    )


def after_a_warm_up(rng: Random) -> Series:
    training = Training(rng, epochs=rng.randint(25, 80))
    total, size = training.total(), training.model * rng.uniform(0.1, 1)
    return training.series(
        "after-a-warm-up", lambda at: total * at.epochs / training.epochs + size * (1 - math.exp(-at.epochs)), leak=True
    )


def between_steps(rng: Random) -> Series:
    training = Training(
        rng, epochs=rng.randint(1, 4), steps=rng.randint(15_000, 40_000), step_seconds=rng.uniform(0.1, 0.4)
    )
    total = training.total()
    held = [0.0]
    for _ in range(100 * training.epochs):
        held.append(held[-1] + total / 100 / training.epochs * rng.gammavariate(1, 1))
    return training.series("long-epochs-uneven-leak", lambda at: held[int(100 * at.epochs)], leak=True)


HEALTHY: tuple[Callable[[Random], Series], ...] = (
    progressive_resizing, gradual_unfreezing, rotating_copies, buffers_tuned, alternating, averaging_begins,
    ring_of_predictions, garbage_at_random, heavy_tails, best_copy, slow_waves, falls, many_fits, fits_with_fills,
    walk_slowly, long_epochs_alternate,
)  # fmt: skip
LEAKS: tuple[Callable[[Random], Series], ...] = (
    gradients_kept, predictions_kept, every_other, at_random, partly_released, from_fit_to_fit, two_fits,
    behind_heavy_tails, after_a_warm_up, between_steps,
)  # fmt: skip
