"""Identifies the systems that a log comes from, by the paths, files and programs mentioned in its lines. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from oomph.explain.catalogue.fault import LINUX
from oomph.files.patterns import lazy_pattern

WORDS = frozenset({"NUMA", "microsoft", "wsl", "darwin", "dll", "colab", "kaggle", "slurmstepd", "srun", "dockerenv"})
"""Words that indicate a system but are not in any signature; see `oomph.explain.reading.log.Words`."""


class _Sign(NamedTuple):
    """A sign of a system: a line that contains one of the words and matches the pattern, which is tried only then."""

    system: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]

    def stands_in(self, text: str) -> bool:
        """True if the line contains this sign."""
        return any(word in text for word in self.words) and self.pattern.search(text) is not None


# Signs of the machine, surest first; a log comes from only one. A log from Windows that recommends WSL also mentions
# it, so the bare word comes last. In practice, a kernel without a NUMA file for a GPU is WSL's. Only macOS shells
# print the number of a signal.
_MACHINES = (
    _Sign(
        "wsl",
        ("microsoft-standard", "/usr/lib/wsl", "/Users/", "libdxcore", "NUMA node"),
        lazy_pattern(r"microsoft-standard|/usr/lib/wsl\b|/mnt/[a-z]/Users/|libdxcore|open file to read NUMA node"),
    ),
    _Sign(
        "windows",
        (
            ":\\",
            ".\\tensorflow",
            ":/",
            ".dll",
            ".pyd",
            "WinError",
            "python.exe",
            "win_amd64",
            "Windows",
            "0xC0000",
            "-10737",
            "DLL load failed",
            "The system cannot",
        ),
        lazy_pattern(
            r"(?<![A-Za-z0-9])[A-Za-z]:\\|(?<!\S)\.\\tensorflow\b|\b[A-Z]:/(?:Users|Program)|\w\.(?:dll|pyd)\b"
            r"|\bWinError\b|\bpython\.exe\b|\bwin_amd64\b"
            r"|Windows fatal exception|0xC0000\w|-10737\d{5}\b|native Windows"
            r"|\bDLL load failed|: The system cannot find"
        ),
    ),
    _Sign(
        "macos",
        (
            *("/Users/", "darwin", "macos", "macOS", ".dylib", "homebrew", "mach-o", "kIOGPU", "device/metal"),
            *("libc++abi", "instruction: 4", "fault: 11", "trap: ", "Killed: 9", "error: 10"),
        ),
        lazy_pattern(
            r"(?<![\w:])/Users/\w|\bdarwin\b|\bmacosx?_\d|\bmacOS\b|\w\.dylib\b|/opt/homebrew/|mach-o"
            r"|kIOGPUCommandBuffer|plugin/src/device/metal|libc\+\+abi"
            r"|\b(?:Illegal instruction: 4|Segmentation fault: 11|Abort trap: 6|Killed: 9|Bus error: 10|BPT trap: 5)\b"
        ),
    ),
    _Sign(
        "colab",
        ("/content/", "colab", "/kaggle/", "all available RAM"),
        lazy_pattern(
            r"(?<![\w.])/content/|\bgoogle[./]colab\b|\bcolab[_-]|/kaggle/(?:working|input|lib)|all available RAM"
        ),
    ),
    _Sign("wsl", ("WSL",), lazy_pattern(r"\bWSL ?2?\b")),
)
# CUDA images put the folder in which the driver's libraries are mounted at the start of LD_LIBRARY_PATH.
_AROUND = (
    _Sign(
        "slurm",
        ("slurm", "srun", "SLURM_", "sbatch"),
        lazy_pattern(r"\bslurmstepd:|\bsrun: |\bSLURM_\w|/slurmd?/|\bsbatch: "),
    ),
    _Sign(
        "container",
        (
            *("docker", "nvcr.io", "kubepods", "nvidia-container-cli", "root@", "daemon", "OOMKilled", "oci runtime"),
            *("host (", "host: ", "hostname: ", "LIBRARY_PATH: /usr/local/nvidia/lib", "Driver was not detected"),
        ),
        lazy_pattern(
            r"/\.dockerenv|\bdocker(?:-compose| compose)? run "
            r"|\bnvcr\.io/|\bkubepods\b|nvidia-container-cli|\bdocker: |/docker/containers/|\bdockerd?\["
            r"|\broot@[0-9a-f]{12}:|\bhost \([0-9a-f]{12}\)|\b(?:host|hostname): [0-9a-f]{12}\b"
            r"|Error response from daemon|\bOOMKilled\b|\boci runtime\b"
            r"|LIBRARY_PATH: /usr/local/nvidia/lib|NVIDIA Driver was not detected"
        ),
    ),
)


class Systems:
    """Reads lines, and identifies the systems that they come from."""

    def __init__(self) -> None:
        self._found = set[str]()
        self._surest = len(_MACHINES)

    def see(self, text: str) -> None:
        """Process the next line."""
        for place, sign in enumerate(_MACHINES[: self._surest]):
            if sign.stands_in(text):
                self._surest = place
                break
        self._found |= {sign.system for sign in _AROUND if sign.system not in self._found and sign.stands_in(text)}

    @property
    def names(self) -> frozenset[str]:
        """The systems that the lines come from, or Linux if the lines do not identify any."""
        machine = {sign.system for sign in _MACHINES[self._surest : self._surest + 1]}
        around = self._found - {"container"} if "colab" in machine else self._found  # users do not start that container
        return frozenset(machine | around) or frozenset({LINUX})
