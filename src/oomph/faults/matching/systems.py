"""Tells which systems a log is from, by the paths, files and programs that its lines name. Pure."""

from __future__ import annotations

import re

from oomph.faults.catalogue.fault import LINUX

WORDS = frozenset({"NUMA", "microsoft", "wsl", "darwin", "dll", "colab", "kaggle", "slurmstepd", "srun", "dockerenv"})
"""Words of lines that say it and that hold no signature; see `oomph.faults.reading.log.Words`."""

# The machine, the surest sign first: a log holds at most one of them in truth. A person on Windows names WSL when asked
# to use it, so the bare word decides nothing there. Only a kernel without NUMA, in practice WSL's, has no such file.
_MACHINES = (
    ("wsl", re.compile(r"microsoft-standard|/usr/lib/wsl\b|/mnt/[a-z]/Users/|libdxcore|open file to read NUMA node")),
    (
        "windows",
        re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z]:\\|\b[A-Z]:/(?:Users|Program)|\w\.(?:dll|pyd)\b|\bWinError\b|\bwin_amd64\b"
            r"|Windows fatal exception|0xC0000\w|-10737\d{5}\b|native Windows|\bDLL load failed"
        ),
    ),
    (
        "macos",
        re.compile(
            r"(?<![\w:])/Users/\w|\bdarwin\b|\bmacosx?_\d|\bmacOS\b|\w\.dylib\b|/opt/homebrew/|mach-o"
            r"|kIOGPUCommandBuffer|plugin/src/device/metal|libc\+\+abi"
        ),
    ),
    (
        "colab",
        re.compile(
            r"(?<![\w.])/content/|\bgoogle[./]colab\b|\bcolab[_-]|/kaggle/(?:working|input|lib)|all available RAM"
        ),
    ),
    ("wsl", re.compile(r"\bWSL ?2?\b")),
)
_AROUND = (
    ("slurm", re.compile(r"\bslurmstepd:|\bsrun: |\bSLURM_\w|/slurmd?/|\bsbatch: ")),
    (
        "container",
        re.compile(
            r"/\.dockerenv|\bnvcr\.io/|\bkubepods\b|nvidia-container-cli|\bdocker: |/docker/containers/|\bdockerd?\["
            r"|\broot@[0-9a-f]{12}:|Error response from daemon|\bOOMKilled\b|\boci runtime\b"
        ),
    ),
)


class Systems:
    """The systems that the lines read so far are from."""

    def __init__(self) -> None:
        self._found = set[str]()
        self._surest = len(_MACHINES)

    def see(self, text: str) -> None:
        """Take the next line into account."""
        for place, (_, sign) in enumerate(_MACHINES[: self._surest]):
            if sign.search(text):
                self._surest = place
                break
        for name, sign in _AROUND:
            if name not in self._found and sign.search(text):
                self._found.add(name)

    @property
    def names(self) -> frozenset[str]:
        """What they are; a machine that no line tells of is taken for one that runs Linux."""
        machine = {name for name, _ in _MACHINES[self._surest : self._surest + 1]}
        return frozenset(machine | self._found) or frozenset({LINUX})
