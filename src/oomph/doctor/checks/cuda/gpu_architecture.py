"""A GPU for which this TensorFlow holds no machine code."""

from oomph.doctor.check import Check, Finding, blind, failed, passed, skipped, warned
from oomph.doctor.commands import install
from oomph.doctor.releases import last_for, ptx, runs_on
from oomph.doctor.snapshot import CudaDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy
from oomph.gpu.versions import cuda_version

_BLACKWELL = 10
_NGC = Remedy(
    "Use a build that has code for it, such as NVIDIA's container",
    "docker run --gpus all -it nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
    changes="the build of TensorFlow",
)
_SOURCE = Remedy(
    "Or build TensorFlow with its architecture",
    "bazel build --config=cuda --config=cuda_wheel --repo_env=HERMETIC_CUDA_VERSION=12.8.0"
    " --repo_env=HERMETIC_CUDA_COMPUTE_CAPABILITIES=sm_120,compute_120 //tensorflow/tools/pip_package:wheel",
)
_ORDER = ("pass", "note", "skip", "warn", "fail")


def _look(snapshot: Snapshot) -> Finding:
    tensorflow, devices = snapshot.tensorflow, snapshot.driver.devices
    if tensorflow is None or not devices:
        return skipped("no GPU to ask")
    if not tensorflow.capabilities:
        return blind(f"the wheel of TensorFlow {tensorflow.version} does not say which GPUs it is built for")
    findings = [_of(snapshot, device) for device in devices]
    return max(findings, key=_weight)


def _weight(finding: Finding) -> int:
    return _ORDER.index("note" if finding.note else finding.status)


def _of(snapshot: Snapshot, device: CudaDevice) -> Finding:
    """The finding about one GPU."""
    assert snapshot.tensorflow is not None
    capability, codes = device.capability, snapshot.tensorflow.capabilities
    if capability is None:
        return blind(f"the driver does not say the compute capability of {device.name}")
    who = f"{device.name} (GPU {device.index}) has compute capability {capability[0]}.{capability[1]}"
    holds = f"TensorFlow {snapshot.tensorflow.version} is built for {', '.join(codes)}"
    if runs_on(codes, capability):
        return passed(f"{who}, which this wheel has code for")
    portable = [each for each in ptx(codes) if each <= capability]
    if not portable:
        return failed(
            "no-kernel-image",
            f"{who}; {holds}: nothing in it runs there.{_ignored(capability)}",
            *_older(snapshot, capability),
        )
    if capability[0] >= _BLACKWELL:
        text = (
            f"{who}; {holds}: the only PTX is for {portable[-1][0]}.{portable[-1][1]}, and kernels are reported to"
            " fail with CUDA_ERROR_INVALID_PTX."
        )
        return failed("no-kernel-image", text, _NGC, _SOURCE)
    return _compiled(snapshot, f"{who}; {holds}")


def _ignored(capability: tuple[int, int]) -> str:
    if capability < (3, 5):
        return " TensorFlow ignores the GPU and trains on the CPU."
    return " TensorFlow still lists the GPU, but its operations fail."


def _compiled(snapshot: Snapshot, text: str) -> Finding:
    """Only PTX: the driver compiles it at first use, if it is not older than the PTX."""
    assert snapshot.tensorflow is not None
    number = snapshot.driver.cuda_version
    wants = tuple(snapshot.tensorflow.cuda_version[:2])
    if number and cuda_version(number) < wants:
        newer = Remedy(f"Install a driver for CUDA {'.'.join(map(str, wants))} or newer")
        return failed("no-kernel-image", f"{text}: the driver is too old to compile its PTX.", newer)
    cache = Remedy("Enlarge the cache for compiled kernels", "export CUDA_CACHE_MAXSIZE=4294967296")
    return warned("no-kernel-image", f"{text}: its PTX is compiled at first use, which can take 30 minutes.", cache)


def _older(snapshot: Snapshot, capability: tuple[int, int]) -> tuple[Remedy, ...]:
    """The last release for an old GPU, if there is one."""
    last = last_for(capability)
    newer_gpu = Remedy("Train on a GPU of compute capability 6.0 or newer")
    if last is None:
        return (
            newer_gpu,
            Remedy("Or train on the CPU, and hide a GPU that only looks usable", "export CUDA_VISIBLE_DEVICES=-1"),
        )
    wanted = f"tensorflow[and-cuda]=={last.series[0]}.{last.series[1]}.*"
    newest = f"3.{last.pythons[1]}"
    text = f"Install the last TensorFlow for it, {last.series[0]}.{last.series[1]} (Python {newest} or older)"
    old = Remedy(text, install(snapshot, wanted), changes="the TensorFlow and Keras version of the training")
    return (old, newer_gpu)


CHECK = Check(
    code="DOC304",
    name="gpu-architecture",
    why=(
        "A kernel runs on a GPU only as machine code of its major version, or as PTX that the driver compiles for a"
        " newer GPU. TensorFlow also lists GPUs on which it cannot run anything."
    ),
    look=_look,
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
