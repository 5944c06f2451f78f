"""A GPU that is hot, or slowed down by heat or power."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.snapshot import NvmlDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_REASONS = {
    0x08: "its hardware slows down",
    0x20: "it slows down because it is hot",
    0x40: "its hardware slows down because it is hot",
    0x80: "its power supply slows it down",
}
"""Bits of nvmlClocksEventReasons that mean trouble; idle, a power cap and settings do not."""
_NEAR_CELSIUS = 5


def _look(snapshot: Snapshot) -> Finding:
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to ask")
    troubled = [(device, why) for device in devices if (why := _trouble(device))]
    if not troubled:
        return passed(
            ", ".join(f"GPU {d.index}: {d.celsius} °C" for d in devices if d.celsius is not None) or "no temperature"
        )
    text = "; ".join(f"GPU {device.index} ({device.name}), {device.celsius} °C: {why}" for device, why in troubled)
    watch = Remedy("Check fans, airflow and power supply; watch it", "nvidia-smi -q -d TEMPERATURE,POWER,PERFORMANCE")
    cap = Remedy("Until then, limit its power", f"sudo nvidia-smi -i {troubled[0][0].index} --power-limit=WATTS")
    return warned("thermal-throttle", f"{text}.", watch, cap)


def _trouble(device: NvmlDevice) -> str:
    reasons = [text for bit, text in _REASONS.items() if (device.throttle or 0) & bit]
    if reasons:
        return ", ".join(reasons)
    if (
        device.celsius is not None
        and device.slowdown_celsius
        and device.celsius >= device.slowdown_celsius - _NEAR_CELSIUS
    ):
        return f"it slows down at {device.slowdown_celsius} °C"
    return ""


CHECK = Check(
    code="DOC505",
    name="gpu-heat",
    why="A GPU that slows itself down trains at a fraction of its speed; in a group of GPUs, all others wait for it.",
    look=_look,
    faults=("thermal-throttle",),
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
