"""Strips: the values that the live view shows with a bar, a figure and a curve, and how good each of them is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

from oomph.terminal.amounts import as_size
from oomph.watch import wording
from oomph.watch.history import Fold, Series
from oomph.watch.job import Job
from oomph.watch.view import CHARTED, GpuView, View

GOOD, DOUBTFUL, BAD, NEUTRAL = "green", "yellow", "bold red", "cyan"
Level = Callable[[float], str]
"""Returns the style of a share of the scale, from 0 to 1."""


def _levels(doubtful: float, bad: float) -> Level:
    return lambda share: BAD if share >= bad else DOUBTFUL if share >= doubtful else GOOD


def neutral(share: float) -> str:
    """Return the style of a value that is neither good nor bad."""
    return NEUTRAL


MEMORY = _levels(0.9, 0.98)
_HEAT = _levels(0.94, 1.0)
"""The levels of a temperature. The scale ends at the temperature at which the GPU slows down."""
_WAIT = _levels(0.05, 0.2)
"""The levels of the input wait: the limits of the finding `input-pipeline`."""


@dataclass(frozen=True)
class Strip:
    """A value to show."""

    label: str
    figure: str
    points: Series = ()
    value: float | None = None
    """The length of the bar, or None for no bar."""
    full: float | None = None
    """The end of the scale, or None to let the curve fill its height."""
    unit: Callable[[float], str] = "{:.3g}".format
    """Formats the ends of the scale."""
    level: Level = neutral
    peak: float | None = None
    fold: Fold = fmean
    from_zero: bool = True
    """False for a scale that begins at the lowest value shown."""

    @property
    def share(self) -> float | None:
        """The value as a share of the scale, or None if there is no bar."""
        return self.value / self.full if self.value is not None and self.full else None

    @property
    def style(self) -> str:
        """The style of the figure."""
        return "" if self.share is None or self.level is neutral else self.level(self.share)


def strips_of_job(job: Job) -> list[Strip]:
    """Return the strips of a run. What was not measured has none."""
    return [strip for strip in _of_job(job) if strip.points]


def _of_job(job: Job) -> Iterator[Strip]:
    past, held = job.history, job.training
    speed, label = "samples_per_second", "samples/s"
    if speed not in past:  # as in a loop of the script's own
        speed, label = "steps_per_second", "steps/s"
    yield Strip(label, wording.speed(job.newest(speed)), past.get(speed, ()), unit=wording.speed)
    loss = wording.loss(job.newest("loss"))
    yield Strip("loss", loss, past.get("loss", ()), unit="{:.2g}".format, from_zero=False)
    wait = job.newest("input_wait_ratio")
    figure = wording.percent(wait)
    yield Strip("input wait", figure, past.get("input_wait_ratio", ()), wait, 1.0, wording.percent, _WAIT)
    pool, limit, peak = (held.get(f"allocator_{each}_bytes") for each in ("in_use", "limit", "peak"))
    figure = wording.pool(pool, peak)
    yield Strip("TF pool", figure, past.get("pool", ()), pool, limit, as_size, MEMORY, peak, max)
    figure = wording.size(job.newest("resident_bytes"))
    yield Strip("script RSS", figure, past.get("resident_bytes", ()), unit=as_size, fold=max)
    yield Strip("script CPU", wording.cores(job.newest("cpu_cores")), past.get("cpu_cores", ()))


def strips_of_host(view: View) -> list[Strip]:
    """Return the strips of the machine. What was not measured has none."""
    now, past = view.host, view.host_history
    used, total, busy = (now.get(key) for key in ("memory_used_bytes", "memory_total_bytes", "cpu_ratio"))
    filled = past.get("memory_used_bytes", ())
    found = (
        Strip("host RAM", wording.memory(now), filled, used, total, as_size, MEMORY, fold=max),
        Strip("host CPU", wording.percent(busy), past.get("cpu_ratio", ()), busy, 1.0, wording.percent),
    )
    return [strip for strip in found if strip.points]


def strips_of_gpu(gpu: GpuView) -> list[Strip]:
    """Return the strips of a GPU, in the order of `CHARTED`: memory, utilization, temperature, power."""
    now, past = gpu.values, gpu.history
    memory, use, heat, power = (now.get(key) for key in CHARTED)
    filled, busy, warm, drawn = (past.get(key, ()) for key in CHARTED)
    in_memory, in_use, in_heat, in_power = wording.figures(now)
    hot = now.get("temperature_slowdown_celsius")
    level = neutral if hot is None else _HEAT
    return [
        Strip("memory", in_memory, filled, memory, now.get("memory_total_bytes"), as_size, MEMORY, fold=max),
        Strip("use", in_use, busy, use, 1.0, wording.percent),
        Strip("temp", in_heat, warm, heat, hot or _WARM, wording.celsius, level, fold=max),
        Strip("power", in_power, drawn, power, now.get("power_limit_watts"), wording.watts),
    ]


_WARM = 100.0
"""The end of the scale of temperatures, in °C, if it is not known when the GPU slows down."""
