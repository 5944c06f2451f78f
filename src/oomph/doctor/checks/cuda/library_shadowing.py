"""A library on LD_LIBRARY_PATH that is loaded instead of the wheel's own."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.commands import describe, without_entry
from oomph.doctor.observe.libraries import DRIVER_LIBRARIES
from oomph.doctor.snapshot import Library, Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    ours = [library for library in snapshot.libraries if library.soname not in DRIVER_LIBRARIES]
    if not ours or not snapshot.gpu_wanted:
        return skipped("no CUDA build of TensorFlow, or no NVIDIA GPU")
    shadowed = [library for library in ours if _is_shadowed(library)]
    if not shadowed:
        return passed("no wheel's library is shadowed by another file")
    folders = list(dict.fromkeys(library.winner.folder for library in shadowed if library.winner))
    remedies = [Remedy(f"Take {folder} out of LD_LIBRARY_PATH", without_entry(snapshot, folder)) for folder in folders]
    return warned(
        "cudnn-version-mismatch" if any("cudnn" in library.soname for library in shadowed) else "cuda-library-missing",
        f"Another file than the wheel's own is loaded for {'; '.join(describe(library) for library in shadowed)}.",
        *remedies,
    )


def _is_shadowed(library: Library) -> bool:
    """Whether LD_LIBRARY_PATH puts another version before a wheel's copy. Links to it, and equal copies, do no harm."""
    winner = library.winner
    if winner is None or winner.where != "LD_LIBRARY_PATH" or winner in library.in_wheels:
        return False
    return any(copy.version != winner.version or not winner.version for copy in library.in_wheels)


CHECK = Check(
    code="DOC302",
    name="library-shadowing",
    why=(
        "LD_LIBRARY_PATH precedes the folders of the wheel: a module system or an old export decides which CUDA is"
        " used, and a version that was never tested with this TensorFlow wins."
    ),
    look=_look,
    faults=("cudnn-version-mismatch", "cuda-library-missing"),
    needs=("libraries",),
    source="ld.so(8); https://github.com/tensorflow/tensorflow/issues/60913",
    shown="cuDNN 9.1.0 on LD_LIBRARY_PATH before the wheel's 9.3.0: TensorFlow loads 9.1.0 and says so",
)
