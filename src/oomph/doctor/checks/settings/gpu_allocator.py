"""TF_GPU_ALLOCATOR names an allocator that TensorFlow does not know, or that this driver does not support."""

from oomph.doctor.check import Check, Finding, failed, noted, passed, warned
from oomph.doctor.commands import export
from oomph.doctor.repairs import ALLOCATORS, repairs
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_NAME = "TF_GPU_ALLOCATOR"
_POOLS_SINCE = 11020


def _look(snapshot: Snapshot) -> Finding:
    value = snapshot.environment.get(_NAME)
    if not value:
        return passed(f"{_NAME} is not set: TensorFlow's own allocator (BFC)")
    if value not in ALLOCATORS:
        meant = next(repair.value for repair in repairs(snapshot) if repair.variable == _NAME)
        line = export(_NAME, meant) if meant else f"unset {_NAME}"
        remedy = Remedy("Name one that exists" if meant else "Unset it", line, action="repair-environment")
        text = f"{_NAME}={value}: TensorFlow knows {', '.join(ALLOCATORS)}; it silently ignores others."
        return warned("device-oom-fragmentation", text, remedy)
    number = snapshot.driver.cuda_version
    if value == "cuda_malloc_async" and number and number < _POOLS_SINCE:
        text = (
            f"{_NAME}={value} needs a driver for CUDA 11.2; this one is for {number // 1000}.{number % 1000 // 10}:"
            " TensorFlow aborts."
        )
        return failed("driver-too-old", text, Remedy("Unset it", f"unset {_NAME}"))
    if value != "cuda_malloc_async":
        return noted(f"{_NAME}={value} is for debugging, and slow", Remedy("Unset it", f"unset {_NAME}"))
    return passed(f"{_NAME}={value}")


CHECK = Check(
    code="DOC403",
    name="gpu-allocator",
    why="A misspelt allocator silently changes nothing: fragmentation continues as before.",
    look=_look,
    faults=("device-oom-fragmentation", "driver-too-old"),
    source="gpu_process_state.cc; gpu_cudamallocasync_allocator.cc",
    shown="with TF_GPU_ALLOCATOR=bogus TensorFlow on the rig trains with BFC and prints nothing about it",
)
