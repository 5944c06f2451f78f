"""GPU memory that other processes hold."""

from oomph.doctor.check import Check, Finding, blind, failed, passed, skipped, warned
from oomph.doctor.snapshot import NvmlDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_MUCH, _NEARLY_ALL = 0.2, 0.95
"""Shares of a GPU's memory: a desktop holds a few per cent of it."""


def _look(snapshot: Snapshot) -> Finding:
    devices = [device for device in snapshot.visible if device.total_bytes and device.used_bytes is not None]
    if not snapshot.nvml.devices:
        return skipped("no GPU to ask")
    if not devices:
        return blind("NVML does not report how much memory is in use")
    taken = [device for device in devices if _share(device) > _MUCH]
    if not taken:
        free = ", ".join(f"{_gib(device.free_bytes)} of {_gib(device.total_bytes)} free" for device in devices)
        return passed(f"GPU memory: {free}")
    text = "; ".join(_described(device) for device in taken)
    finding = failed if all(_share(device) > _NEARLY_ALL for device in devices) else warned
    return finding(
        "device-oom-other-process", f"Other processes hold GPU memory: {text}.", *_remedies(snapshot, taken, devices)
    )


def _share(device: NvmlDevice) -> float:
    return (device.used_bytes or 0) / (device.total_bytes or 1)


def _described(device: NvmlDevice) -> str:
    held = [f"{p.pid} {p.name}".strip() for p in device.processes or ()]
    who = f" by {', '.join(held[:4])}" if held else " by processes that cannot be seen from here"
    return (
        f"GPU {device.index} has {_gib(device.free_bytes)} of {_gib(device.total_bytes)} free,"
        f" {_gib(device.used_bytes)} held{who}"
    )


def _remedies(snapshot: Snapshot, taken: list[NvmlDevice], devices: list[NvmlDevice]) -> tuple[Remedy, ...]:
    found: list[Remedy] = []
    free = [device for device in devices if device not in taken]
    if free:
        numbers = ",".join(str(device.index) for device in free)
        found.append(Remedy("Use the free ones", f"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={numbers}"))
    pids = [str(p.pid) for device in taken for p in device.processes or ()]
    if pids:
        found.append(Remedy("End what is no longer needed; see what it is first", f"ps -fp {','.join(pids)}"))
    else:
        found.append(Remedy("See what holds it, on the host if this is a container", "sudo fuser -v /dev/nvidia*"))
    grow = Remedy(
        "Or share it: allocate memory as needed, and start with smaller micro-batches",
        "TF_FORCE_GPU_ALLOW_GROWTH=true oomph run train.py",
    )
    return (*found, grow)


def _gib(number: int | None) -> str:
    return "?" if number is None else f"{number / 2**30:.1f} GiB"


CHECK = Check(
    code="DOC501",
    name="gpu-memory",
    why=(
        "TensorFlow silently creates its device from what is free, however little: the first large tensor does not fit."
    ),
    look=_look,
    faults=("device-oom-other-process",),
    needs=("nvml",),
    source="gpu_device.cc (MinSystemMemory)",
    shown="with 7000 of 8192 MB held on the rig, TensorFlow creates a device from the rest without a warning",
)
