"""Persistence mode and clocks. These are only notes: nothing fails because of them."""

from oomph.doctor.check import Check, Finding, noted, passed, skipped
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_SETTING = 0x02


def _look(snapshot: Snapshot) -> Finding:
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to ask")
    fixed = [device for device in devices if (device.throttle or 0) & _SETTING]
    if fixed:
        text = f"GPU {fixed[0].index} runs at manually set clocks ({fixed[0].sm_mhz} of {fixed[0].sm_mhz_max} MHz)"
        return noted(text, Remedy("Reset them", "sudo nvidia-smi --reset-gpu-clocks"))
    if not snapshot.host.wsl and any(device.persistence is False for device in devices):
        text = "persistence mode is off: the driver restarts for every first process, which takes a second or more"
        return noted(text, Remedy("Keep it loaded", "sudo nvidia-smi --persistence-mode=1"))
    return passed("persistence mode on, clocks as the driver chooses")


CHECK = Check(
    code="DOC507",
    name="gpu-clocks",
    why="They explain a slow start or a constant loss of speed.",
    look=_look,
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/driver-persistence/",
)
