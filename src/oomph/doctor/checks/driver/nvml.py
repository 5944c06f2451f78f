"""NVML is missing, or its version is not the kernel module's: TensorFlow then silently drops the GPU."""

from oomph.doctor.check import Check, Finding, blind, failed, passed, skipped, warned
from oomph.doctor.commands import container_run, driver_branch
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_SILENT_SINCE = (2, 21)
"""Shown with 2.21. Which earlier release first needed NVML is not known."""
_NOT_LOADED, _MISMATCH = 9, 18  # nvmlReturn_t
_REBOOT = Remedy("Reboot, so that the kernel module and the libraries have the same version again", "sudo reboot")


def _look(snapshot: Snapshot) -> Finding:
    nvml = snapshot.nvml
    if not snapshot.driver.asked:
        return skipped("no driver")
    if not nvml.asked:
        return _finding(
            snapshot, "driver-library-mismatch", "libnvidia-ml.so.1 is missing beside libcuda.so.1", *_utility(snapshot)
        )
    if nvml.unavailable:
        return blind(nvml.unavailable)
    if nvml.init is None:
        return _finding(
            snapshot, "hardware-fault", f"NVML: {nvml.problem or 'no answer'}", Remedy("Reboot", "sudo reboot")
        )
    if nvml.init == _MISMATCH:
        text = "nvmlInit returns 18: libnvidia-ml.so.1 and the kernel module have different versions"
        return _finding(snapshot, "driver-library-mismatch", text, _REBOOT, *_again(snapshot))
    if nvml.init:
        text = f"nvmlInit returns {nvml.init}: {nvml.error}"
        fault = "driver-missing" if nvml.init == _NOT_LOADED else "driver-library-mismatch"
        return _finding(snapshot, fault, text, *_again(snapshot), _REBOOT)
    if nvml.problem:
        return warned(
            "hardware-fault",
            f"NVML begins to answer, then: {nvml.problem}.",
            Remedy("Read the kernel's log", "sudo dmesg | grep -iE 'NVRM|Xid'"),
        )
    return passed(f"NVML answers: driver {nvml.driver}")


def _finding(snapshot: Snapshot, fault: str, text: str, *remedies: Remedy) -> Finding:
    tensorflow = snapshot.tensorflow
    if tensorflow is not None and tensorflow.numbers[:2] >= _SILENT_SINCE:
        return failed(
            fault, f"{text}. TensorFlow {tensorflow.version} then drops the GPU and prints nothing.", *remedies
        )
    return warned(
        fault, f"{text}. Monitoring does not work; TensorFlow 2.21 and later would also drop the GPU.", *remedies
    )


def _utility(snapshot: Snapshot) -> tuple[Remedy, ...]:
    if not snapshot.host.container:
        command = f"sudo apt-get install -y nvidia-utils-{driver_branch(snapshot)}"
        return (Remedy("Install the part of the driver that contains it", command),)
    text = "Start the container with the driver's `utility` part"
    command = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."
    if snapshot.host.container == "kubernetes":
        command = "env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: 'compute,utility'}]"
    return (Remedy(text, command),)


def _again(snapshot: Snapshot) -> tuple[Remedy, ...]:
    if not snapshot.host.container:
        return ()
    return (Remedy("Restart the container, after the host", container_run(snapshot)),)


CHECK = Check(
    code="DOC204",
    name="nvml",
    why=(
        "TensorFlow 2.21 asks NVML before it registers a GPU. If NVML is missing or fails, the list of GPUs is"
        " empty and nothing is printed."
    ),
    look=_look,
    faults=("driver-library-mismatch", "driver-missing", "hardware-fault"),
    needs=("nvml",),
    source="measured with TensorFlow 2.21.0",
    shown="with the rig's NVML removed, and with its nvmlInit returning 18: an empty list, no line",
)
