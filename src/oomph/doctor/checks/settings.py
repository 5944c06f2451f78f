"""Checks environment variables that TensorFlow, XLA and CUDA read."""

from __future__ import annotations

import difflib

from oomph.doctor.check import DoctorFinding, check, failed, noted, passed, skipped, warned
from oomph.doctor.commands import export
from oomph.doctor.repairs import ALLOCATORS, GROWTH_WORDS, repairs
from oomph.doctor.snapshot import NvmlDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_SHOW_ALL = Remedy("Show all GPUs", "unset CUDA_VISIBLE_DEVICES")


@check(
    "DOC401",
    why="CUDA reads the list up to the first entry that it does not understand, and silently ignores the rest.",
    faults=("driver-missing",),
    source="CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES",
)
def cuda_visible_devices(snapshot: Snapshot) -> DoctorFinding:
    """CUDA_VISIBLE_DEVICES hides GPUs, or does not mean what it appears to mean."""
    value = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    if not snapshot.gpu_wanted:
        return skipped("no NVIDIA GPU")
    if value is None:
        return _numbered(snapshot, "all GPUs are visible")
    if snapshot.gpus_hidden:
        return warned(
            "driver-missing",
            f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU: training runs on the CPU.",
            _SHOW_ALL,
        )
    entries = value.split(",")
    devices = snapshot.nvml.devices
    for place, entry in enumerate(entries):
        wrong = _wrong_entry(entry, devices, entries[:place])
        if wrong:
            return _cut_list(value, entries, place, wrong, devices)
    return _numbered(snapshot, f"CUDA_VISIBLE_DEVICES={value}")


def _wrong_entry(entry: str, devices: tuple[NvmlDevice, ...], before: list[str]) -> str:
    """Describe what is wrong with an entry, by NVIDIA's rules; empty if the entry identifies a single device."""
    bare = entry.strip()
    if not bare:
        return "an empty entry"
    if bare in (each.strip() for each in before):
        return f"{bare} is listed twice"
    if bare.startswith("MIG-"):
        return ""
    if bare.startswith("GPU-"):
        matching = [device for device in devices if (device.uuid or "").startswith(bare)]
        if not devices or len(matching) == 1:
            return ""
        return f"{bare} does not match a GPU here" if not matching else f"{bare} matches {len(matching)} GPUs"
    if not bare.lstrip("-").isdigit():
        return f"{bare} is neither a number nor a UUID"
    if int(bare) < 0 or (devices and int(bare) >= len(devices)):
        return f"there is no GPU {bare}" + (f" (GPUs found: {len(devices)})" if devices else "")
    return ""


def _cut_list(value: str, entries: list[str], place: int, wrong: str, devices: tuple[NvmlDevice, ...]) -> DoctorFinding:
    """Return the finding for a list with an invalid entry: CUDA uses only the entries before it."""
    text = f"CUDA_VISIBLE_DEVICES={value!r}: {wrong}."
    if wrong.endswith(" twice"):
        return failed(
            "driver-missing", f"{text} CUDA then sees no GPU at all.", Remedy("List each one once", _once(entries))
        )
    numbers = ",".join(str(device.index) for device in devices)
    all_of_them = (Remedy("List those that exist", export("CUDA_VISIBLE_DEVICES", numbers)),) if numbers else ()
    if place == 0:
        return failed("driver-missing", f"{text} CUDA stops there and sees no GPU at all.", _SHOW_ALL, *all_of_them)
    kept = ",".join(entry.strip() for entry in entries[:place])
    keep = Remedy("Write it as CUDA reads it, if that is what you want", export("CUDA_VISIBLE_DEVICES", kept))
    return warned("driver-missing", f"{text} CUDA stops there and sees only {kept}.", keep, *all_of_them)


def _once(entries: list[str]) -> str:
    return export("CUDA_VISIBLE_DEVICES", ",".join(dict.fromkeys(entry.strip() for entry in entries)))


def _numbered(snapshot: Snapshot, text: str) -> DoctorFinding:
    """Return the finding about device numbers: CUDA defaults to the fastest GPU first, nvidia-smi to PCI bus order."""
    names = {device.name for device in snapshot.nvml.devices}
    value = snapshot.environment.get("CUDA_VISIBLE_DEVICES", "")
    if len(names) > 1 and value[:1].isdigit() and snapshot.environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        by_bus = Remedy("Number them as nvidia-smi does", "export CUDA_DEVICE_ORDER=PCI_BUS_ID")
        return noted(f"{text}: the GPUs differ; CUDA numbers them fastest first, nvidia-smi by PCI bus", by_bus)
    return passed(text)


_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


@check(
    "DOC402",
    why="TensorFlow then takes nearly all of the GPU's memory at once, which the variable was meant to prevent.",
    faults=("device-oom-other-process",),
    source="gpu_bfc_allocator.cc",
    shown='with yes, 1 and True, TensorFlow on the rig prints "could not be parsed" and takes all of the memory',
)
def gpu_growth(snapshot: Snapshot) -> DoctorFinding:
    """TF_FORCE_GPU_ALLOW_GROWTH has a value that TensorFlow does not recognise."""
    value = snapshot.environment.get(_GROWTH)
    if value is None or value in GROWTH_WORDS:
        return passed(f"{_GROWTH} is {value or 'not set'}")
    meant = next(repair.value for repair in repairs(snapshot) if repair.variable == _GROWTH)
    remedy = Remedy(
        "Use a value that TensorFlow accepts", export(_GROWTH, meant or "false"), action="repair-environment"
    )
    text = f"{_GROWTH}={value}: TensorFlow accepts only {' and '.join(GROWTH_WORDS)}, and treats this as false."
    return warned("device-oom-other-process", text, remedy)


_ALLOCATOR = "TF_GPU_ALLOCATOR"
_POOLS_SINCE = 11020


@check(
    "DOC403",
    why="A misspelt allocator is silently ignored: fragmentation continues as before.",
    faults=("device-oom-fragmentation", "driver-too-old"),
    source="gpu_process_state.cc; gpu_cudamallocasync_allocator.cc",
    shown="with TF_GPU_ALLOCATOR=bogus, TensorFlow on the rig trains with BFC and does not mention it",
)
def gpu_allocator(snapshot: Snapshot) -> DoctorFinding:
    """TF_GPU_ALLOCATOR is set to an allocator that TensorFlow does not know, or that this driver does not support."""
    value = snapshot.environment.get(_ALLOCATOR)
    if not value:
        return passed(f"{_ALLOCATOR} is not set: TensorFlow's own allocator (BFC)")
    if value not in ALLOCATORS:
        meant = next(repair.value for repair in repairs(snapshot) if repair.variable == _ALLOCATOR)
        line = export(_ALLOCATOR, meant) if meant else f"unset {_ALLOCATOR}"
        remedy = Remedy("Choose one that exists" if meant else "Unset it", line, action="repair-environment")
        text = f"{_ALLOCATOR}={value}: TensorFlow knows only {', '.join(ALLOCATORS)}, and silently ignores others."
        return warned("device-oom-fragmentation", text, remedy)
    number = snapshot.driver.cuda_version
    if value == "cuda_malloc_async" and number and number < _POOLS_SINCE:
        text = (
            f"{_ALLOCATOR}={value} needs a driver for CUDA 11.2; this one is for"
            f" {number // 1000}.{number % 1000 // 10}: TensorFlow aborts."
        )
        return failed("driver-too-old", text, Remedy("Unset it", f"unset {_ALLOCATOR}"))
    if value != "cuda_malloc_async":
        return noted(f"{_ALLOCATOR}={value} is slow and meant for debugging", Remedy("Unset it", f"unset {_ALLOCATOR}"))
    return passed(f"{_ALLOCATOR}={value}")


_COMMON_FLAGS = (
    "xla_gpu_autotune_level",
    "xla_gpu_cuda_data_dir",
    "xla_gpu_deterministic_ops",
    "xla_gpu_enable_command_buffer",
    "xla_gpu_enable_triton_gemm",
    "xla_gpu_strict_conv_algorithm_picker",
    "xla_force_host_platform_device_count",
    "xla_dump_to",
)
"""Commonly used flags, only for suggesting the right spelling."""


@check(
    "DOC404",
    why=(
        'XLA reads the variable when TensorFlow first compiles or starts a GPU, and ends the process with "Unknown'
        ' flag" if one is misspelt.'
    ),
    faults=("xla-compile-failure",),
    needs=("tensorflow",),
    source="parse_flags_from_env.cc of xla; the flags are looked up among the strings of the installed library",
    shown="TensorFlow exits with code 1 for --xla_bogus_flag=1, but not for flags that the check considers known",
)
def xla_flags(snapshot: Snapshot) -> DoctorFinding:
    """XLA_FLAGS contains a flag that XLA does not know, which makes it abort the process."""
    value = snapshot.environment.get("XLA_FLAGS", "")
    if not value.strip():
        return passed("XLA_FLAGS is not set")
    words = value.split()
    if not value.startswith("-"):
        return passed(f"XLA_FLAGS names a file, {words[0]}")
    strange = [word for word in words if not word.startswith("--xla")]
    unknown = snapshot.tensorflow.unknown_flags if snapshot.tensorflow else ()
    if not strange and not unknown:
        return passed(f"XLA_FLAGS={value}")
    wrong = [*strange, *(f"--{name}" for name in unknown)]
    kept = [word for word in words if word.split("=")[0] not in wrong and word not in strange]
    without = export("XLA_FLAGS", " ".join(kept)) if kept else "unset XLA_FLAGS"
    close = [meant for name in unknown for meant in difflib.get_close_matches(name, _COMMON_FLAGS, n=1, cutoff=0.8)]
    hint = f" Did you mean --{close[0]}?" if close else ""
    text = (
        f"XLA_FLAGS contains {', '.join(wrong)}, which this TensorFlow does not know: the process will exit at its "
        f"first use of XLA.{hint}"
    )
    return failed("xla-compile-failure", text, Remedy("Remove it", without))


_DEBUG_VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": (("1",), "every kernel launch blocks: training is slow", "kernel-launch-failure"),
    "CUDA_FORCE_PTX_JIT": (
        ("1",),
        "machine code is ignored, and kernels without PTX for this GPU fail",
        "no-kernel-image",
    ),
}
"""The values that matter of each variable, their effect, and the fault that they lead to."""


@check(
    "DOC405",
    why="They are set to find one error, and then left in a shell's start-up file.",
    faults=("kernel-launch-failure", "no-kernel-image"),
    source="CUDA C++ Programming Guide, environment variables",
)
def debug_variables(snapshot: Snapshot) -> DoctorFinding:
    """Variables left over from debugging, which slow training down or make it fail."""
    if not snapshot.gpu_wanted:
        return passed("they matter only on a GPU")
    found = [name for name in _DEBUG_VARIABLES if snapshot.environment.get(name) in _DEBUG_VARIABLES[name][0]]
    if not found:
        return passed("none is set")
    named = "; ".join(f"{name}={snapshot.environment[name]}: {_DEBUG_VARIABLES[name][1]}" for name in found)
    return warned(
        _DEBUG_VARIABLES[found[0]][2],
        f"{named}.",
        Remedy("Unset what is left from debugging", f"unset {' '.join(found)}"),
    )


_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@check(
    "DOC406",
    why='"Cannot dlopen some GPU libraries" is a warning: at level 2, training silently continues on the CPU.',
    source="gpu_device.cc",
)
def log_level(snapshot: Snapshot) -> DoctorFinding:
    """TF_CPP_MIN_LOG_LEVEL hides the only line that TensorFlow prints about a GPU that it skips."""
    value = snapshot.environment.get(_LOG_LEVEL, "")
    if not snapshot.gpu_wanted:
        return skipped("no NVIDIA GPU")
    if value in ("2", "3"):
        text = f"{_LOG_LEVEL}={value} hides TensorFlow's warnings, including the one about a GPU that it skips"
        return noted(text, Remedy("Show them", f"unset {_LOG_LEVEL}"))
    return passed(f"{_LOG_LEVEL} is {value or 'not set'}")
