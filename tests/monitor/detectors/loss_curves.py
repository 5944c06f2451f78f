"""Synthetic loss curves, one reading a second for half an hour: many kinds of healthy ones, some with a jump."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

Curve = list[float]
SECONDS = 1800


def _decay(now: int, start: float, end: float, pace: float) -> float:
    return end + (start - end) * math.exp(-now / pace)


def _kinds() -> dict[str, Callable[[random.Random], Callable[[int], float]]]:
    def smooth(r: random.Random) -> Callable[[int], float]:
        pace = r.uniform(100, 3000)
        return lambda now: _decay(now, 2.3, 0.1, pace) * r.gauss(1, 0.03)

    def noisy(r: random.Random) -> Callable[[int], float]:
        pace, width = r.uniform(100, 3000), r.uniform(0.1, 0.4)
        return lambda now: _decay(now, 2.3, 0.3, pace) * max(0.05, r.gauss(1, width))

    def lognormal(r: random.Random) -> Callable[[int], float]:
        width = r.uniform(0.3, 1.0)
        return lambda now: _decay(now, 2.3, 0.1, 600) * r.lognormvariate(0, width)

    def heavy_tailed(r: random.Random) -> Callable[[int], float]:
        return lambda now: _decay(now, 3.0, 0.5, 400) + 0.1 * abs(r.gauss(0, 1) / max(0.3, abs(r.gauss(0, 1))))

    def warm_restarts(r: random.Random) -> Callable[[int], float]:
        length, low = r.randint(200, 900), r.choice([0.3, 0.05, 0.005])

        def at(now: int) -> float:
            rate = 0.5 * (1 + math.cos(math.pi * (now % length) / length))
            first = _decay(now, 2.3, 0.0, 60)
            return (low + r.uniform(0.9, 1.1) * rate * min(0.6, 20 * low) + first) * r.gauss(1, 0.05)

        return at

    def rate_drops(r: random.Random) -> Callable[[int], float]:
        drops = sorted(r.sample(range(200, 1700), 3))
        return lambda now: 2.0 * 0.4 ** sum(now > drop for drop in drops) * r.gauss(1, 0.05)

    def cyclic_rates(r: random.Random) -> Callable[[int], float]:
        length = r.randint(60, 400)
        return lambda now: (0.3 + 0.2 * abs(2 * (now % length) / length - 1)) * r.gauss(1, 0.05)

    def sorted_data(r: random.Random) -> Callable[[int], float]:
        epoch = r.randint(20, 50)
        return lambda now: _decay(now, 2.3, 0.2, 500) * (3 if now % epoch < 3 else 1) * r.gauss(1, 0.05)

    def adversarial(r: random.Random) -> Callable[[int], float]:
        state = [0.7]

        def at(now: int) -> float:
            state[0] = max(0.1, 0.95 * state[0] + 0.05 * 0.7 + r.gauss(0, 0.08))
            return state[0]

        return at

    def negative(r: random.Random) -> Callable[[int], float]:
        return lambda now: _decay(now, 100, -50, 300) + r.gauss(0, 5)

    def hard_batches(r: random.Random) -> Callable[[int], float]:
        return lambda now: 0.2 * r.gauss(1, 0.1) * (r.uniform(2, 4) if r.random() < 0.01 else 1)

    def rewards(r: random.Random) -> Callable[[int], float]:
        return lambda now: r.expovariate(1.0) * (1 + 0.5 * math.sin(now / 300))

    def memorised(r: random.Random) -> Callable[[int], float]:
        return lambda now: _decay(now, 1.0, 1e-4, 120) * r.lognormvariate(0, 0.5)

    return {name: kind for name, kind in locals().items() if callable(kind)}


HEALTHY = _kinds()


def healthy(kind: str, seed: int) -> Curve:
    """Return a curve without any problem."""
    level = HEALTHY[kind](random.Random(f"{kind} {seed}"))
    return [level(now) for now in range(SECONDS)]


def with_spike(kind: str, seed: int, times: float) -> Curve:
    """Return the curve with a jump to a multiple of the highest value in ten minutes, for one to four readings."""
    r, curve = random.Random(seed), healthy(kind, seed)
    at, width = r.randint(700, SECONDS - 100), r.randint(1, 4)
    high = times * max(map(abs, curve[at - 600 : at]))
    return [*curve[:at], *([high] * width), *curve[at + width :]]


def diverging(kind: str, seed: int) -> Curve:
    """Return the curve, growing by a tenth with each reading at the end."""
    r, curve = random.Random(seed), healthy(kind, seed)
    at = r.randint(700, SECONDS - 200)
    return [*curve[:at], *(curve[at] + max(map(abs, curve)) * 0.01 * 1.1**n for n in range(SECONDS - at))]
