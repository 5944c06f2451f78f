"""Checks the GPUs themselves: memory, health, clocks."""

from __future__ import annotations

from oomph.doctor.check import DoctorFinding, blind, check, failed, noted, passed, skipped, warned
from oomph.doctor.snapshot import CudaDevice, NvmlDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_MUCH, _NEARLY_ALL = 0.2, 0.95
"""The shares of a GPU's memory that count as a lot, and as nearly all. A desktop uses a few per cent."""


@check(
    "DOC501",
    why=("TensorFlow silently creates its device from whatever is free, and the first large tensor then does not fit."),
    faults=("device-oom-other-process",),
    needs=("nvml",),
    source="gpu_device.cc (MinSystemMemory)",
    shown="with 7000 of 8192 MB held on the rig, TensorFlow creates a device from the rest without a warning",
)
def gpu_memory(snapshot: Snapshot) -> DoctorFinding:
    """GPU memory held by other processes."""
    devices = [device for device in snapshot.visible if device.total_bytes and device.used_bytes is not None]
    if not snapshot.nvml.devices:
        return skipped("no GPU to query")
    if not devices:
        return blind("NVML does not report how much memory is in use")
    taken = [device for device in devices if _share(device) > _MUCH]
    if not taken:
        free = ", ".join(f"{_gib(device.free_bytes)} of {_gib(device.total_bytes)} free" for device in devices)
        return passed(f"GPU memory: {free}")
    text = "; ".join(_holders(device) for device in taken)
    finding = failed if all(_share(device) > _NEARLY_ALL for device in devices) else warned
    return finding(
        "device-oom-other-process", f"Other processes hold GPU memory: {text}.", *_free_memory(snapshot, taken, devices)
    )


def _share(device: NvmlDevice) -> float:
    return (device.used_bytes or 0) / (device.total_bytes or 1)


def _holders(device: NvmlDevice) -> str:
    held = [f"{p.pid} {p.name}".strip() for p in device.processes or ()]
    who = f" by {', '.join(held[:4])}" if held else " by processes that cannot be seen from here"
    return (
        f"GPU {device.index} has {_gib(device.free_bytes)} of {_gib(device.total_bytes)} free,"
        f" {_gib(device.used_bytes)} held{who}"
    )


def _free_memory(snapshot: Snapshot, taken: list[NvmlDevice], devices: list[NvmlDevice]) -> tuple[Remedy, ...]:
    found: list[Remedy] = []
    free = [device for device in devices if device not in taken]
    if free:
        numbers = ",".join(str(device.index) for device in free)
        found.append(Remedy("Use the free ones", f"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={numbers}"))
    pids = [str(p.pid) for device in taken for p in device.processes or ()]
    if pids:
        found.append(Remedy("Stop unneeded processes; check what they are first", f"ps -fp {','.join(pids)}"))
    else:
        found.append(Remedy("See what is using it, on the host if this is a container", "sudo fuser -v /dev/nvidia*"))
    grow = Remedy(
        "Or share it: allocate memory as needed, and start with smaller micro-batches",
        "TF_FORCE_GPU_ALLOW_GROWTH=true oomph run train.py",
    )
    return (*found, grow)


def _gib(number: int | None) -> str:
    return "?" if number is None else f"{number / 2**30:.1f} GiB"


_FEW_MULTIPROCESSORS = 8
_SIZE_TOLERANCE = 0.05


@check(
    "DOC502",
    why="Data-parallel training gives every GPU the same share: the smallest limits the batch, and the slowest sets "
    "the speed.",
    faults=("device-oom",),
    needs=("driver",),
    source="gpu_device.cc (GetMinGPUMultiprocessorCount); tf.distribute.MirroredStrategy",
    shown=(
        "two GPUs of different size on the rig: TensorFlow creates a device for each, with the memory that it has;"
        " with 4 and 40 multiprocessors it skips the first"
    ),
)
def unequal_gpus(snapshot: Snapshot) -> DoctorFinding:
    """GPUs of different sizes or models in one machine."""
    devices = snapshot.driver.devices
    if len(devices) < 2:
        return skipped("fewer than two GPUs")
    sizes = [device.memory_bytes for device in devices]
    kinds = {(device.name, device.capability) for device in devices}
    if max(sizes) - min(sizes) <= _SIZE_TOLERANCE * max(sizes) and len(kinds) == 1:
        return passed(f"{len(devices)} identical GPUs")
    ignored = _left_out(devices)
    text = f"The GPUs differ: {', '.join(map(_size_of, devices))}."
    if ignored:
        text += f" TensorFlow skips GPU {', '.join(str(device.index) for device in ignored)}: too few multiprocessors."
    return warned("device-oom", text, *_train_on_equal(devices))


def _left_out(devices: tuple[CudaDevice, ...]) -> list[CudaDevice]:
    """Return the GPUs that TensorFlow ignores.

    TensorFlow requires at least 8 multiprocessors, or as many as the best GPU has if that is fewer.
    """
    counts = [device.multiprocessors for device in devices if device.multiprocessors]
    least = min(_FEW_MULTIPROCESSORS, max(counts, default=0))
    return [device for device in devices if device.multiprocessors and device.multiprocessors < least]


def _train_on_equal(devices: tuple[CudaDevice, ...]) -> tuple[Remedy, ...]:
    best = max(devices, key=lambda device: (device.memory_bytes, device.capability or (0, 0)))
    alike = [
        d for d in devices if (d.name, d.capability, d.memory_bytes) == (best.name, best.capability, best.memory_bytes)
    ]
    numbers = ",".join(f"GPU-{_uuid(device.uuid)}" if device.uuid else str(device.index) for device in alike)
    use = Remedy("Train only on the largest kind", f"export CUDA_VISIBLE_DEVICES={numbers}")
    small = min(devices, key=lambda device: device.memory_bytes)
    both = Remedy(
        f"Or choose a per-replica batch that fits the smallest, {small.memory_bytes / 2**30:.1f} GiB: MirroredStrategy"
        " gives every GPU the same"
    )
    return (use, both)


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _size_of(device: CudaDevice) -> str:
    return f"GPU {device.index} {device.name}, {device.memory_bytes / 2**30:.1f} GiB"


_CREATE_INSTANCE = Remedy("Create an instance", "sudo nvidia-smi mig -cgi 0 -C")


@check(
    "DOC503",
    why="A process can use only one instance; with MIG enabled and no instance, there is no GPU at all.",
    faults=("driver-missing",),
    needs=("nvml",),
    source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
)
def mig(snapshot: Snapshot) -> DoctorFinding:
    """A GPU that is divided into instances (MIG)."""
    divided = [device for device in snapshot.nvml.devices if device.mig]
    if not divided:
        return skipped("no GPU is divided") if not snapshot.nvml.devices else passed("MIG is off, or not supported")
    named = ", ".join(f"GPU {device.index}" for device in divided)
    if snapshot.driver.init == 0 and not snapshot.driver.devices:
        return failed("driver-missing", f"{named} has MIG enabled but no instance: CUDA sees no GPU.", _CREATE_INSTANCE)
    use = Remedy("Choose an instance by its UUID", "nvidia-smi -L  # then: export CUDA_VISIBLE_DEVICES=MIG-...")
    return noted(f"{named} is divided (MIG): a process sees one instance, with part of the memory", use)


_RESET = Remedy("Stop the processes that use it, then reset it (or reboot)", "sudo nvidia-smi --gpu-reset -i {index}")
_REPLACE = Remedy("Take it out of service and have it replaced", "nvidia-smi -q -d ROW_REMAPPER,ECC -i {index}")


@check(
    "DOC504",
    why=(
        "Uncorrected errors kill processes (Xid 48, 63, 64, 94, 95) or corrupt values; a reset puts the spare rows in"
        " place."
    ),
    faults=("hardware-fault",),
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
)
def gpu_health(snapshot: Snapshot) -> DoctorFinding:
    """Memory errors on a GPU, or a GPU that the driver has lost."""
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to query")
    for device in devices:
        fatal = _fatal(device)
        if fatal:
            return failed(
                "hardware-fault",
                f"GPU {device.index} ({device.name}): {fatal}.",
                *_for_device(device, _RESET, _REPLACE),
            )
    for device in devices:
        pending = _pending(device)
        if pending:
            return warned(
                "hardware-fault", f"GPU {device.index} ({device.name}): {pending}.", *_for_device(device, _RESET)
            )
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


def _for_device(device: NvmlDevice, *remedies: Remedy) -> tuple[Remedy, ...]:
    return tuple(Remedy(each.text, each.command.format(index=device.index)) for each in remedies)


_THROTTLE_REASONS = {
    0x08: "its hardware is slowing it down",
    0x20: "it is slowing down because it is hot",
    0x40: "its hardware is slowing it down because it is hot",
    0x80: "its power supply is slowing it down",
}
"""The bits of nvmlClocksEventReasons that indicate a problem. The bits for idling, power caps and settings do not."""
_NEAR_CELSIUS = 5


@check(
    "DOC505",
    why="A GPU that slows itself down trains at a fraction of its speed; in a group of GPUs, the others wait for it.",
    faults=("thermal-throttle",),
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
def gpu_heat(snapshot: Snapshot) -> DoctorFinding:
    """A GPU that is hot, or slowed down by heat or its power supply."""
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to query")
    troubled = [(device, why) for device in devices if (why := _trouble(device))]
    if not troubled:
        return passed(
            ", ".join(f"GPU {d.index}: {d.celsius} °C" for d in devices if d.celsius is not None) or "no temperature"
        )
    text = "; ".join(f"GPU {device.index} ({device.name}), {device.celsius} °C: {why}" for device, why in troubled)
    watch = Remedy(
        "Check the fans, airflow and power supply, and watch the readings",
        "nvidia-smi -q -d TEMPERATURE,POWER,PERFORMANCE",
    )
    cap = Remedy("Until then, limit its power", f"sudo nvidia-smi -i {troubled[0][0].index} --power-limit=WATTS")
    return warned("thermal-throttle", f"{text}.", watch, cap)


def _trouble(device: NvmlDevice) -> str:
    reasons = [text for bit, text in _THROTTLE_REASONS.items() if (device.throttle or 0) & bit]
    if reasons:
        return ", ".join(reasons)
    if (
        device.celsius is not None
        and device.slowdown_celsius
        and device.celsius >= device.slowdown_celsius - _NEAR_CELSIUS
    ):
        return f"it slows down at {device.slowdown_celsius} °C"
    return ""


_PROHIBITED, _EXCLUSIVE = 2, (1, 3)


@check(
    "DOC506",
    why=(
        'In exclusive mode, the second process gets "Bad StatusOr access" with CUDA_ERROR_DEVICE_UNAVAILABLE, which'
        " names neither the mode nor the other process."
    ),
    faults=("device-oom-other-process",),
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/nvml-api/ (nvmlComputeMode_t)",
)
def compute_mode(snapshot: Snapshot) -> DoctorFinding:
    """A GPU that allows only one process, or none."""
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to query")
    closed = [device for device in devices if device.compute_mode == _PROHIBITED]
    alone = [device for device in devices if device.compute_mode in _EXCLUSIVE]
    taken = [device for device in alone if device.processes]
    opened = Remedy("Let processes share it", "sudo nvidia-smi --compute-mode=DEFAULT")
    if closed:
        return failed(
            "device-oom-other-process",
            f"GPU {closed[0].index} is in compute mode Prohibited: processes cannot use it.",
            opened,
        )
    if taken:
        pids = ", ".join(str(process.pid) for process in taken[0].processes or ())
        text = (
            f"GPU {taken[0].index} is in exclusive mode, and process {pids} is using it: TensorFlow fails with"
            " CUDA_ERROR_DEVICE_UNAVAILABLE."
        )
        return failed("device-oom-other-process", text, opened, Remedy("Or wait for it", f"ps -fp {pids}"))
    if alone:
        return noted(f"GPU {alone[0].index} is in exclusive mode: one process at a time", opened)
    return passed("any process may use the GPUs")


_SET_CLOCKS = 0x02


@check(
    "DOC507",
    why="They explain a slow start or consistently lower speed.",
    needs=("nvml",),
    source="https://docs.nvidia.com/deploy/driver-persistence/",
)
def gpu_clocks(snapshot: Snapshot) -> DoctorFinding:
    """Persistence mode and clock settings. These are only notes, since nothing fails because of them."""
    devices = snapshot.visible
    if not devices:
        return skipped("no GPU to query")
    fixed = [device for device in devices if (device.throttle or 0) & _SET_CLOCKS]
    if fixed:
        text = f"GPU {fixed[0].index} runs at manually set clocks ({fixed[0].sm_mhz} of {fixed[0].sm_mhz_max} MHz)"
        return noted(text, Remedy("Reset them", "sudo nvidia-smi --reset-gpu-clocks"))
    if not snapshot.host.wsl and any(device.persistence is False for device in devices):
        text = "persistence mode is off: the first process on an idle GPU restarts the driver, taking a second or more"
        return noted(text, Remedy("Keep it loaded", "sudo nvidia-smi --persistence-mode=1"))
    return passed("persistence mode is on, and the driver sets the clocks")
