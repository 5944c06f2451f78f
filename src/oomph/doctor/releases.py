"""The build targets of each TensorFlow release's wheels, for wheels that do not state them.

The data comes from METADATA and build_info.py in the manylinux x86-64 wheels on PyPI. The cuDNN column comes from the
table of tested configurations (https://www.tensorflow.org/install/source#gpu). Nothing is assumed about releases that
are not listed here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """A minor release of TensorFlow."""

    series: tuple[int, int]
    cuda: tuple[int, ...]
    cudnn: tuple[int, int]
    capabilities: tuple[str, ...]
    pythons: tuple[int, int]
    """The first and last minor versions of Python 3 that have a wheel."""


_KEPLER = ("sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80")
_MAXWELL_15 = ("sm_50", "sm_60", "sm_70", "sm_75", "compute_80")
_MAXWELL_16 = ("sm_50", "sm_60", "sm_70", "sm_80", "compute_90")
_PASCAL = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")

RELEASES = (
    Release((2, 10), (11, 2), (8, 1), _KEPLER, (7, 10)),
    Release((2, 11), (11, 2), (8, 1), _KEPLER, (7, 10)),
    Release((2, 12), (11, 8), (8, 6), _KEPLER, (8, 11)),
    Release((2, 13), (11, 8), (8, 6), _KEPLER, (8, 11)),
    Release((2, 14), (11, 8), (8, 7), _KEPLER, (9, 11)),
    Release((2, 15), (12, 2), (8, 9), _MAXWELL_15, (9, 11)),
    Release((2, 16), (12, 3), (8, 9), _MAXWELL_16, (9, 12)),
    Release((2, 17), (12, 3), (8, 9), _PASCAL, (9, 12)),
    Release((2, 18), (12, 5, 1), (9, 3), _PASCAL, (9, 12)),
    Release((2, 19), (12, 5, 1), (9, 3), _PASCAL, (9, 12)),
    Release((2, 20), (12, 5, 1), (9, 3), _PASCAL, (9, 13)),
    Release((2, 21), (12, 5, 1), (9, 3), _PASCAL, (10, 13)),
)


def release_of(numbers: tuple[int, ...]) -> Release | None:
    """Return the release for a version such as (2, 21, 0), or None if it is not listed."""
    return next((release for release in RELEASES if release.series == numbers[:2]), None)


def last_for(capability: tuple[int, int]) -> Release | None:
    """Return the newest release whose wheel contains machine code for this GPU, or None if there is none."""
    fitting = [release for release in RELEASES if runs_on(release.capabilities, capability)]
    return fitting[-1] if fitting else None


def runs_on(capabilities: tuple[str, ...], capability: tuple[int, int]) -> bool:
    """True if any of this machine code runs on the GPU: the same major and the same or an older minor version."""
    return any(code[0] == capability[0] and code[1] <= capability[1] for code in machine_code(capabilities))


def machine_code(capabilities: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the architectures for which a wheel has machine code. compute_90 means both PTX and machine code."""
    return sorted(_pair(name) for name in capabilities)


def ptx(capabilities: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the architectures for which a wheel has PTX, which the driver compiles for newer GPUs."""
    return sorted(_pair(name) for name in capabilities if name.startswith("compute_"))


def _pair(name: str) -> tuple[int, int]:
    digits = "".join(letter for letter in name.rpartition("_")[2] if letter.isdigit())
    return int(digits[:-1] or 0), int(digits[-1:] or 0)
