"""Detects GPU faults reported by the driver, and a driver that stops answering. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oomph.explain.catalogue.xid import catalogue
from oomph.monitor.detector import detector
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuEvent, GpuSample
from oomph.monitor.window import Window

_PAGES_OF_XID = {8: "kernel-timeout", 13: "illegal-memory-access", 31: "illegal-memory-access"}
_FALLEN_OFF_THE_BUS = 79
_XID_THAT_FOLLOWS = {43, 45}
"""Xids that merely follow from a different error, or from killing a process."""
_OTHER_EVENTS = {
    "ecc-double-bit": ("an uncorrected memory error: results may be wrong", "memory error"),
    "unavailable": ("the driver has taken it out of service", "unavailable"),
}


@detector("hardware-fault", "illegal-memory-access", "kernel-timeout", every=0.0)  # an event appears in one sample only
def driver_events(window: Window) -> Iterable[Finding]:
    """Events that the driver reports for a GPU as they occur, mainly Xid errors.

    Source: NVIDIA's Xid catalogue (`explain/catalogue/xid.csv`) gives the name and the immediate action for each Xid.
    Xids that it says to ignore are notices. Xids caused by a program's own faults are reported under the pages of those
    faults.
    """
    for gpu in window.newest.gpus:
        for event in gpu.events:
            if event.kind == "xid":
                yield _xid(gpu, event)
            elif event.kind in _OTHER_EVENTS:
                text, kind = _OTHER_EVENTS[event.kind]
                yield Finding("hardware-fault", gpu.title, text, "critical", {"source": event.source}, kind=kind)


def _xid(gpu: GpuSample, event: GpuEvent) -> Finding:
    code, row = event.code, catalogue().get(event.code)
    name = "" if row is None else f" ({row.mnemonic})"
    action = "" if row is None else row.action
    is_harmless = code in _XID_THAT_FOLLOWS or (row is not None and row.immediate == "IGNORE")
    return Finding(
        _PAGES_OF_XID.get(code, "hardware-fault"),
        gpu.title,
        f"the driver reports Xid {code}{name}",
        "notice" if is_harmless else "critical" if row is not None else "warning",
        {"xid": code, "source": event.source, "text": event.text},
        f"NVIDIA's catalogue says: {action}" if action else "",
        kind="lost" if code == _FALLEN_OFF_THE_BUS else f"xid {code}",
    )


_LOST_REMEDY = "Power-cycle or restart the machine; then check the power, temperature and seating of the GPU"


@detector("hardware-fault", every=0.0)
def gpu_lost(window: Window) -> Iterable[Finding]:
    """A GPU that the driver has lost.

    Source: NVML reports that the GPU is lost or needs a reset. Xid 79 means the same; whichever comes first is
    reported.
    """
    for gpu in window.newest.gpus:
        if gpu.is_lost:
            yield Finding(
                "hardware-fault",
                gpu.title,
                f"it no longer responds: {gpu.problem}",
                "critical",
                {"problem": gpu.problem},
                _LOST_REMEDY,
                kind="lost",
            )


_SILENT = "no answer"
_SILENT_REMEDY = (
    "Check whether nvidia-smi responds, and check the kernel log (sudo dmesg | grep -iE 'xid|nvrm|blocked'); "
    "processes that are waiting for the driver exit only when the machine restarts"
)


@detector("driver-silent", every=0.0)
def driver_silent(window: Window) -> Iterable[Finding]:
    """A driver that has stopped answering: a call does not return, or NVML is no longer available.

    Threshold: 3 s, as in the sampler; NVML normally answers within milliseconds. If NVML has never answered on this
    machine, there is no finding.
    """
    sample = window.newest
    silent = [gpu for gpu in sample.gpus if gpu.problem.startswith(_SILENT)]
    for gpu in silent:
        text = f"the driver is not responding: {gpu.problem}"
        yield Finding("driver-silent", gpu.title, text, "critical", {"problem": gpu.problem}, _SILENT_REMEDY)
    problem = sample.problems.get("nvml", "")
    if problem and not silent and not any(gpu.values for gpu in sample.gpus) and window.has_seen_gpus:
        text = f"it has stopped responding: {problem}"
        yield Finding("driver-silent", "NVIDIA driver", text, "critical", {"problem": problem}, _SILENT_REMEDY)


_RESET = "Reset the GPU when it is not in use: sudo nvidia-smi --gpu-reset -i {index}; have it replaced if errors recur"


@detector("hardware-fault", every=1.0)
def memory_errors(window: Window) -> Iterable[Finding]:
    """Uncorrected memory errors on a GPU, and memory rows that need replacing.

    Source: NVML. Any uncorrected error (ECC, volatile counter) since the run began is a finding; earlier ones are not.
    After an uncorrected error, rows are remapped at the next reset. According to NVIDIA's guide to GPU memory errors,
    programs may continue until then, and a GPU whose remapping failed must be replaced. Corrected errors are normal.
    """
    for gpu in window.gpus():
        yield from _uncorrected(window, gpu)
        yield from _remapped_rows(window, gpu)


def _uncorrected(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    now = window.latest(gpu.uuid).get("ecc_uncorrected_total", 0.0)
    before = window.first(gpu.uuid).get("ecc_uncorrected_total", 0.0)
    new = now - before if now >= before else now  # otherwise, the driver was reloaded
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


def _remapped_rows(window: Window, gpu: GpuSample) -> Iterator[Finding]:
    values = window.latest(gpu.uuid)
    if values.get("row_remap_failure"):
        text, remedy = "a failing memory row could not be replaced", "Have the GPU replaced"
        yield Finding("hardware-fault", gpu.title, text, "critical", {}, remedy, kind="row remapping failed")
    elif values.get("row_remap_pending"):
        text = "a failing memory row will be replaced at the next reset; the GPU can be used until then"
        remedy = _RESET.format(index=gpu.index)
        yield Finding("hardware-fault", gpu.title, text, "notice", {}, remedy, kind="row remapping pending")


_ACTIONS = {
    1: "reset the GPU",
    2: "restart the machine",
    3: "stop the programs that exchange data between this GPU and others",
    4: "stop the programs that exchange data between this GPU and others, and reset it",
    5: "recover the IMEX domain",
    6: "reset the GPU's PCIe bus",
    7: "restart the machine",
}


@detector("hardware-fault", every=1.0)
def recovery_action(window: Window) -> Iterable[Finding]:
    """The action that NVML recommends for a GPU.

    Source: NVML's GPU recovery action (field 230, nvmlDeviceGpuRecoveryAction_t). Any action other than "none" is a
    finding.
    """
    for gpu in window.gpus():
        code = int(window.latest(gpu.uuid).get("recovery_action", 0.0))
        if code:
            action = _ACTIONS.get(code, f"recovery action {code}")
            text = f"the driver recommends: {action}"
            evidence = {"recovery_action": code}
            yield Finding(
                "hardware-fault",
                gpu.title,
                text,
                "critical",
                evidence,
                action[0].upper() + action[1:],
                kind=f"advice {code}",
            )
