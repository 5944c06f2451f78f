"""GPUs of different size or kind in one machine."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.snapshot import CudaDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_FEW_MULTIPROCESSORS = 8
_TOLERANCE = 0.05


def _look(snapshot: Snapshot) -> Finding:
    devices = snapshot.driver.devices
    if len(devices) < 2:
        return skipped("fewer than two GPUs")
    sizes = [device.memory_bytes for device in devices]
    kinds = {(device.name, device.capability) for device in devices}
    if max(sizes) - min(sizes) <= _TOLERANCE * max(sizes) and len(kinds) == 1:
        return passed(f"{len(devices)} equal GPUs")
    ignored = _ignored(devices)
    text = f"The GPUs differ: {', '.join(map(_described, devices))}."
    if ignored:
        text += (
            f" TensorFlow leaves out GPU {', '.join(str(device.index) for device in ignored)}: too few multiprocessors."
        )
    return warned("device-oom", text, *_remedies(devices))


def _ignored(devices: tuple[CudaDevice, ...]) -> list[CudaDevice]:
    """TensorFlow wants 8 multiprocessors, or as many as the best GPU has if that has fewer."""
    counts = [device.multiprocessors for device in devices if device.multiprocessors]
    least = min(_FEW_MULTIPROCESSORS, max(counts, default=0))
    return [device for device in devices if device.multiprocessors and device.multiprocessors < least]


def _remedies(devices: tuple[CudaDevice, ...]) -> tuple[Remedy, ...]:
    best = max(devices, key=lambda device: (device.memory_bytes, device.capability or (0, 0)))
    alike = [
        d for d in devices if (d.name, d.capability, d.memory_bytes) == (best.name, best.capability, best.memory_bytes)
    ]
    numbers = ",".join(f"GPU-{_uuid(device.uuid)}" if device.uuid else str(device.index) for device in alike)
    use = Remedy("Train on the largest kind alone", f"export CUDA_VISIBLE_DEVICES={numbers}")
    small = min(devices, key=lambda device: device.memory_bytes)
    both = Remedy(
        f"Or choose the batch of a replica for the smallest, {small.memory_bytes / 2**30:.1f} GiB: MirroredStrategy"
        " gives each GPU the same"
    )
    return (use, both)


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _described(device: CudaDevice) -> str:
    return f"GPU {device.index} {device.name}, {device.memory_bytes / 2**30:.1f} GiB"


CHECK = Check(
    code="DOC502",
    name="unequal-gpus",
    why="Data-parallel training gives every GPU the same share: the smallest decides the batch, the slowest the speed.",
    look=_look,
    faults=("device-oom",),
    needs=("driver",),
    source="gpu_device.cc (GetMinGPUMultiprocessorCount); tf.distribute.MirroredStrategy",
    shown=(
        "two GPUs of different size on the rig: TensorFlow creates a device for each, with the memory that it has;"
        " with 4 and 40 multiprocessors it leaves out the first"
    ),
)
