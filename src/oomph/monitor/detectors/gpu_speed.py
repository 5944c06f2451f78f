"""Detects GPUs that are slower than they could be: heat, power, the link, or one GPU that holds up the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import pairwise
from operator import or_
from statistics import fmean, median
from typing import NamedTuple

from oomph.monitor.detector import detector
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample
from oomph.monitor.window import Window

_BUSY = 0.5
"""The utilization, from 0 to 1, at or above which a GPU counts as working."""
_HOT_SECONDS = 2.0
"""The time, in seconds, that a GPU must stay at its limit before it is reported."""
_SHUTDOWN_CELSIUS = 2.0


@detector("thermal-throttle", every=2.0)
def temperature(window: Window) -> Iterable[Finding]:
    """A GPU that has reached its temperature limit.

    Threshold: the temperature at which the GPU slows itself down, as reported by NVML (the T.Limit fields, or
    nvmlDeviceGetTemperatureThreshold). If NVML reports none, there is no finding. Critical within 2 °C of the shutdown
    temperature.
    """
    for gpu in window.gpus():
        limits = window.latest(gpu.uuid)
        slowdown = limits.get("temperature_slowdown_celsius")
        if slowdown is None or gpu.values.get("temperature_celsius", 0.0) < slowdown:
            continue
        coolest = min(celsius for _, celsius in window.series(gpu.uuid, "temperature_celsius", _HOT_SECONDS))
        if coolest >= slowdown:
            yield _too_hot(gpu, slowdown, limits.get("temperature_shutdown_celsius"))


def _too_hot(gpu: GpuSample, slowdown: float, shutdown: float | None) -> Finding:
    celsius = gpu.values["temperature_celsius"]
    is_last = shutdown is not None and celsius >= shutdown - _SHUTDOWN_CELSIUS
    then = "" if shutdown is None else f", and shuts down at {shutdown:.0f} °C"
    return Finding(
        "thermal-throttle",
        gpu.title,
        f"{celsius:.0f} °C: this GPU slows down at {slowdown:.0f} °C{then}",
        "critical" if is_last else "warning",
        {"celsius": celsius, "slowdown_celsius": slowdown, "shutdown_celsius": shutdown},
        kind="near shutdown" if is_last else "temperature",
    )


_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
_BITS = _HW_SLOWDOWN | _SW_THERMAL | _HW_THERMAL | _POWER_BRAKE
_SLOWED_SECONDS = 60.0
_SLOWED_SAMPLES = 5
"""The minimum number of slowed-down samples in that time."""
_FREE_SECONDS = 120.0
"""The time to look back, in seconds, for the clock when the GPU was not slowed down."""
_WORKING = 0.1
_SLIGHT = 0.1
_CAUSES = {"heat": "heat", "power brake": "the power brake", "slowdown": "its hardware"}
_REMEDIES = {
    "heat": "Cool the GPU (clean filters and fans, leave space between cards), or lower the power limit",
    "power brake": "Check the power supply and the GPU's power cables: the power brake signals insufficient power",
    "slowdown": "Check which limit applies: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
}


@detector("thermal-throttle", every=1.0)
def throttling(window: Window) -> Iterable[Finding]:
    """A GPU that runs at reduced clocks because of heat or its power supply, and the cost of that.

    Source: NVML's clocks event reasons. HW slowdown (0x8), HW thermal (0x40) and HW power brake (0x80) cut the clock to
    half or less; SW thermal (0x20) keeps the GPU below its temperature limit. According to NVIDIA's documentation, HW
    slowdown may also appear briefly when clocks change, so a finding requires 5 seconds out of the last 60, or 8 %
    (oomph's own). The SW power cap (0x4) is normal at full load and is not a finding. If less than 10 % of the clock is
    lost, the finding is a notice.
    """
    for gpu in window.gpus():
        if _reasons(gpu.values):
            slowed = [values for values in _while_working(window, gpu, _SLOWED_SECONDS) if _reasons(values)]
            if len(slowed) >= _SLOWED_SAMPLES:
                yield _slowed(gpu, slowed, _seconds_seen(window), _free_clock(window, gpu))


def _reasons(values: Mapping[str, float]) -> int:
    return int(values.get("clocks_event_reasons", 0.0)) & _BITS


def _while_working(window: Window, gpu: GpuSample, seconds: float) -> Iterator[Mapping[str, float]]:
    """Yield a GPU's values at times when it was working, or may have been."""
    found = (values for _, values in window.values(gpu.uuid, seconds))
    return (values for values in found if values.get("utilization_ratio", 1.0) >= _WORKING)


def _seconds_seen(window: Window) -> float:
    return max(min(_SLOWED_SECONDS, window.newest.time - window.ago(_SLOWED_SECONDS).time), 1.0)


def _free_clock(window: Window, gpu: GpuSample) -> float | None:
    """Return the GPU's clock, in hertz, under load when nothing slows it down, or its maximum clock if not observed."""
    clocks = [
        values["sm_clock_hertz"]
        for values in _while_working(window, gpu, _FREE_SECONDS)
        if not _reasons(values) and "sm_clock_hertz" in values
    ]
    return median(clocks) if len(clocks) >= _SLOWED_SAMPLES else window.latest(gpu.uuid).get("sm_clock_max_hertz")


def _slowed(gpu: GpuSample, slowed: list[Mapping[str, float]], seconds: float, free: float | None) -> Finding:
    bits = [_reasons(values) for values in slowed]
    kind = _cause(bits)
    clocks = [values["sm_clock_hertz"] for values in slowed if "sm_clock_hertz" in values]
    lost = 1 - fmean(clocks) / free if clocks and free else None
    costs = "" if lost is None else f", costing {max(lost, 0.0):.0%} of its clock speed"
    return Finding(
        "thermal-throttle",
        gpu.title,
        f"slowed down by {_CAUSES[kind]} for {len(slowed)} of the last {seconds:.0f} s{costs}",
        "notice" if lost is not None and lost < _SLIGHT else "warning",
        {"seconds": len(slowed), "of_seconds": seconds, "clock_lost_ratio": lost, "reasons": hex(reduce(or_, bits))},
        _REMEDIES[kind],
        kind=kind,
    )


def _cause(bits: list[int]) -> str:
    seen = reduce(or_, bits)
    return "heat" if seen & (_SW_THERMAL | _HW_THERMAL) else "power brake" if seen & _POWER_BRAKE else "slowdown"


_LINK_SECONDS = 75.0
_LINK_SPAN_SECONDS = 45.0
"""The minimum time, in seconds, between the first and last readings."""
_REPLAYS_A_MINUTE = 60.0
_BURSTS = 3
_LINK_READINGS = 5
_LINK_REMEDY = "Check the seating of the card, its slot and any riser cable; a restart retrains the link"


@detector("hardware-fault", every=30.0)
def pcie(window: Window) -> Iterable[Finding]:
    """A bad PCIe link: repeated transfers, or fewer lanes than the GPU and its slot support.

    Source: NVML. NVIDIA does not publish a limit for replays; 60 a minute, in at least three bursts, is oomph's own.
    The maximum width is what the GPU and its slot both support. The width counts only while the GPU is working, since
    links are narrowed when idle and widened under load.
    """
    for gpu in window.gpus():
        yield from _replays(window, gpu)
        yield from _narrow(window, gpu)


def _replays(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    series = window.series(gpu.uuid, "pcie_replays_total", _LINK_SECONDS)
    if not series or series[-1][0] - series[0][0] < _LINK_SPAN_SECONDS:
        return
    risen = sum(after > before for (_, before), (_, after) in pairwise(series))
    rate = (series[-1][1] - series[0][1]) / (series[-1][0] - series[0][0]) * 60
    if rate >= _REPLAYS_A_MINUTE and risen >= _BURSTS:
        text = f"{rate:.0f} PCIe transfers a minute have to be retried: the link to the GPU is unreliable"
        evidence = {"replays_a_minute": rate}
        yield Finding("hardware-fault", gpu.title, text, "warning", evidence, _LINK_REMEDY, kind="PCIe replays")


def _narrow(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    most = window.latest(gpu.uuid).get("pcie_width_max", 0.0)
    if window.latest(gpu.uuid).get("pcie_width", most) >= most:
        return
    widths = [width for _, width in window.series(gpu.uuid, "pcie_width", _LINK_SECONDS)]
    use = [share for _, share in window.series(gpu.uuid, "utilization_ratio", _LINK_SECONDS)]
    if len(widths) >= _LINK_READINGS and max(widths) < most and use and fmean(use) >= _BUSY:
        text = f"{max(widths):.0f} of {most:.0f} PCIe lanes are used under load, which slows copies to and from the GPU"
        evidence = {"width": max(widths), "width_max": most}
        yield Finding("hardware-fault", gpu.title, text, "warning", evidence, _LINK_REMEDY, kind="PCIe width")


_PACE_SECONDS = 300.0
_PACE_SAMPLES = 240
_SLOW_CLOCK, _LITTLE_USE = 0.8, 0.5
_AGREEING = 3
_PACE_REMEDY = "Compare the GPUs: nvidia-smi -q -d PERFORMANCE,CLOCK; the slowest one sets the pace for all"


class _Pace(NamedTuple):
    """The pace of a GPU over the last few minutes."""

    gpu: GpuSample
    use: float
    clock: float


@detector("straggler", every=120.0)
def straggler(window: Window) -> Iterable[Finding]:
    """A GPU that is far slower than the others in the same training.

    Thresholds: a clock below 80 % of the others' median, or use below half of it, over 5 minutes in which the others
    are working, all oomph's own. Only GPUs on which the script has a process are compared. There must be at least
    three, so that the others can agree, or two whose clocks can be compared.
    """
    paces = [pace for gpu in _own(window) if (pace := _pace(window, gpu)) is not None]
    for pace in paces:
        others = [other for other in paces if other is not pace]
        if others and median(other.use for other in others) >= _BUSY:
            yield from _behind(pace, others)


def _own(window: Window) -> list[GpuSample]:
    """Return the GPUs on which the script has a process, as of the last reading of their processes."""
    last: dict[str, GpuSample] = {}
    for sample in window.last(_PACE_SECONDS):
        last |= {gpu.uuid: gpu for gpu in sample.gpus if gpu.processes is not None}
    return [gpu for gpu in last.values() if any(process.own for process in gpu.processes or ())]


def _pace(window: Window, gpu: GpuSample) -> _Pace | None:
    seen = [values for _, values in window.values(gpu.uuid, _PACE_SECONDS) if "utilization_ratio" in values]
    clocks = [values["sm_clock_hertz"] for values in seen if "sm_clock_hertz" in values]
    if len(seen) < _PACE_SAMPLES:
        return None
    return _Pace(gpu, fmean(values["utilization_ratio"] for values in seen), fmean(clocks) if clocks else 0.0)


def _behind(pace: _Pace, others: list[_Pace]) -> Iterator[Finding]:
    clock, use = median(other.clock for other in others), median(other.use for other in others)
    if pace.use >= _BUSY and 0 < pace.clock < _SLOW_CLOCK * clock:
        text = f"it runs at {pace.clock / 1e6:.0f} MHz; the others run at {clock / 1e6:.0f} MHz and have to wait for it"
        evidence = {"clock_hertz": pace.clock, "others_hertz": clock}
        yield Finding("straggler", pace.gpu.title, text, "warning", evidence, _PACE_REMEDY, kind="clock")
    elif len(others) + 1 >= _AGREEING and pace.use < _LITTLE_USE * use:
        text = f"it is busy {pace.use:.0%} of the time; the others are busy {use:.0%}"
        evidence = {"utilization_ratio": pace.use, "others_ratio": use}
        yield Finding("straggler", pace.gpu.title, text, "notice", evidence, _PACE_REMEDY, kind="use")
