"""A GPU that is divided into instances (MIG)."""

from oomph.doctor.check import Check, Finding, failed, noted, passed, skipped
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_CREATE = Remedy("Create an instance", "sudo nvidia-smi mig -cgi 0 -C")


def _look(snapshot: Snapshot) -> Finding:
    divided = [device for device in snapshot.nvml.devices if device.mig]
    if not divided:
        return skipped("no GPU is divided") if not snapshot.nvml.devices else passed("MIG is off, or not supported")
    named = ", ".join(f"GPU {device.index}" for device in divided)
    if snapshot.driver.init == 0 and not snapshot.driver.devices:
        return failed("driver-missing", f"{named} has MIG enabled but no instance: CUDA shows no GPU.", _CREATE)
    use = Remedy("Choose an instance by its UUID", "nvidia-smi -L  # then: export CUDA_VISIBLE_DEVICES=MIG-...")
    return noted(f"{named} is divided (MIG): a process sees one instance, with a part of the memory", use)


CHECK = Check(
    code="DOC503",
    name="mig",
    why="A process can use one instance only; with MIG enabled and no instance, there is no GPU at all.",
    look=_look,
    faults=("driver-missing",),
    needs=("nvml",),
    source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
)
