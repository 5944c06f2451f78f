"""Finds the repairs that environment variables alone can make for a run, without installing anything. Pure.

`oomph doctor --fix-env` prints them. `oomph run` applies them to the script's environment, and reports that it did.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from oomph.doctor.snapshot import Candidate, Snapshot, numbers_in

ALLOCATORS = ("cuda_malloc_async", "cuda_malloc", "memory_guard")
"""The accepted values of TF_GPU_ALLOCATOR (gpu_process_state.cc and process_state.cc)."""
GROWTH_WORDS = ("true", "false")
"""The accepted values of TF_FORCE_GPU_ALLOW_GROWTH (gpu_bfc_allocator.cc)."""
_YES = ("yes", "y", "on", "1", "t")


@dataclass(frozen=True)
class Repair:
    """A variable in the script's environment, and its corrected value."""

    variable: str
    value: str | None
    """The corrected value, or None to unset the variable."""
    why: str


def repairs(snapshot: Snapshot) -> tuple[Repair, ...]:
    """Return all repairs that this machine needs."""
    return (*_library_path(snapshot), *_growth(snapshot), *_allocator(snapshot))


def lost_in_wheels(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the wheel folders that contain required libraries that the loader does not find."""
    lost = [library for library in snapshot.libraries if library.required and library.winner is None]
    return tuple(dict.fromkeys(copy.folder for library in lost for copy in library.in_wheels[:1]))


def better_copy(snapshot: Snapshot) -> Candidate | None:
    """Return the cuDNN from a wheel if TensorFlow accepts it, but rejects the one that the loader picks."""
    library = snapshot.library("libcudnn.so")
    built = snapshot.tensorflow.cudnn_version if snapshot.tensorflow else ()
    if library is None or library.winner is None or not built or not library.winner.version:
        return None
    if _accepted(library.winner.version, built):
        return None
    return next((copy for copy in library.in_wheels if copy.version and _accepted(copy.version, built)), None)


def repaired_path(snapshot: Snapshot) -> str:
    """Return the corrected LD_LIBRARY_PATH, or the same value if nothing is wrong with it."""
    entries = [entry for entry in snapshot.environment.get("LD_LIBRARY_PATH", "").split(":") if entry]
    foreign = _foreign_driver(snapshot)
    better = better_copy(snapshot)
    first = [better.folder] if better else []
    kept = [entry for entry in entries if entry != foreign and entry not in first]
    lost = [folder for folder in lost_in_wheels(snapshot) if folder not in kept]
    return ":".join([*first, *kept, *lost])


def _accepted(version: str, built: tuple[int, ...]) -> bool:
    """True if TensorFlow accepts this cuDNN: the same major and the same or a newer minor version (cuda_dnn.cc)."""
    numbers = numbers_in(version)
    return numbers[:1] == built[:1] and numbers[:2] >= built[:2]


def _foreign_driver(snapshot: Snapshot) -> str:
    """Return the LD_LIBRARY_PATH entry whose libcuda.so.1 is a stub, or a cuda-compat that this machine rejects."""
    library = snapshot.library("libcuda.so")
    if library is None or library.winner is None or snapshot.driver.init not in (34, 803, 804):
        return ""
    other = [c for c in library.candidates if c.path != library.winner.path and c.where != "wheel" and not c.problem]
    return library.winner.folder if library.winner.where == "LD_LIBRARY_PATH" and other else ""


def _library_path(snapshot: Snapshot) -> Iterator[Repair]:
    if not snapshot.gpu_wanted:
        return
    path, was = repaired_path(snapshot), snapshot.environment.get("LD_LIBRARY_PATH", "")
    reasons: list[str] = []
    lost = [
        library.soname
        for library in snapshot.libraries
        if library.required and library.winner is None and library.in_wheels
    ]
    if lost:
        reasons.append(f"TensorFlow does not search the wheel folders that contain {', '.join(lost)}")
    better = better_copy(snapshot)
    if better is not None:
        reasons.append(f"the wheel's cuDNN {better.version} must come before an older one")
    foreign = _foreign_driver(snapshot)
    if foreign:
        reasons.append(f"the libcuda.so.1 in {foreign} is not this machine's driver")
    if reasons and path != was:
        yield Repair("LD_LIBRARY_PATH", path or None, "; ".join(reasons))


def _growth(snapshot: Snapshot) -> Iterator[Repair]:
    value = snapshot.environment.get("TF_FORCE_GPU_ALLOW_GROWTH")
    if value is None or value in GROWTH_WORDS:
        return
    meant = value.strip().lower()
    word = "true" if meant in (*_YES, "true") else "false"
    yield Repair("TF_FORCE_GPU_ALLOW_GROWTH", word, f"TensorFlow does not understand {value!r}, only true and false")


def _allocator(snapshot: Snapshot) -> Iterator[Repair]:
    value = snapshot.environment.get("TF_GPU_ALLOCATOR")
    if not value or value in ALLOCATORS:
        return
    close = difflib.get_close_matches(value.strip().lower(), ALLOCATORS, n=1, cutoff=0.75)
    why = f"TensorFlow does not know allocator {value!r}, and silently uses its own"
    yield Repair("TF_GPU_ALLOCATOR", close[0] if close else None, why)
