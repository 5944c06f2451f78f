"""A GPU that works with lowered clocks because of heat or of its power supply, and what that costs. Pure.

Source: NVML's clocks event reasons. HW slowdown (0x8), HW thermal (0x40) and HW power brake (0x80) cut the clock to a
half or less; SW thermal (0x20) keeps the GPU below its temperature limit. Their documentation says that HW slowdown
may also appear for a moment when clocks change, so a finding needs 5 seconds of the last 60, a share of 8 % (oomph's
own). The SW power cap (0x4) is normal at full load, and no finding. Less than 10 % of the clock lost is a notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean, median

from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample
from oomph.monitor.window import Window

FAULTS = ("thermal-throttle",)
EVERY = 1.0
_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
_BITS = _HW_SLOWDOWN | _SW_THERMAL | _HW_THERMAL | _POWER_BRAKE
_SECONDS = 60.0
_LEAST = 5
"""Samples with such a bit in these seconds."""
_FREE_SECONDS = 120.0
"""Where the clock without such a bit is looked for."""
_BUSY = 0.1
_SLIGHT = 0.1
_WORDS = {"heat": "heat", "power brake": "the brake of its power supply", "slowdown": "its hardware"}
_REMEDIES = {
    "heat": "Cool the GPU: clean filters and fans, leave room between cards; or lower the power limit",
    "power brake": "Check the power supply and the power cables of the GPU: the brake says that power is short",
    "slowdown": "See which limit applies: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
}


def find(window: Window) -> Iterable[Finding]:
    """The GPUs that are slowed down now and were so for a while."""
    for gpu in window.gpus():
        if _reasons(gpu.values):
            slowed = [values for values in _busy(window, gpu, _SECONDS) if _reasons(values)]
            if len(slowed) >= _LEAST:
                yield _finding(gpu, slowed, _seconds(window), _free_clock(window, gpu))


def _reasons(values: Mapping[str, float]) -> int:
    return int(values.get("clocks_event_reasons", 0.0)) & _BITS


def _busy(window: Window, gpu: GpuSample, seconds: float) -> Iterator[Mapping[str, float]]:
    """The values of a GPU while it works, or may work."""
    found = (values for _, values in window.values(gpu.uuid, seconds))
    return (values for values in found if values.get("utilization_ratio", 1.0) >= _BUSY)


def _seconds(window: Window) -> float:
    return max(min(_SECONDS, window.newest.time - window.ago(_SECONDS).time), 1.0)


def _free_clock(window: Window, gpu: GpuSample) -> float | None:
    """The clock at which it works when nothing slows it; its highest one if that was not seen."""
    clocks = [
        values["sm_clock_hertz"]
        for values in _busy(window, gpu, _FREE_SECONDS)
        if not _reasons(values) and "sm_clock_hertz" in values
    ]
    return median(clocks) if len(clocks) >= _LEAST else window.latest(gpu.uuid).get("sm_clock_max_hertz")


def _finding(gpu: GpuSample, slowed: list[Mapping[str, float]], seconds: float, free: float | None) -> Finding:
    bits = [_reasons(values) for values in slowed]
    kind = _kind(bits)
    clocks = [values["sm_clock_hertz"] for values in slowed if "sm_clock_hertz" in values]
    lost = 1 - fmean(clocks) / free if clocks and free else None
    costs = "" if lost is None else f", which costs {max(lost, 0.0):.0%} of its clock"
    return Finding(
        "thermal-throttle",
        gpu.title,
        f"slowed down by {_WORDS[kind]} in {len(slowed)} of the last {seconds:.0f} s{costs}",
        "notice" if lost is not None and lost < _SLIGHT else "warning",
        {"seconds": len(slowed), "of_seconds": seconds, "clock_lost_ratio": lost, "reasons": hex(_all(bits))},
        _REMEDIES[kind],
        kind=kind,
    )


def _kind(bits: list[int]) -> str:
    seen = _all(bits)
    return "heat" if seen & (_SW_THERMAL | _HW_THERMAL) else "power brake" if seen & _POWER_BRAKE else "slowdown"


def _all(bits: list[int]) -> int:
    seen = 0
    for each in bits:
        seen |= each
    return seen
