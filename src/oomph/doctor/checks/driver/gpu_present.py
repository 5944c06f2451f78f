"""No NVIDIA GPU, or one that is not visible here."""

from oomph.doctor.check import Check, Finding, failed, noted, passed
from oomph.doctor.commands import container_run
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    host, driver = snapshot.host, snapshot.driver
    if driver.asked:
        return passed(f"NVIDIA driver {_version(snapshot)}".rstrip())
    if not snapshot.nvidia_hardware:
        return noted(no_gpu(snapshot), *_give(snapshot))
    seen = _hardware(snapshot)
    if host.container:
        text = (
            f"There is an NVIDIA GPU ({seen}), but this {host.container} container was started without it: libcuda.so.1"
            " is missing."
        )
        return failed("driver-missing", text, *_give(snapshot))
    if host.wsl:
        text = "WSL2 without NVIDIA's driver: libcuda.so.1 is not in /usr/lib/wsl/lib."
        windows = Remedy("Install the driver in Windows, never in WSL, then restart WSL", "wsl.exe --shutdown")
        return failed("driver-missing", text, windows)
    if "nouveau" in host.modules:
        text = f"There is an NVIDIA GPU ({seen}), but the kernel drives it with nouveau, which does not support CUDA."
    else:
        text = f"There is an NVIDIA GPU ({seen}), but no NVIDIA driver: libcuda.so.1 is not on the loader's path."
    install = Remedy("Install NVIDIA's driver, then reboot", "sudo apt-get install -y nvidia-driver-550 && sudo reboot")
    return failed("driver-missing", text, install)


def no_gpu(snapshot: Snapshot) -> str:
    """The one line about a machine without an NVIDIA GPU."""
    version = f"TensorFlow {snapshot.tensorflow.version}" if snapshot.tensorflow else "TensorFlow"
    return f"No NVIDIA GPU here (no driver library, no device file, none on the PCI bus): {version} trains on the CPU."


def _give(snapshot: Snapshot) -> tuple[Remedy, ...]:
    """How to give a container a GPU of its host."""
    if not snapshot.host.container:
        return (Remedy("If there should be one, check whether the machine sees it", "lspci -d 10de:"),)
    text = (
        "Start the container with its GPUs"
        if snapshot.nvidia_hardware
        else "If the host has one, start the container with it"
    )
    return (Remedy(text, container_run(snapshot)),)


def _hardware(snapshot: Snapshot) -> str:
    on_bus = [device.address for device in snapshot.host.pci if device.vendor == "10de"]
    nodes = [node.path for node in snapshot.host.nodes]
    kernel = [f"kernel module {snapshot.host.kernel_driver}"] if snapshot.host.kernel_driver else []
    return ", ".join([*(f"PCI {address}" for address in on_bus), *nodes, *kernel][:3])


def _version(snapshot: Snapshot) -> str:
    return snapshot.nvml.driver or snapshot.host.kernel_driver


CHECK = Check(
    code="DOC201",
    name="gpu-present",
    why=(
        'Without libcuda.so.1 TensorFlow trains on the CPU. Its line "Could not find cuda drivers" does not help: it'
        " is about libcudart, not about the driver."
    ),
    look=_look,
    faults=("driver-missing",),
    needs=("host", "libraries", "driver"),
    source="cuda_platform.cc and cudart_stub.cc of xla",
    shown="with the rig's libraries and no driver TensorFlow lists no GPU and prints UNKNOWN ERROR (303)",
)
