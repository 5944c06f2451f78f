"""Checks the CUDA libraries that the loader picks, and the tools that compile code for the GPU."""

from __future__ import annotations

from oomph.doctor.check import DoctorFinding, blind, check, failed, noted, passed, skipped, warned
from oomph.doctor.commands import describe, export, install, nvidia_wheel, tensorflow_with_cuda, without_entry
from oomph.doctor.observe.libraries import DRIVER_LIBRARIES
from oomph.doctor.releases import last_for, ptx, runs_on
from oomph.doctor.repairs import better_copy, lost_in_wheels, repaired_path
from oomph.doctor.snapshot import CudaDevice, Library, Snapshot, numbers_in
from oomph.explain.catalogue.fault import Remedy
from oomph.gpu.question import cuda_version


@check(
    "DOC301",
    why=(
        'TensorFlow loads them by name when it looks for GPUs. If one is missing, it prints "Cannot dlopen some GPU'
        ' libraries" without saying which, and trains on the CPU.'
    ),
    faults=("cuda-library-missing",),
    needs=("libraries",),
    source=(
        "dso_loader.cc and gpu_device.cc; https://github.com/tensorflow/tensorflow/issues/63362 (2.16.1), RUNPATH of"
        " the 2.21.0 wheel"
    ),
    shown=(
        "with any one library missing from the rig's folder, TensorFlow lists no GPU; likewise with the wheel's"
        " layout, whose RUNPATH lacks cusolver's folder"
    ),
)
def cuda_libraries(snapshot: Snapshot) -> DoctorFinding:
    """A CUDA library that TensorFlow needs is not on its search path."""
    tensorflow = snapshot.tensorflow
    wanted = [library for library in snapshot.libraries if library.required and library.soname not in DRIVER_LIBRARIES]
    if tensorflow is None or not wanted:
        return skipped("no CUDA build of TensorFlow")
    if not snapshot.gpu_wanted:
        return skipped("no NVIDIA GPU")
    missing = [library for library in wanted if library.winner is None]
    if not missing:
        return passed(f"all {len(wanted)} CUDA libraries were found")
    if not tensorflow.loader:
        return blind(
            f"libtensorflow_framework.so.2 is missing, so the search path of TensorFlow {tensorflow.version} is unknown"
        )
    names = ", ".join(_missing_library(library) for library in missing)
    text = f"TensorFlow {tensorflow.version} cannot find {names}."
    return failed("cuda-library-missing", text, *_find_or_install(snapshot, missing, len(missing) == len(wanted)))


def _missing_library(library: Library) -> str:
    """Describe a missing library, and any copy that cannot be loaded or is outside TensorFlow's search path."""
    broken = next((f"{c.path}: {c.problem}" for c in library.candidates if c.problem), "")
    aside = next((f"it is in {c.folder}, where TensorFlow does not look" for c in library.in_wheels), "")
    return f"{library.soname} ({aside or broken})" if aside or broken else library.soname


def _find_or_install(snapshot: Snapshot, missing: list[Library], all_of_them: bool) -> tuple[Remedy, ...]:
    if all_of_them and not lost_in_wheels(snapshot):
        return (Remedy("Install the CUDA libraries that match it", install(snapshot, tensorflow_with_cuda(snapshot))),)
    found: list[Remedy] = []
    if lost_in_wheels(snapshot):
        line = export("LD_LIBRARY_PATH", repaired_path(snapshot))
        found.append(Remedy("Let the loader search the wheel's folder", line, action="repair-environment"))
    wheels = [nvidia_wheel(snapshot, library.soname) for library in missing if not library.in_wheels]
    if any(wheels):
        found.append(Remedy("Install the missing libraries", install(snapshot, *filter(None, wheels))))
    elif any(not library.in_wheels for library in missing):
        found.append(
            Remedy("Install the CUDA libraries that match it", install(snapshot, tensorflow_with_cuda(snapshot)))
        )
    return tuple(found)


@check(
    "DOC302",
    why=(
        "LD_LIBRARY_PATH is searched before the wheel's folders: a module system or an old export decides which CUDA is"
        " used, and a version never tested with this TensorFlow wins."
    ),
    faults=("cudnn-version-mismatch", "cuda-library-missing"),
    needs=("libraries",),
    source="ld.so(8); https://github.com/tensorflow/tensorflow/issues/60913",
    shown="cuDNN 9.1.0 on LD_LIBRARY_PATH before the wheel's 9.3.0: TensorFlow loads 9.1.0 and says so",
)
def library_shadowing(snapshot: Snapshot) -> DoctorFinding:
    """A library on LD_LIBRARY_PATH that is loaded instead of the one from the wheel."""
    ours = [library for library in snapshot.libraries if library.soname not in DRIVER_LIBRARIES]
    if not ours or not snapshot.gpu_wanted:
        return skipped("no CUDA build of TensorFlow, or no NVIDIA GPU")
    shadowed = [library for library in ours if _is_shadowed(library)]
    if not shadowed:
        return passed("none of the wheels' libraries is shadowed by another file")
    folders = list(dict.fromkeys(library.winner.folder for library in shadowed if library.winner))
    remedies = [Remedy(f"Remove {folder} from LD_LIBRARY_PATH", without_entry(snapshot, folder)) for folder in folders]
    return warned(
        "cudnn-version-mismatch" if any("cudnn" in library.soname for library in shadowed) else "cuda-library-missing",
        f"Loaded from outside the wheel: {'; '.join(describe(library) for library in shadowed)}.",
        *remedies,
    )


def _is_shadowed(library: Library) -> bool:
    """True if LD_LIBRARY_PATH puts a different version before the wheel's. Links and identical copies do no harm."""
    winner = library.winner
    if winner is None or winner.where != "LD_LIBRARY_PATH" or winner in library.in_wheels:
        return False
    return any(copy.version != winner.version or not winner.version for copy in library.in_wheels)


_BAD_CUDNN: dict[tuple[int, ...], str] = {
    (9, 10, 0): "it numbers operations in a different order from adjacent releases",
}
"""The cuDNN releases known to be bad, and why. Source: the constraints that JAX checks
(jax_plugins/cuda/__init__.py)."""


@check(
    "DOC303",
    why=(
        "TensorFlow accepts cuDNN in the same major version and the same or a newer minor one. With any other, it"
        ' lists the GPU, but the first convolution fails with "No DNN in stream executor".'
    ),
    faults=("cudnn-version-mismatch",),
    needs=("libraries", "tensorflow"),
    source='cuda_dnn.cc of xla ("Loaded runtime CuDNN library")',
    shown="the rig's cuDNN 8.9.7 and 9.1.0: TensorFlow prints the mismatch and a convolution fails",
)
def cudnn_version(snapshot: Snapshot) -> DoctorFinding:
    """The cuDNN that will be loaded does not match the one TensorFlow was built with, or is known to be bad."""
    tensorflow, library = snapshot.tensorflow, snapshot.library("libcudnn.so")
    if tensorflow is None or library is None or not tensorflow.cudnn_version or not snapshot.gpu_wanted:
        return skipped("no CUDA build of TensorFlow, or no NVIDIA GPU")
    winner = library.winner
    if winner is None:
        return skipped("cuDNN was not found")
    if not winner.version:
        return blind(f"{winner.path} does not report its version")
    found, built = numbers_in(winner.version) or (0,), tensorflow.cudnn_version
    wanted = ".".join(map(str, built))
    text = f"TensorFlow {tensorflow.version} was built with cuDNN {wanted} but will load {describe(library)}"
    if found[0] != built[0] or found[:2] < tuple(built[:2]):
        return failed(
            "cudnn-version-mismatch", f"{text}: it must be {wanted} or a later {built[0]}.x.", *_other_cudnn(snapshot)
        )
    if found[:3] in _BAD_CUDNN:
        return warned(
            "cudnn-version-mismatch", f"{text}: {_BAD_CUDNN[found[:3]]}.", _newer_cudnn(snapshot, ">=9.10.1,<10")
        )
    return passed(f"cuDNN {winner.version}, built with {wanted}")


def _other_cudnn(snapshot: Snapshot) -> tuple[Remedy, ...]:
    library = snapshot.library("libcudnn.so")
    assert library is not None
    winner, better = library.winner, better_copy(snapshot)
    assert winner is not None
    if winner.where != "LD_LIBRARY_PATH":
        return (_newer_cudnn(snapshot),)
    take_out = without_entry(snapshot, winner.folder)
    if better is not None:
        text = f"Remove {winner.folder} from LD_LIBRARY_PATH: the wheel's own is {better.version}"
        return (Remedy(text, take_out, action="repair-environment"),)
    newer = _newer_cudnn(snapshot)
    text = f"{newer.text}, and remove {winner.folder} from LD_LIBRARY_PATH, which is searched first"
    return (Remedy(text, f"{newer.command} && {take_out}"),)


def _newer_cudnn(snapshot: Snapshot, versions: str = "") -> Remedy:
    assert snapshot.tensorflow is not None
    major, minor = snapshot.tensorflow.cudnn_version[:2]
    generation = snapshot.tensorflow.cuda_version[0] if snapshot.tensorflow.cuda_version else 12
    versions = versions or f">={major}.{minor},<{major + 1}"
    return Remedy(
        "Install a cuDNN version that works with this TensorFlow",
        install(snapshot, f"nvidia-cudnn-cu{generation}{versions}"),
    )


_BLACKWELL = 10
_NVIDIA_CONTAINER = Remedy(
    "Use a build with code for this GPU, such as NVIDIA's container",
    "docker run --gpus all -it nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
    changes="the TensorFlow build",
)
_BUILD = Remedy(
    "Or build TensorFlow for this GPU's architecture",
    "bazel build --config=cuda --config=cuda_wheel --repo_env=HERMETIC_CUDA_VERSION=12.8.0"
    " --repo_env=HERMETIC_CUDA_COMPUTE_CAPABILITIES=sm_120,compute_120 //tensorflow/tools/pip_package:wheel",
)
_SEVERITIES = ("pass", "note", "skip", "warn", "fail")


@check(
    "DOC304",
    why=(
        "A kernel runs on a GPU only as machine code for its major version, or as PTX that the driver compiles for a"
        " newer GPU. TensorFlow also lists GPUs on which it cannot run anything."
    ),
    faults=("no-kernel-image",),
    needs=("driver", "tensorflow"),
    source=(
        "CUDA C++ Programming Guide, Binary and PTX Compatibility;"
        " https://github.com/tensorflow/tensorflow/issues/97387, 99592, 101746 (12.0)"
    ),
    shown=(
        "the rig's driver chooses among the code in the wheel: nothing for 3.0 and 5.2, machine code for 7.5 and 9.0."
        " Not shown: that compiled PTX fails on 12.0"
    ),
)
def gpu_architecture(snapshot: Snapshot) -> DoctorFinding:
    """A GPU for which this TensorFlow has no machine code."""
    tensorflow, devices = snapshot.tensorflow, snapshot.driver.devices
    if tensorflow is None or not devices:
        return skipped("no GPU to query")
    if not tensorflow.capabilities:
        return blind(f"the TensorFlow {tensorflow.version} wheel does not say which GPUs it was built for")
    findings = [_architecture_of(snapshot, device) for device in devices]
    return max(findings, key=_severity)


def _severity(finding: DoctorFinding) -> int:
    return _SEVERITIES.index("note" if finding.note else finding.status)


def _architecture_of(snapshot: Snapshot, device: CudaDevice) -> DoctorFinding:
    """Return the finding for one GPU."""
    assert snapshot.tensorflow is not None
    capability, codes = device.capability, snapshot.tensorflow.capabilities
    if capability is None:
        return blind(f"the driver does not report the compute capability of {device.name}")
    who = f"{device.name} (GPU {device.index}) has compute capability {capability[0]}.{capability[1]}"
    holds = f"TensorFlow {snapshot.tensorflow.version} is built for {', '.join(codes)}"
    if runs_on(codes, capability):
        return passed(f"{who}, which this wheel has code for")
    portable = [each for each in ptx(codes) if each <= capability]
    if not portable:
        return failed(
            "no-kernel-image",
            f"{who}; {holds}: none of its code runs there.{_without_code(capability)}",
            *_last_release(snapshot, capability),
        )
    if capability[0] >= _BLACKWELL:
        text = (
            f"{who}; {holds}: the only PTX is for {portable[-1][0]}.{portable[-1][1]}, and kernels are reported to"
            " fail with CUDA_ERROR_INVALID_PTX."
        )
        return failed("no-kernel-image", text, _NVIDIA_CONTAINER, _BUILD)
    return _only_ptx(snapshot, f"{who}; {holds}")


def _without_code(capability: tuple[int, int]) -> str:
    if capability < (3, 5):
        return " TensorFlow ignores the GPU and trains on the CPU."
    return " TensorFlow still lists the GPU, but its operations fail."


def _only_ptx(snapshot: Snapshot, text: str) -> DoctorFinding:
    """Return the finding for a GPU with only PTX. The driver compiles it at first use, unless the driver is too old."""
    assert snapshot.tensorflow is not None
    number = snapshot.driver.cuda_version
    wants = tuple(snapshot.tensorflow.cuda_version[:2])
    if number and cuda_version(number) < wants:
        newer = Remedy(f"Install a driver for CUDA {'.'.join(map(str, wants))} or newer")
        return failed("no-kernel-image", f"{text}: the driver is too old to compile its PTX.", newer)
    cache = Remedy("Enlarge the cache for compiled kernels", "export CUDA_CACHE_MAXSIZE=4294967296")
    return warned("no-kernel-image", f"{text}: its PTX is compiled at first use, which can take 30 minutes.", cache)


def _last_release(snapshot: Snapshot, capability: tuple[int, int]) -> tuple[Remedy, ...]:
    """Return the remedies for an old GPU, including the last release that supports it, if there is one."""
    last = last_for(capability)
    newer_gpu = Remedy("Train on a GPU of compute capability 6.0 or newer")
    if last is None:
        return (
            newer_gpu,
            Remedy("Or train on the CPU, and hide a GPU that only looks usable", "export CUDA_VISIBLE_DEVICES=-1"),
        )
    wanted = f"tensorflow[and-cuda]=={last.series[0]}.{last.series[1]}.*"
    newest = f"3.{last.pythons[1]}"
    text = f"Install the last TensorFlow that supports it, {last.series[0]}.{last.series[1]} (Python {newest} or older)"
    old = Remedy(text, install(snapshot, wanted), changes="the TensorFlow and Keras versions")
    return (old, newer_gpu)


_CACHE_BYTES = 1 << 30


@check(
    "DOC305",
    why=(
        "Compiling TensorFlow's kernels takes minutes. A cache keeps them, unless it is off, too small or not writable."
    ),
    faults=("no-kernel-image",),
    needs=("driver", "host"),
    source=(
        "CUDA C++ Programming Guide, environment variables; the .nv_fatbin section of the wheel's libtensorflow_cc.so.2"
    ),
)
def ptx_cache(snapshot: Snapshot) -> DoctorFinding:
    """The driver's cache for kernels compiled from PTX, if this GPU needs it."""
    host, environment = snapshot.host, snapshot.environment
    if not any(_needs_ptx(snapshot, device) for device in snapshot.driver.devices):
        return skipped("no GPU here needs kernels compiled from PTX")
    if environment.get("CUDA_CACHE_DISABLE") == "1":
        text = "CUDA_CACHE_DISABLE=1: the kernels that this GPU needs are recompiled in every process."
        return warned("no-kernel-image", text, Remedy("Enable the cache", "unset CUDA_CACHE_DISABLE"))
    if not host.cache_writable:
        text = f"The cache for compiled kernels, {host.cache_path}, is not writable: every process recompiles them."
        return warned(
            "no-kernel-image", text, Remedy("Use a persistent folder", "export CUDA_CACHE_PATH=/path/that/lasts")
        )
    size = environment.get("CUDA_CACHE_MAXSIZE", "")
    if size.isdigit() and int(size) < _CACHE_BYTES:
        text = f"CUDA_CACHE_MAXSIZE={size} is too small for TensorFlow's kernels: they evict each other."
        return warned("no-kernel-image", text, Remedy("Enlarge it", "export CUDA_CACHE_MAXSIZE=4294967296"))
    return passed(f"compiled kernels are kept in {host.cache_path}")


def _needs_ptx(snapshot: Snapshot, device: CudaDevice) -> bool:
    """True if some kernels have no machine code for this GPU, because it is at least as new as the wheel's PTX.

    Most kernels in the 2.21.0 wheel contain PTX for compute_90, but no machine code alongside it.
    """
    codes = ptx(snapshot.tensorflow.capabilities) if snapshot.tensorflow else []
    return device.capability is not None and any(code <= device.capability for code in codes)


_OWN_COMPILER = (2, 21)
"""The first release known to compile without ptxas and libdevice on the machine, since its wheel contains its own
compiler and libdevice. Earlier releases were not tested."""


@check(
    "DOC306",
    why=(
        "Keras 3 compiles with XLA on a GPU by default; XLA needs libdevice for functions such as exp, and an"
        " assembler."
    ),
    faults=("cuda-toolchain-missing",),
    needs=("toolchain",),
    source="cuda_root_path.cc and gpu_backend_lib.cc of xla; https://github.com/tensorflow/tensorflow/issues/58681",
    shown="TensorFlow 2.21 compiles on the rig with neither of them on the machine",
)
def xla_toolchain(snapshot: Snapshot) -> DoctorFinding:
    """Missing ptxas or libdevice, which XLA needs to compile for a GPU."""
    tools, tensorflow = snapshot.toolchain, snapshot.tensorflow
    if tensorflow is None or not snapshot.gpu_wanted or not tensorflow.cuda_version:
        return skipped("no CUDA build of TensorFlow, or no NVIDIA GPU")
    if not tools.data_dir_exists:
        text = f"XLA_FLAGS sets --xla_gpu_cuda_data_dir={tools.data_dir}, but that folder does not exist."
        return failed(
            "cuda-toolchain-missing",
            text,
            Remedy("Choose one that contains nvvm/libdevice, or unset it", "unset XLA_FLAGS"),
        )
    missing = [name for name, path in (("ptxas", tools.ptxas), ("libdevice", tools.libdevice)) if not path]
    if not missing:
        return passed(f"ptxas {tools.ptxas}, libdevice {tools.libdevice}")
    if tensorflow.numbers[:2] >= _OWN_COMPILER:
        return passed(f"no {' and no '.join(missing)}; TensorFlow {tensorflow.version} includes its own")
    generation = tensorflow.cuda_version[0]
    get = Remedy("Install them", install(snapshot, f"nvidia-cuda-nvcc-cu{generation}"))
    text = f"No {' and no '.join(missing)}: jit_compile=True, which Keras 3 sets by default on a GPU, may fail."
    return warned("cuda-toolchain-missing", text, get) if "libdevice" in missing else noted(text, get)
