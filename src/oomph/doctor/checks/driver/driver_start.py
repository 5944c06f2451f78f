"""cuInit fails, crashes or never returns."""

from oomph.doctor.check import Check, Finding, failed, passed, skipped
from oomph.doctor.checks.settings.cuda_visible_devices import hides_all
from oomph.doctor.commands import container_run, driver_branch, without_entry
from oomph.doctor.repairs import repairs
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_REBOOT = Remedy("Reboot, so that the kernel module and the libraries have the same version again", "sudo reboot")
_KERNEL_LOG = Remedy("Read what the kernel says about the GPU", "sudo dmesg | grep -iE 'NVRM|Xid'")
_RELOAD = Remedy("Reload the module that CUDA needs", "sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm")

_MISSING, _MISMATCH, _HARDWARE = "driver-missing", "driver-library-mismatch", "hardware-fault"
_MEANINGS = {
    3: ("CUDA_ERROR_NOT_INITIALIZED", _MISSING, "the driver could not be initialised"),
    34: ("CUDA_ERROR_STUB_LIBRARY", _MISMATCH, "the loaded libcuda.so.1 is a stub for linking, not the driver"),
    46: ("CUDA_ERROR_DEVICE_UNAVAILABLE", "device-oom-other-process", "the GPU is in use, or in exclusive mode"),
    100: ("CUDA_ERROR_NO_DEVICE", _MISSING, "the driver is installed but shows no GPU"),
    101: ("CUDA_ERROR_INVALID_DEVICE", _MISSING, "the requested GPU does not exist"),
    802: ("CUDA_ERROR_SYSTEM_NOT_READY", _HARDWARE, "a daemon is not running: on HGX and DGX the Fabric Manager"),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", _MISMATCH, "kernel module and libcuda.so.1 have different versions"),
    804: (
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        _MISMATCH,
        "this GPU does not support a cuda-compat libcuda.so.1",
    ),
    999: ("CUDA_ERROR_UNKNOWN", _HARDWARE, "the driver failed, and does not say why"),
}


def _look(snapshot: Snapshot) -> Finding:
    driver = snapshot.driver
    if not driver.asked:
        return skipped("no driver to ask")
    if driver.load_error:
        command = f"sudo apt-get install --reinstall libnvidia-compute-{driver_branch(snapshot)}"
        fresh = Remedy("Reinstall the driver's library", command)
        return failed("driver-missing", f"libcuda.so.1 exists but cannot be loaded: {driver.load_error}.", fresh)
    if hides_all(snapshot):
        return skipped("CUDA_VISIBLE_DEVICES hides every GPU, so cuInit finds none")
    if driver.init is None:
        text = f"cuInit: {driver.problem or 'no answer'}. TensorFlow would do the same when it first looks for a GPU."
        return failed("hardware-fault", text, _KERNEL_LOG, Remedy("Reboot", "sudo reboot"))
    if driver.init == 0:
        if driver.problem:
            return failed("hardware-fault", f"cuInit succeeds, then: {driver.problem}.", _KERNEL_LOG, _REBOOT)
        if not driver.devices:
            return failed("driver-missing", "cuInit succeeds, but the driver shows no GPU.", *_no_device(snapshot))
        took = f" in {driver.init_seconds:.2f} s" if driver.init_seconds is not None else ""
        return passed(f"cuInit succeeds{took}: {_devices(snapshot)}")
    name, fault, meaning = _MEANINGS.get(driver.init, (f"error {driver.init}", _HARDWARE, "the driver failed"))
    return failed(fault, f"cuInit returns {driver.init} ({name}): {meaning}.", *_remedies(snapshot, driver.init))


def _devices(snapshot: Snapshot) -> str:
    names = [device.name for device in snapshot.driver.devices]
    return ", ".join(f"{names.count(name)}× {name}" for name in dict.fromkeys(names))


def _remedies(snapshot: Snapshot, code: int) -> tuple[Remedy, ...]:
    """The remedies for a cuInit code on this machine."""
    match code:
        case 34 | 804:
            return (*_foreign(snapshot), _REBOOT) if code == 804 else _foreign(snapshot)
        case 803:
            return (*_foreign(snapshot, only_named=True), _REBOOT)
        case 46:
            return (
                Remedy("See what holds it", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
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
                Remedy("See why it does not start", "journalctl -u nvidia-fabricmanager"),
            )
        case 3:
            return (*_container_again(snapshot), _RELOAD, _REBOOT)
    return (*_container_again(snapshot), _RELOAD, _KERNEL_LOG, Remedy("Reboot", "sudo reboot"))


def _foreign(snapshot: Snapshot, only_named: bool = False) -> tuple[Remedy, ...]:
    """Take the wrong libcuda.so.1 off the path: a stub, or cuda-compat's."""
    library = snapshot.library("libcuda.so")
    winner = library.winner if library else None
    if winner is None or (only_named and not _is_compat(winner.path)):
        return ()
    if winner.where == "LD_LIBRARY_PATH":
        text = f"Take {winner.folder} out of LD_LIBRARY_PATH, so that the driver's own libcuda.so.1 is found"
        by_itself = any(repair.variable == "LD_LIBRARY_PATH" for repair in repairs(snapshot))
        command = without_entry(snapshot, winner.folder)
        return (Remedy(text, command, action="repair-environment" if by_itself else ""),)
    text = f"Take {winner.folder} out of the loader's configuration"
    if _is_compat(winner.path) and "stubs" not in winner.path:
        return (Remedy(text, "sudo apt-get remove 'cuda-compat-*' && sudo ldconfig"),)
    return (Remedy(text, f"grep -rl {winner.folder} /etc/ld.so.conf.d/ | xargs sudo rm && sudo ldconfig"),)


def _is_compat(path: str) -> bool:
    return "compat" in path or "stubs" in path


def _no_device(snapshot: Snapshot) -> tuple[Remedy, ...]:
    visible = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    found: list[Remedy] = []
    if visible is not None:
        found.append(Remedy(f"Unset CUDA_VISIBLE_DEVICES={visible!r}, which may hide it", "unset CUDA_VISIBLE_DEVICES"))
    if snapshot.host.container:
        found.append(Remedy("Start the container with its GPUs", container_run(snapshot)))
    seen = Remedy("See whether the driver has found the GPU", "nvidia-smi -L")
    return (*found, seen, _KERNEL_LOG)


def _container_again(snapshot: Snapshot) -> tuple[Remedy, ...]:
    """A container loses its devices when systemd reloads on the host."""
    if not snapshot.host.container:
        return ()
    return (Remedy("Restart the container: it may have lost its devices", container_run(snapshot)),)


CHECK = Check(
    code="DOC202",
    name="driver-start",
    why=(
        'TensorFlow asks the driver once. If cuInit fails, it prints one line, "failed call to cuInit", and trains on'
        " the CPU."
    ),
    look=_look,
    faults=("driver-missing", "driver-library-mismatch", "device-oom-other-process", "hardware-fault"),
    needs=("driver",),
    source="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html (CUresult); cuda_platform.cc of xla",
    shown="the rig's cuInit returns each code: TensorFlow prints the same name and lists no GPU",
)
