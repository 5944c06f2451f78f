"""Checks the NVIDIA driver and the devices it exposes."""

from __future__ import annotations

import shlex

from oomph.doctor.check import DoctorFinding, blind, check, failed, noted, passed, skipped, warned
from oomph.doctor.commands import container_run, driver_branch, driver_upgrade, install, without_entry
from oomph.doctor.repairs import repairs
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy
from oomph.gpu.question import cuda_version


@check(
    "DOC201",
    why=(
        'Without libcuda.so.1, TensorFlow trains on the CPU. Its message "Could not find cuda drivers" does not help:'
        " it is about libcudart, not the driver."
    ),
    faults=("driver-missing",),
    needs=("host", "libraries", "driver"),
    source="cuda_platform.cc and cudart_stub.cc of xla",
    shown="with the rig's libraries and no driver TensorFlow lists no GPU and prints UNKNOWN ERROR (303)",
)
def gpu_present(snapshot: Snapshot) -> DoctorFinding:
    """There is no NVIDIA GPU, or it is not visible here."""
    host, driver = snapshot.host, snapshot.driver
    if driver.asked:
        return passed(f"NVIDIA driver {_driver_version(snapshot)}".rstrip())
    if not snapshot.nvidia_hardware:
        return noted(no_gpu(snapshot), *_give_gpu(snapshot))
    seen = _seen_hardware(snapshot)
    if host.container:
        text = (
            f"There is an NVIDIA GPU ({seen}), but this {host.container} container was started without it: libcuda.so.1"
            " is missing."
        )
        return failed("driver-missing", text, *_give_gpu(snapshot))
    if host.wsl:
        text = "WSL2 without NVIDIA's driver: libcuda.so.1 is not in /usr/lib/wsl/lib."
        windows = Remedy("Install the driver in Windows, never in WSL, then restart WSL", "wsl.exe --shutdown")
        return failed("driver-missing", text, windows)
    if "nouveau" in host.modules:
        text = f"There is an NVIDIA GPU ({seen}), but the kernel uses nouveau, which does not support CUDA."
    else:
        text = f"There is an NVIDIA GPU ({seen}), but no NVIDIA driver: libcuda.so.1 is not on the loader's path."
    add = Remedy("Install NVIDIA's driver, then reboot", "sudo apt-get install -y nvidia-driver-550 && sudo reboot")
    return failed("driver-missing", text, add)


def no_gpu(snapshot: Snapshot) -> str:
    """Describe a machine without an NVIDIA GPU in one line."""
    version = f"TensorFlow {snapshot.tensorflow.version}" if snapshot.tensorflow else "TensorFlow"
    return f"No NVIDIA GPU here (no driver library, no device file, none on the PCI bus): {version} trains on the CPU."


def _give_gpu(snapshot: Snapshot) -> tuple[Remedy, ...]:
    """Return the remedies that make a GPU visible, for example by giving a container access to it."""
    if not snapshot.host.container:
        return (Remedy("If there should be one, check whether the machine detects it", "lspci -d 10de:"),)
    text = (
        "Start the container with GPU access"
        if snapshot.nvidia_hardware
        else "If the host has one, give the container access to it"
    )
    return (Remedy(text, container_run(snapshot)),)


def _seen_hardware(snapshot: Snapshot) -> str:
    on_bus = [device.address for device in snapshot.host.pci if device.vendor == "10de"]
    nodes = [node.path for node in snapshot.host.nodes]
    kernel = [f"kernel module {snapshot.host.kernel_driver}"] if snapshot.host.kernel_driver else []
    return ", ".join([*(f"PCI {address}" for address in on_bus), *nodes, *kernel][:3])


def _driver_version(snapshot: Snapshot) -> str:
    return snapshot.nvml.driver or snapshot.host.kernel_driver


_REBOOT = Remedy("Reboot", "sudo reboot")
_REBOOT_TO_MATCH = Remedy(
    "Reboot so that the kernel module and the libraries have the same version again", "sudo reboot"
)
_KERNEL_LOG = Remedy("Check the kernel log for messages about the GPU", "sudo dmesg | grep -iE 'NVRM|Xid'")
_RELOAD = Remedy("Reload the module that CUDA needs", "sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm")

_MISSING, _MISMATCH, _HARDWARE = "driver-missing", "driver-library-mismatch", "hardware-fault"
_CUINIT_CODES = {
    3: ("CUDA_ERROR_NOT_INITIALIZED", _MISSING, "the driver could not be initialised"),
    34: ("CUDA_ERROR_STUB_LIBRARY", _MISMATCH, "the loaded libcuda.so.1 is a stub for linking, not the driver"),
    46: ("CUDA_ERROR_DEVICE_UNAVAILABLE", "device-oom-other-process", "the GPU is in use, or in exclusive mode"),
    100: ("CUDA_ERROR_NO_DEVICE", _MISSING, "the driver is installed but sees no GPU"),
    101: ("CUDA_ERROR_INVALID_DEVICE", _MISSING, "the requested GPU does not exist"),
    802: ("CUDA_ERROR_SYSTEM_NOT_READY", _HARDWARE, "a daemon is not running (on HGX and DGX, the Fabric Manager)"),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", _MISMATCH, "the kernel module and libcuda.so.1 have different versions"),
    804: (
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        _MISMATCH,
        "this GPU does not support a cuda-compat libcuda.so.1",
    ),
    999: ("CUDA_ERROR_UNKNOWN", _HARDWARE, "the driver failed without saying why"),
}


@check(
    "DOC202",
    why='TensorFlow calls cuInit only once. If that fails, it prints "failed call to cuInit" and trains on the CPU.',
    faults=("driver-missing", "driver-library-mismatch", "device-oom-other-process", "hardware-fault"),
    needs=("driver",),
    source="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html (CUresult); cuda_platform.cc of xla",
    shown="the rig's cuInit returns each code: TensorFlow prints the same name and lists no GPU",
)
def driver_start(snapshot: Snapshot) -> DoctorFinding:
    """cuInit fails, crashes or never returns."""
    driver = snapshot.driver
    if not driver.asked:
        return skipped("no driver to query")
    if driver.load_error:
        command = f"sudo apt-get install --reinstall libnvidia-compute-{driver_branch(snapshot)}"
        fresh = Remedy("Reinstall the driver's library", command)
        return failed("driver-missing", f"libcuda.so.1 exists but cannot be loaded: {driver.load_error}.", fresh)
    if snapshot.gpus_hidden:
        return skipped("CUDA_VISIBLE_DEVICES hides every GPU, so cuInit finds none")
    if driver.init is None:
        text = f"cuInit: {driver.problem or 'no answer'}. The same happens in TensorFlow when it first looks for a GPU."
        return failed("hardware-fault", text, _KERNEL_LOG, _REBOOT)
    if driver.init == 0:
        if driver.problem:
            return failed(
                "hardware-fault", f"cuInit succeeds, but then: {driver.problem}.", _KERNEL_LOG, _REBOOT_TO_MATCH
            )
        if not driver.devices:
            return failed("driver-missing", "cuInit succeeds, but the driver sees no GPU.", *_no_device(snapshot))
        took = f" in {driver.init_seconds:.2f} s" if driver.init_seconds is not None else ""
        return passed(f"cuInit succeeds{took}: {_device_names(snapshot)}")
    name, fault, meaning = _CUINIT_CODES.get(driver.init, (f"error {driver.init}", _HARDWARE, "the driver failed"))
    return failed(fault, f"cuInit returns {driver.init} ({name}): {meaning}.", *_after_cuinit(snapshot, driver.init))


def _device_names(snapshot: Snapshot) -> str:
    names = [device.name for device in snapshot.driver.devices]
    return ", ".join(f"{names.count(name)}× {name}" for name in dict.fromkeys(names))


def _after_cuinit(snapshot: Snapshot, code: int) -> tuple[Remedy, ...]:
    """Return the remedies for a cuInit error code on this machine."""
    match code:
        case 34 | 804:
            return (*_remove_foreign(snapshot), _REBOOT_TO_MATCH) if code == 804 else _remove_foreign(snapshot)
        case 803:
            return (*_remove_foreign(snapshot, only_named=True), _REBOOT_TO_MATCH)
        case 46:
            return (
                Remedy("See what is using it", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
                Remedy("Let processes share it", "sudo nvidia-smi --compute-mode=DEFAULT"),
            )
        case 100 | 101:
            return _no_device(snapshot)
        case 802:
            return (
                Remedy(
                    "Start the Fabric Manager; its version must match the driver's",
                    "sudo systemctl enable --now nvidia-fabricmanager",
                ),
                Remedy("Find out why it does not start", "journalctl -u nvidia-fabricmanager"),
            )
        case 3:
            return (*_restart_container(snapshot), _RELOAD, _REBOOT_TO_MATCH)
    return (*_restart_container(snapshot), _RELOAD, _KERNEL_LOG, _REBOOT)


def _remove_foreign(snapshot: Snapshot, only_named: bool = False) -> tuple[Remedy, ...]:
    """Return the remedies that take a wrong libcuda.so.1 off the path: a stub, or one from cuda-compat."""
    library = snapshot.library("libcuda.so")
    winner = library.winner if library else None
    if winner is None or (only_named and not _is_compat(winner.path)):
        return ()
    if winner.where == "LD_LIBRARY_PATH":
        text = f"Remove {winner.folder} from LD_LIBRARY_PATH, so that the driver's own libcuda.so.1 is found"
        by_itself = any(repair.variable == "LD_LIBRARY_PATH" for repair in repairs(snapshot))
        command = without_entry(snapshot, winner.folder)
        return (Remedy(text, command, action="repair-environment" if by_itself else ""),)
    text = f"Remove {winner.folder} from the loader's configuration"
    if _is_compat(winner.path) and "stubs" not in winner.path:
        return (Remedy(text, "sudo apt-get remove 'cuda-compat-*' && sudo ldconfig"),)
    naming = f"grep -rlZ {shlex.quote(winner.folder)} /etc/ld.so.conf.d/"
    return (Remedy(text, f"{naming} | xargs -r -0 sudo rm && sudo ldconfig"),)


def _is_compat(path: str) -> bool:
    return "compat" in path or "stubs" in path


def _no_device(snapshot: Snapshot) -> tuple[Remedy, ...]:
    visible = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    found: list[Remedy] = []
    if visible is not None:
        found.append(Remedy(f"Unset CUDA_VISIBLE_DEVICES={visible!r}, which may hide it", "unset CUDA_VISIBLE_DEVICES"))
    if snapshot.host.container:
        found.append(Remedy("Start the container with GPU access", container_run(snapshot)))
    seen = Remedy("Check whether the driver has found the GPU", "nvidia-smi -L")
    return (*found, seen, _KERNEL_LOG)


def _restart_container(snapshot: Snapshot) -> tuple[Remedy, ...]:
    """Return the remedies for a container that loses its devices when systemd reloads on the host."""
    if not snapshot.host.container:
        return ()
    return (Remedy("Restart the container: it may have lost its devices", container_run(snapshot)),)


_OLDEST_DRIVER = {11: ("450.80.02", "450"), 12: ("525.60.13", "550"), 13: ("580.65.06", "580")}
"""The oldest Linux driver for each CUDA major version, and the branch to install."""


@check(
    "DOC203",
    why=(
        "CUDA's runtime rejects a driver of an older major version: TensorFlow lists the GPU, but fails at the first"
        " operation on it."
    ),
    faults=("driver-too-old",),
    needs=("driver", "tensorflow"),
    source=(
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html;"
        " cudaErrorInsufficientDriver (35)"
    ),
    shown="the rig's runtime rejects such a driver with 35, as NVIDIA documents; TensorFlow's reaction is real",
)
def driver_version(snapshot: Snapshot) -> DoctorFinding:
    """A driver that is too old for the CUDA version of this TensorFlow."""
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
        oldest, branch = _OLDEST_DRIVER.get(wants[0], ("a newer one", "580"))
        return failed(
            "driver-too-old",
            f"{text}, which needs driver {oldest} or newer; this is {named}.",
            *_upgrade(snapshot, branch, oldest),
        )
    if has < tuple(wants[:2]):
        return noted(
            f"{text}, and {named} is older: minor-version compatibility, which works for machine code but does not"
            " compile PTX"
        )
    return passed(f"{named} supports CUDA {'.'.join(map(str, wants))}")


def _upgrade(snapshot: Snapshot, branch: str, oldest: str) -> tuple[Remedy, ...]:
    assert snapshot.tensorflow is not None
    older = Remedy(
        "Or install the last TensorFlow built for CUDA 11",
        install(snapshot, "tensorflow[and-cuda]==2.14.1"),
        changes="the TensorFlow and Keras versions",
    )
    if snapshot.host.wsl:
        return (Remedy(f"Install driver {oldest} or newer in Windows, then restart WSL", "wsl.exe --shutdown"), older)
    if snapshot.host.container:
        return (Remedy(f"Upgrade the host's driver (not the container's) to {oldest} or newer"), older)
    return (Remedy("Upgrade the driver, then reboot", driver_upgrade(snapshot, branch)), older)


_SILENT_SINCE = (2, 21)
"""The first release for which tests show that TensorFlow needs NVML. Earlier ones may need it too."""
_NVML_NOT_LOADED, _NVML_MISMATCH = 9, 18  # nvmlReturn_t


@check(
    "DOC204",
    why=(
        "TensorFlow 2.21 queries NVML before it registers a GPU. If NVML is missing or fails, the list of GPUs is"
        " empty and nothing is printed."
    ),
    faults=("driver-library-mismatch", "driver-missing", "hardware-fault"),
    needs=("nvml",),
    source="measured with TensorFlow 2.21.0",
    shown="with the rig's NVML removed, and with its nvmlInit returning 18: the list is empty, and nothing is printed",
)
def nvml(snapshot: Snapshot) -> DoctorFinding:
    """NVML is missing, or its version differs from the kernel module's: TensorFlow then silently drops the GPU."""
    nvml = snapshot.nvml
    if not snapshot.driver.asked:
        return skipped("no driver")
    if not nvml.asked:
        return _without_nvml(
            snapshot,
            "driver-library-mismatch",
            "libnvidia-ml.so.1 is missing next to libcuda.so.1",
            *_install_nvml(snapshot),
        )
    if nvml.unavailable:
        return blind(nvml.unavailable)
    if nvml.init is None:
        return _without_nvml(snapshot, "hardware-fault", f"NVML: {nvml.problem or 'no answer'}", _REBOOT)
    if nvml.init == _NVML_MISMATCH:
        text = "nvmlInit returns 18: libnvidia-ml.so.1 and the kernel module have different versions"
        return _without_nvml(
            snapshot, "driver-library-mismatch", text, _REBOOT_TO_MATCH, *_restart_after_host(snapshot)
        )
    if nvml.init:
        text = f"nvmlInit returns {nvml.init}: {nvml.error}"
        fault = "driver-missing" if nvml.init == _NVML_NOT_LOADED else "driver-library-mismatch"
        return _without_nvml(snapshot, fault, text, *_restart_after_host(snapshot), _REBOOT_TO_MATCH)
    if nvml.problem:
        return warned(
            "hardware-fault",
            f"NVML starts, but then fails: {nvml.problem}.",
            Remedy("Check the kernel log", "sudo dmesg | grep -iE 'NVRM|Xid'"),
        )
    return passed(f"NVML responds: driver {nvml.driver}")


def _without_nvml(snapshot: Snapshot, fault: str, text: str, *remedies: Remedy) -> DoctorFinding:
    tensorflow = snapshot.tensorflow
    if tensorflow is not None and tensorflow.numbers[:2] >= _SILENT_SINCE:
        return failed(
            fault, f"{text}. TensorFlow {tensorflow.version} then drops the GPU without a message.", *remedies
        )
    return warned(
        fault, f"{text}. Monitoring does not work; TensorFlow 2.21 and later would also drop the GPU.", *remedies
    )


def _install_nvml(snapshot: Snapshot) -> tuple[Remedy, ...]:
    if not snapshot.host.container:
        command = f"sudo apt-get install -y nvidia-utils-{driver_branch(snapshot)}"
        return (Remedy("Install the driver package that contains it", command),)
    text = "Start the container with the driver's `utility` capability"
    command = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."
    if snapshot.host.container == "kubernetes":
        command = "env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: 'compute,utility'}]"
    return (Remedy(text, command),)


def _restart_after_host(snapshot: Snapshot) -> tuple[Remedy, ...]:
    if not snapshot.host.container:
        return ()
    return (Remedy("Restart the host, then the container", container_run(snapshot)),)


@check(
    "DOC205",
    why=(
        "libcuda opens /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidiaN. If one is missing, cuInit fails with an"
        " unrelated error code."
    ),
    faults=("driver-missing",),
    needs=("host",),
    source="https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/faq.html (device files)",
)
def device_nodes(snapshot: Snapshot) -> DoctorFinding:
    """Device files under /dev that are missing, or that this user may not access."""
    host = snapshot.host
    if host.wsl or not host.kernel_driver:
        return skipped("no NVIDIA kernel module here" if not host.wsl else "WSL2 has /dev/dxg instead")
    closed = [node for node in host.nodes if not node.readable]
    if closed:
        named = ", ".join(f"{node.path} ({node.owner})" for node in closed)
        return failed("driver-missing", f"No permission to access {named}.", *_let_in(snapshot, closed[0].owner))
    names = {node.path.rpartition("/")[2] for node in host.nodes}
    missing = [name for name in ("nvidiactl", "nvidia-uvm") if name not in names]
    if not any(name.removeprefix("nvidia").isdigit() for name in names):
        missing.insert(0, "nvidia0")
    if missing:
        named = ", ".join(f"/dev/{name}" for name in missing)
        return failed(
            "driver-missing",
            f"The kernel module {host.kernel_driver} is loaded, but {named} is missing.",
            *_make_nodes(snapshot),
        )
    return passed(f"{len(host.nodes)} device files, all accessible")


def _let_in(snapshot: Snapshot, owner: str) -> tuple[Remedy, ...]:
    if snapshot.host.container:
        return (Remedy("Start the container with GPU access, not just the device files", container_run(snapshot)),)
    group = owner.partition(":")[2].split(" ")[0] or "video"
    return (Remedy("Join the group that can access them, then log in again", f"sudo usermod -aG {group} $USER"),)


def _make_nodes(snapshot: Snapshot) -> tuple[Remedy, ...]:
    if snapshot.host.container:
        return (Remedy("Start the container with GPU access", container_run(snapshot)),)
    return (Remedy("Load the module and create the files", "sudo modprobe nvidia_uvm && sudo nvidia-modprobe -u -c=0"),)


_ROCM = Remedy(
    "Use AMD's build of TensorFlow; oomph explains its errors, but cannot repair them",
    "docker run --device=/dev/kfd --device=/dev/dri rocm/tensorflow:latest ...",
)


@check(
    "DOC206",
    why="The wheels on PyPI contain code for NVIDIA GPUs only.",
    faults=("cpu-only-build",),
    needs=("host",),
    source="https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/3rd-party/tensorflow-install.html",
)
def amd_gpu(snapshot: Snapshot) -> DoctorFinding:
    """An AMD GPU, which the TensorFlow CUDA wheel cannot use."""
    found = [device.address for device in snapshot.host.pci if device.vendor == "1002"]
    if not found:
        return skipped("no AMD GPU")
    where = f"AMD GPU at PCI {', '.join(found)}"
    if snapshot.tensorflow is not None and snapshot.tensorflow.rocm:
        return noted(
            f"{where}, and a TensorFlow built for ROCm: oomph recognises its errors, but is neither designed for ROCm"
            " nor tested on it"
        )
    if snapshot.gpu_wanted:
        return passed(f"{where}, alongside an NVIDIA GPU")
    return warned("cpu-only-build", f"{where}: this TensorFlow is built for NVIDIA GPUs and cannot use it.", _ROCM)
