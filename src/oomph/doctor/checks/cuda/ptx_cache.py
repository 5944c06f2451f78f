"""The driver's cache of kernels compiled from PTX, if this GPU needs it."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.releases import ptx
from oomph.doctor.snapshot import CudaDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_WANTED_BYTES = 1 << 30


def _look(snapshot: Snapshot) -> Finding:
    host, environment = snapshot.host, snapshot.environment
    if not any(_compiles(snapshot, device) for device in snapshot.driver.devices):
        return skipped("no GPU here needs kernels compiled from PTX")
    if environment.get("CUDA_CACHE_DISABLE") == "1":
        text = "CUDA_CACHE_DISABLE=1: the kernels that this GPU needs are recompiled in every process."
        return warned("no-kernel-image", text, Remedy("Keep them", "unset CUDA_CACHE_DISABLE"))
    if not host.cache_writable:
        text = f"The cache of compiled kernels, {host.cache_path}, cannot be written: every process recompiles them."
        return warned(
            "no-kernel-image", text, Remedy("Name a persistent folder", "export CUDA_CACHE_PATH=/path/that/lasts")
        )
    size = environment.get("CUDA_CACHE_MAXSIZE", "")
    if size.isdigit() and int(size) < _WANTED_BYTES:
        text = f"CUDA_CACHE_MAXSIZE={size} is too small for TensorFlow's kernels: they evict each other."
        return warned("no-kernel-image", text, Remedy("Enlarge it", "export CUDA_CACHE_MAXSIZE=4294967296"))
    return passed(f"compiled kernels are kept in {host.cache_path}")


def _compiles(snapshot: Snapshot, device: CudaDevice) -> bool:
    """Whether some kernels have no machine code for this GPU: those of the wheel's PTX architecture and newer.

    Most kernels of the 2.21.0 wheel hold PTX for compute_90 and no machine code beside it.
    """
    codes = ptx(snapshot.tensorflow.capabilities) if snapshot.tensorflow else []
    return device.capability is not None and any(code <= device.capability for code in codes)


CHECK = Check(
    code="DOC305",
    name="ptx-cache",
    why=(
        "Compiling TensorFlow's kernels takes minutes. A cache keeps them, unless it is off, too small or not writable."
    ),
    look=_look,
    faults=("no-kernel-image",),
    needs=("driver", "host"),
    source=(
        "CUDA C++ Programming Guide, environment variables; the .nv_fatbin section of the wheel's libtensorflow_cc.so.2"
    ),
)
