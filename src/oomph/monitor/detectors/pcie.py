"""A bad PCIe link: transfers that are repeated, or fewer lanes than the GPU and its slot have. Pure.

Sources: NVML. NVIDIA publishes no limit for replays; 60 a minute, in more than one burst, is oomph's own. The highest
width is that of GPU and slot together. It counts while the GPU works: idle links are narrowed, and widen under load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import fmean

from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample
from oomph.monitor.window import Window

FAULTS = ("hardware-fault",)
EVERY = 30.0
_SECONDS = 75.0
_SPAN_SECONDS = 45.0
"""The first and the last reading have to be so far apart."""
_REPLAYS_A_MINUTE = 60.0
_BURSTS = 3
_BUSY = 0.5
_READINGS = 5
_REMEDY = "Check the seat of the card, its slot and any riser cable; a restart trains the link anew"


def find(window: Window) -> Iterable[Finding]:
    """The GPUs whose link is bad."""
    for gpu in window.gpus():
        yield from _replays(window, gpu)
        yield from _narrow(window, gpu)


def _replays(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    series = window.series(gpu.uuid, "pcie_replays_total", _SECONDS)
    if not series or series[-1][0] - series[0][0] < _SPAN_SECONDS:
        return
    risen = sum(after > before for (_, before), (_, after) in pairwise(series))
    rate = (series[-1][1] - series[0][1]) / (series[-1][0] - series[0][0]) * 60
    if rate >= _REPLAYS_A_MINUTE and risen >= _BURSTS:
        text = f"{rate:.0f} PCIe transfers a minute are repeated: the link to the GPU is disturbed"
        evidence = {"replays_a_minute": rate}
        yield Finding("hardware-fault", gpu.title, text, "warning", evidence, _REMEDY, kind="PCIe replays")


def _narrow(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    most = window.latest(gpu.uuid).get("pcie_width_max", 0.0)
    if window.latest(gpu.uuid).get("pcie_width", most) >= most:
        return
    widths = [width for _, width in window.series(gpu.uuid, "pcie_width", _SECONDS)]
    use = [share for _, share in window.series(gpu.uuid, "utilization_ratio", _SECONDS)]
    if len(widths) >= _READINGS and max(widths) < most and use and fmean(use) >= _BUSY:
        text = (
            f"{max(widths):.0f} of {most:.0f} PCIe lanes are in use under load: copies to and from the GPU are slower"
        )
        evidence = {"width": max(widths), "width_max": most}
        yield Finding("hardware-fault", gpu.title, text, "warning", evidence, _REMEDY, kind="PCIe width")
