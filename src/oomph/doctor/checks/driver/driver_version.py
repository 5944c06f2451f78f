"""A driver that is too old for this TensorFlow's CUDA."""

from oomph.doctor.check import Check, Finding, blind, failed, noted, passed, skipped
from oomph.doctor.commands import driver_upgrade, install
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy
from oomph.gpu.versions import cuda_version

_OLDEST = {11: ("450.80.02", "450"), 12: ("525.60.13", "550"), 13: ("580.65.06", "580")}
"""CUDA's major version → the oldest Linux driver, and the branch to install."""


def _look(snapshot: Snapshot) -> Finding:
    tensorflow, driver, nvml = snapshot.tensorflow, snapshot.driver, snapshot.nvml
    number = driver.cuda_version or nvml.cuda_version
    if tensorflow is None or not tensorflow.cuda_version or not driver.asked:
        return skipped("no CUDA build of TensorFlow, or no driver")
    if not number:
        return blind("the driver did not report its version")
    has, wants = cuda_version(number), tensorflow.cuda_version
    name = nvml.driver or snapshot.host.kernel_driver
    named = f"driver {name} (CUDA {has[0]}.{has[1]})" if name else f"a driver for CUDA {has[0]}.{has[1]}"
    text = f"TensorFlow {tensorflow.version} is built with CUDA {'.'.join(map(str, wants))}"
    if has[0] < wants[0]:
        oldest, branch = _OLDEST.get(wants[0], ("a newer one", "580"))
        return failed(
            "driver-too-old",
            f"{text}, which needs driver {oldest} or newer; this is {named}.",
            *_upgrade(snapshot, branch, oldest),
        )
    if has < tuple(wants[:2]):
        return noted(
            f"{text}, and {named} is older: minor-version compatibility, which works for machine code but compiles"
            " no PTX"
        )
    return passed(f"{named} runs CUDA {'.'.join(map(str, wants))}")


def _upgrade(snapshot: Snapshot, branch: str, oldest: str) -> tuple[Remedy, ...]:
    assert snapshot.tensorflow is not None
    older = Remedy(
        "Or install the last TensorFlow for CUDA 11",
        _older(snapshot),
        changes="the TensorFlow and Keras version of the training",
    )
    if snapshot.host.wsl:
        return (Remedy(f"Install driver {oldest} or newer in Windows, then restart WSL", "wsl.exe --shutdown"), older)
    if snapshot.host.container:
        return (Remedy(f"Upgrade the driver of the host (not of the container) to {oldest} or newer"), older)
    return (Remedy("Upgrade the driver, then reboot", driver_upgrade(snapshot, branch)), older)


def _older(snapshot: Snapshot) -> str:
    return install(snapshot, "tensorflow[and-cuda]==2.14.1")


CHECK = Check(
    code="DOC203",
    name="driver-version",
    why=(
        "CUDA's runtime rejects a driver of an older major version: TensorFlow lists the GPU, but fails at the first"
        " operation on it."
    ),
    look=_look,
    faults=("driver-too-old",),
    needs=("driver", "tensorflow"),
    source=(
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html;"
        " cudaErrorInsufficientDriver (35)"
    ),
    shown="the rig's runtime rejects such a driver with 35, as NVIDIA documents; TensorFlow's reaction is its own",
)
