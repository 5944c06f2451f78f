"""Builds the exact commands for this machine: pip installs, environment variables, container flags."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from oomph.doctor.observe.libraries import WHEELS
from oomph.doctor.snapshot import Library, Snapshot


def install(snapshot: Snapshot, *requirements: str) -> str:
    """Return the command that installs these requirements for the script's Python.

    The command uses pip, or uv if pip is missing. Without either, it installs pip first.
    """
    wanted = " ".join(map(_quoted, requirements))
    python = _quoted(snapshot.python.executable)
    if snapshot.python.pip:
        return f"{python} -m pip install {wanted}"
    if snapshot.python.uv:
        return f"uv pip install --python {python} {wanted}"
    return f"{python} -m ensurepip --upgrade && {python} -m pip install {wanted}"


def reinstall(snapshot: Snapshot, remove: Iterable[str], add: str) -> str:
    """Return the command that uninstalls the distributions in `remove` and installs `add`."""
    python, names = _quoted(snapshot.python.executable), " ".join(remove)
    if not snapshot.python.pip and snapshot.python.uv:
        return f"uv pip uninstall --python {python} {names} && {install(snapshot, add)}"
    return f"{python} -m pip uninstall --yes {names} && {install(snapshot, add)}"


def tensorflow_with_cuda(snapshot: Snapshot) -> str:
    """Return the requirement for the installed TensorFlow version, including its CUDA libraries."""
    if snapshot.tensorflow is None:
        return "tensorflow[and-cuda]"
    name = "tf-nightly" if snapshot.tensorflow.distribution == "tf-nightly" else "tensorflow"
    return f"{name}[and-cuda]=={snapshot.tensorflow.version}"


def nvidia_wheel(snapshot: Snapshot, soname: str) -> str:
    """Return TensorFlow's own requirement for the wheel that contains this library; empty if it has none."""
    name = WHEELS.get(soname.split(".")[0])
    package = snapshot.packages.get(snapshot.tensorflow.distribution) if snapshot.tensorflow else None
    for line in package.requires if package else ():
        requirement = line.partition(";")[0].strip()
        if name and requirement.startswith(f"nvidia-{name}-cu"):
            return requirement
    return ""


def without_entry(snapshot: Snapshot, folder: str) -> str:
    """Return the shell command that removes a folder from LD_LIBRARY_PATH."""
    entries = snapshot.environment.get("LD_LIBRARY_PATH", "").split(":")
    left = [entry for entry in entries if entry and entry != folder]
    return export("LD_LIBRARY_PATH", ":".join(left)) if left else "unset LD_LIBRARY_PATH"


def export(name: str, value: str) -> str:
    """Return the shell command that sets a variable."""
    return f"export {name}={_quoted(value)}"


def driver_branch(snapshot: Snapshot) -> str:
    """Return the branch of the installed driver (550 for 550.54.15), which the driver's other parts must match."""
    version = snapshot.nvml.driver or snapshot.host.kernel_driver
    return version.partition(".")[0] or "550"


def driver_upgrade(snapshot: Snapshot, wanted: str) -> str:
    """Return the command that installs a newer NVIDIA driver; empty if no single command can do so."""
    if snapshot.host.wsl or snapshot.host.container:
        return ""
    return f"sudo apt-get install -y nvidia-driver-{wanted} && sudo reboot"


def container_run(snapshot: Snapshot) -> str:
    """Return the command or setting that gives a container access to the GPUs."""
    return {
        "kubernetes": "resources: {limits: {nvidia.com/gpu: 1}}",
        "podman": "podman run --device nvidia.com/gpu=all ...",
        "apptainer": "apptainer exec --nv ...",
        "lxc": "lxc config device add NAME gpu gpu",
    }.get(snapshot.host.container, "docker run --gpus all ...")


def describe(library: Library) -> str:
    """Describe the file that is loaded for the library, and why it is the one chosen."""
    winner = library.winner
    if winner is None:
        return f"{library.soname}: not found"
    version = f" {winner.version}" if winner.version else ""
    entry = f" entry {winner.folder}" if winner.where == "LD_LIBRARY_PATH" else ""
    return f"{library.soname}{version}: {winner.path} (via {winner.where}{entry})"


def _quoted(word: str) -> str:
    return shlex.quote(word)
