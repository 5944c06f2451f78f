"""Builds the block to paste into an issue: the machine without home folders, user or host names, or UUIDs."""

from __future__ import annotations

import getpass
import os.path
import re
import socket
from collections.abc import Iterator, Sequence

from oomph import __version__
from oomph.doctor.check import PASS, SKIP
from oomph.doctor.commands import describe
from oomph.doctor.examine import DoctorResult, verdict
from oomph.doctor.snapshot import Snapshot
from oomph.terminal.amounts import as_size

_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{4}[0-9a-fA-F-]+")
_HOME = re.compile(r"/(?:home|Users)/[^/:\s'\"]+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_SHOWN = ("CUDA_", "TF_", "XLA_FLAGS", "LD_", "NVIDIA_", "NCCL_", "KERAS_")


def as_report(snapshot: Snapshot, results: Sequence[DoctorResult]) -> str:
    """Return the report in a Markdown code fence."""
    lines = ["```text", *_facts(snapshot), "", *_findings(results), "", verdict(snapshot, results), "```"]
    return redact("\n".join(lines)) + "\n"


def redact(text: str) -> str:
    """Remove the home folder, the user and host names, GPU UUIDs and IP addresses from the text."""
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = text.replace(home, "~")
    text = _HOME.sub("~", _UUID.sub(r"\1-...", text))
    text = _ADDRESS.sub(lambda found: found[0] if _is_version(found[0]) else "ADDRESS", text)
    for name, word in ((_user(), "USER"), (socket.gethostname(), "HOST")):
        if len(name) > 2:
            text = re.sub(rf"\b{re.escape(name)}\b", word, text)
    return text


def _is_version(text: str) -> bool:
    """True if this is a version number, such as 9.3.0.75 for cuDNN, not an address."""
    return int(text.split(".")[0]) < 10 or text.startswith(("11.", "12.", "13."))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _facts(snapshot: Snapshot) -> Iterator[str]:
    host, python, driver = snapshot.host, snapshot.python, snapshot.driver
    yield (
        f"oomph {__version__}, Python {python.version_text} ({python.implementation}), {host.system} {host.release}"
        f" {host.machine}, {host.libc}"
    )
    place = [*(["WSL2"] if host.wsl else []), *([f"in {host.container}"] if host.container else [])]
    memory = f"{_gib(host.memory_bytes or 0)} memory, limit {_gib(host.memory_limit_bytes)}, shm {_gib(host.shm_bytes)}"
    yield ", ".join([*place, memory])
    yield "packages: " + ", ".join(f"{package.name} {package.version}" for package in snapshot.packages.found)
    tensorflow = snapshot.tensorflow
    if tensorflow is not None:
        built = (
            f"CUDA {_dotted(tensorflow.cuda_version)}, cuDNN {_dotted(tensorflow.cudnn_version)},"
            f" {' '.join(tensorflow.capabilities)}"
        )
        yield (
            f"tensorflow {tensorflow.version}: {built if tensorflow.cuda is not False else 'no CUDA'} (source:"
            f" {tensorflow.source})"
        )
    yield (
        f"driver: {snapshot.nvml.driver or host.kernel_driver or 'none'}, CUDA {driver.cuda_version}, cuInit"
        f" {driver.init}, NVML {snapshot.nvml.init}"
    )
    for device in driver.devices:
        yield f"GPU {device.index}: {device.name}, {device.major}.{device.minor}, {_gib(device.memory_bytes)}"
    for library in snapshot.libraries:
        yield describe(library)
    for name, value in snapshot.environment.items():
        if name.startswith(_SHOWN):
            yield f"{name}={value}"


def _findings(results: Sequence[DoctorResult]) -> Iterator[str]:
    for result in results:
        if result.finding.status not in (PASS, SKIP) or result.finding.note or result.finding.blind:
            yield f"{result.finding.status} {result.check.code} {result.check.name}: {result.finding.message}"
    good = [result.check.code for result in results if result.finding.status == PASS and not result.finding.note]
    yield f"pass {' '.join(good)}"


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers)) or "unknown"


def _gib(number: int | None) -> str:
    return "none" if number is None else as_size(number, "GiB")
