"""Uncorrected errors in the memory of a GPU, and rows of it that are replaced. Pure.

Sources: NVML. Any uncorrected error (ECC, volatile counter) since the run began is a finding; those from before are
not. Rows are remapped at the next reset after an uncorrected error; NVIDIA's guide to GPU memory errors says that
programs may go on meanwhile, and that a GPU whose remapping failed is to be replaced. Corrected errors are normal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample
from oomph.monitor.window import Window

FAULTS = ("hardware-fault",)
EVERY = 1.0
_RESET = (
    "Reset the GPU when nothing uses it: sudo nvidia-smi --gpu-reset -i {index}; have it replaced if errors come back"
)


def find(window: Window) -> Iterable[Finding]:
    """The GPUs whose memory has failed."""
    for gpu in window.gpus():
        yield from _uncorrected(window, gpu)
        yield from _rows(window, gpu)


def _uncorrected(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    now = window.latest(gpu.uuid).get("ecc_uncorrected_total", 0.0)
    before = window.first(gpu.uuid).get("ecc_uncorrected_total", 0.0)
    new = now - before if now >= before else now  # the driver was loaded again
    if new <= 0:
        return
    yield Finding(
        "hardware-fault",
        gpu.title,
        f"{new:.0f} uncorrected memory error{'s' * (new > 1)} since the run began: results may be wrong",
        "critical",
        {"new": new, "total": now},
        _RESET.format(index=gpu.index),
        kind="memory error",
    )


def _rows(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    values = window.latest(gpu.uuid)
    if values.get("row_remap_failure"):
        text, remedy = "a row of its memory could not be replaced", "Have the GPU replaced"
        yield Finding("hardware-fault", gpu.title, text, "critical", {}, remedy, kind="row remapping failed")
    elif values.get("row_remap_pending"):
        text = "a failing row of its memory is replaced when it is reset next; until then it can be used"
        remedy = _RESET.format(index=gpu.index)
        yield Finding("hardware-fault", gpu.title, text, "notice", {}, remedy, kind="row remapping pending")
