"""Device files under /dev that are missing or closed to this user."""

from oomph.doctor.check import Check, Finding, failed, passed, skipped
from oomph.doctor.commands import container_run
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_UVM = "nvidia-uvm"


def _look(snapshot: Snapshot) -> Finding:
    host = snapshot.host
    if host.wsl or not host.kernel_driver:
        return skipped("no NVIDIA kernel module here" if not host.wsl else "WSL2 has /dev/dxg instead")
    closed = [node for node in host.nodes if not node.readable]
    if closed:
        named = ", ".join(f"{node.path} ({node.owner})" for node in closed)
        return failed("driver-missing", f"No permission for {named}.", *_let_in(snapshot, closed[0].owner))
    names = {node.path.rpartition("/")[2] for node in host.nodes}
    missing = [name for name in ("nvidiactl", _UVM) if name not in names]
    if not any(name.removeprefix("nvidia").isdigit() for name in names):
        missing.insert(0, "nvidia0")
    if missing:
        named = ", ".join(f"/dev/{name}" for name in missing)
        return failed(
            "driver-missing",
            f"The kernel module {host.kernel_driver} is loaded, but {named} is missing.",
            *_make(snapshot),
        )
    return passed(f"{len(host.nodes)} device files, all accessible")


def _let_in(snapshot: Snapshot, owner: str) -> tuple[Remedy, ...]:
    if snapshot.host.container:
        return (Remedy("Start the container with its GPUs, not with the device files alone", container_run(snapshot)),)
    group = owner.partition(":")[2].split(" ")[0] or "video"
    return (Remedy("Join the group that may use them, then log in again", f"sudo usermod -aG {group} $USER"),)


def _make(snapshot: Snapshot) -> tuple[Remedy, ...]:
    if snapshot.host.container:
        return (Remedy("Start the container with its GPUs", container_run(snapshot)),)
    return (Remedy("Load the module and create the files", "sudo modprobe nvidia_uvm && sudo nvidia-modprobe -u -c=0"),)


CHECK = Check(
    code="DOC205",
    name="device-nodes",
    why=(
        "libcuda opens /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidiaN. If one is missing, cuInit fails with an"
        " unrelated error code."
    ),
    look=_look,
    faults=("driver-missing",),
    needs=("host",),
    source="https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/faq.html (device files)",
)
