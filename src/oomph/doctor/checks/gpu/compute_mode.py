"""A GPU that admits only one process, or none."""

from oomph.doctor.check import Check, Finding, failed, noted, passed, skipped
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_PROHIBITED, _EXCLUSIVE = 2, (1, 3)


def _look(snapshot: Snapshot) -> Finding:
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to ask")
    closed = [device for device in devices if device.compute_mode == _PROHIBITED]
    alone = [device for device in devices if device.compute_mode in _EXCLUSIVE]
    taken = [device for device in alone if device.processes]
    opened = Remedy("Let processes share it", "sudo nvidia-smi --compute-mode=DEFAULT")
    if closed:
        return failed(
            "device-oom-other-process",
            f"GPU {closed[0].index} is in compute mode Prohibited: no process may use it.",
            opened,
        )
    if taken:
        pids = ", ".join(str(process.pid) for process in taken[0].processes or ())
        text = (
            f"GPU {taken[0].index} is in exclusive mode, and process {pids} has it: TensorFlow fails with"
            " CUDA_ERROR_DEVICE_UNAVAILABLE."
        )
        return failed("device-oom-other-process", text, opened, Remedy("Or wait for it", f"ps -fp {pids}"))
    if alone:
        return noted(f"GPU {alone[0].index} is in exclusive mode: one process at a time", opened)
    return passed("every process may use the GPUs")


CHECK = Check(
    code="DOC506",
    name="compute-mode",
    why=(
        'In exclusive mode the second process gets "Bad StatusOr access" with CUDA_ERROR_DEVICE_UNAVAILABLE, which'
        " names neither the mode nor the other process."
    ),
    look=_look,
    faults=("device-oom-other-process",),
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/nvml-api/ (nvmlComputeMode_t)",
)
