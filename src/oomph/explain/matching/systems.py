"""Identifies the systems from which a log comes, by the paths, files and programs named in its lines. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from oomph.explain.catalogue.fault import LINUX
from oomph.files.patterns import lazy_pattern

WORDS = frozenset({"NUMA", "microsoft", "wsl", "darwin", "dll", "colab", "kaggle", "slurmstepd", "srun", "dockerenv"})
"""Words that name a system but contain no signature; see `oomph.explain.reading.log.Words`."""


class _Sign(NamedTuple):
    """A sign of a system: one of these words in a line, and a pattern that is tried only if such a word is present."""

    system: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]

    def stands_in(self, text: str) -> bool:
        """True if the line has this sign."""
        return any(word in text for word in self.words) and self.pattern.search(text) is not None


# The machine, the surest sign first: a log is of one. A person on Windows who is asked to use WSL has its name in the
# log as well, so the bare word counts last. A kernel that has no NUMA file of a GPU is in practice that of WSL. Only
# the shells of macOS give the number of a signal.
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
            "win_amd64",
            "Windows",
            "0xC0000",
            "-10737",
            "DLL load failed",
            "The system cannot",
        ),
        lazy_pattern(
            r"(?<![A-Za-z0-9])[A-Za-z]:\\|(?<!\S)\.\\tensorflow\b|\b[A-Z]:/(?:Users|Program)|\w\.(?:dll|pyd)\b"
            r"|\bWinError\b|\bwin_amd64\b|Windows fatal exception|0xC0000\w|-10737\d{5}\b|native Windows"
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
# Images with CUDA begin LD_LIBRARY_PATH with the folder into which the driver's libraries are mounted.
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
            r"/\.dockerenv|\bnvcr\.io/|\bkubepods\b|nvidia-container-cli|\bdocker: |/docker/containers/|\bdockerd?\["
            r"|\broot@[0-9a-f]{12}:|\bhost \([0-9a-f]{12}\)|\b(?:host|hostname): [0-9a-f]{12}\b"
            r"|Error response from daemon|\bOOMKilled\b|\boci runtime\b"
            r"|LIBRARY_PATH: /usr/local/nvidia/lib|NVIDIA Driver was not detected"
        ),
    ),
)


class Systems:
    """Reads lines, and identifies the systems from which they come."""

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
        """The systems from which the lines come; Linux if no line names the machine."""
        machine = {sign.system for sign in _MACHINES[self._surest : self._surest + 1]}
        around = self._found - {"container"} if "colab" in machine else self._found  # nobody starts Colab's container
        return frozenset(machine | around) or frozenset({LINUX})
