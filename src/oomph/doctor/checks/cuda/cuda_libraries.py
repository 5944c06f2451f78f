"""A CUDA library that TensorFlow loads is not on its search path."""

from oomph.doctor.check import Check, Finding, blind, failed, passed, skipped
from oomph.doctor.commands import export, install, nvidia_wheel, tensorflow_with_cuda
from oomph.doctor.observe.libraries import DRIVER_LIBRARIES
from oomph.doctor.repairs import lost_in_wheels, repaired_path
from oomph.doctor.snapshot import Library, Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    tensorflow = snapshot.tensorflow
    wanted = [library for library in snapshot.libraries if library.required and library.soname not in DRIVER_LIBRARIES]
    if tensorflow is None or not wanted:
        return skipped("no CUDA build of TensorFlow")
    if not snapshot.gpu_wanted:
        return skipped("no NVIDIA GPU")
    missing = [library for library in wanted if library.winner is None]
    if not missing:
        return passed(f"all {len(wanted)} CUDA libraries are found")
    if not tensorflow.loader:
        return blind(
            f"libtensorflow_framework.so.2 is missing, so the search path of TensorFlow {tensorflow.version} is unknown"
        )
    names = ", ".join(_described(library) for library in missing)
    text = f"TensorFlow {tensorflow.version} does not find {names}."
    return failed("cuda-library-missing", text, *_remedies(snapshot, missing, len(missing) == len(wanted)))


def _described(library: Library) -> str:
    """The name, and any copy that cannot be loaded or is not searched."""
    broken = next((f"{c.path} is {c.problem}" for c in library.candidates if c.problem), "")
    aside = next((f"it is in {c.folder}, where TensorFlow does not look" for c in library.in_wheels), "")
    return f"{library.soname} ({aside or broken})" if aside or broken else library.soname


def _remedies(snapshot: Snapshot, missing: list[Library], all_of_them: bool) -> tuple[Remedy, ...]:
    if all_of_them and not lost_in_wheels(snapshot):
        return (Remedy("Install the CUDA libraries that match it", install(snapshot, tensorflow_with_cuda(snapshot))),)
    found: list[Remedy] = []
    if lost_in_wheels(snapshot):
        line = export("LD_LIBRARY_PATH", repaired_path(snapshot))
        found.append(Remedy("Let the loader search the wheel's folder", line, action="repair-environment"))
    wheels = [nvidia_wheel(snapshot, library.soname) for library in missing if not library.in_wheels]
    if any(wheels):
        found.append(Remedy("Install what is missing", install(snapshot, *filter(None, wheels))))
    elif any(not library.in_wheels for library in missing):
        found.append(
            Remedy("Install the CUDA libraries that match it", install(snapshot, tensorflow_with_cuda(snapshot)))
        )
    return tuple(found)


CHECK = Check(
    code="DOC301",
    name="cuda-libraries",
    why=(
        'TensorFlow loads them by name when it looks for GPUs. If one is missing, it prints "Cannot dlopen some GPU'
        ' libraries", names none, and trains on the CPU.'
    ),
    look=_look,
    faults=("cuda-library-missing",),
    needs=("libraries",),
    source=(
        "dso_loader.cc and gpu_device.cc; https://github.com/tensorflow/tensorflow/issues/63362 (2.16.1), RUNPATH of"
        " the 2.21.0 wheel"
    ),
    shown=(
        "each library removed from the rig's folder, one by one: TensorFlow lists no GPU; the same with the wheel's"
        " layout, whose RUNPATH lacks cusolver's folder"
    ),
)
