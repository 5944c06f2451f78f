"""Memory errors of a GPU, or a GPU that the driver has lost."""

from oomph.doctor.check import Check, Finding, failed, passed, skipped, warned
from oomph.doctor.snapshot import NvmlDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_RESET = Remedy("End the processes that use it, then reset it (or reboot)", "sudo nvidia-smi --gpu-reset -i {index}")
_REPLACE = Remedy("Take it out of use and have it replaced", "nvidia-smi -q -d ROW_REMAPPER,ECC -i {index}")


def _look(snapshot: Snapshot) -> Finding:
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to ask")
    for device in devices:
        fatal = _fatal(device)
        if fatal:
            return failed(
                "hardware-fault", f"GPU {device.index} ({device.name}): {fatal}.", *_for(device, _RESET, _REPLACE)
            )
    for device in devices:
        pending = _pending(device)
        if pending:
            return warned("hardware-fault", f"GPU {device.index} ({device.name}): {pending}.", *_for(device, _RESET))
    return passed("no memory errors")


def _fatal(device: NvmlDevice) -> str:
    if device.lost:
        return f"the driver has lost it ({device.lost})"
    if device.remapped_rows and device.remapped_rows[3]:
        return "a bad memory row could not be replaced: no spare row is left"
    if device.ecc_uncorrected:
        return f"{device.ecc_uncorrected} memory errors could not be corrected since the driver was loaded"
    return ""


def _pending(device: NvmlDevice) -> str:
    if device.remapped_rows and device.remapped_rows[2]:
        return "a bad memory row will be replaced at the next reset"
    return "a bad memory page will be retired at the next reboot" if device.retired_pending else ""


def _for(device: NvmlDevice, *remedies: Remedy) -> tuple[Remedy, ...]:
    return tuple(Remedy(each.text, each.command.format(index=device.index)) for each in remedies)


CHECK = Check(
    code="DOC504",
    name="gpu-health",
    why=(
        "Uncorrected errors kill processes (Xid 48, 63, 64, 94, 95) or corrupt values; a reset puts the spare rows in"
        " place."
    ),
    look=_look,
    faults=("hardware-fault",),
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
)
