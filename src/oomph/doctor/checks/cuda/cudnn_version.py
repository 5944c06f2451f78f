"""The cuDNN that will be loaded is older than the one TensorFlow was built with, or known to be bad."""

from oomph.doctor.check import Check, Finding, blind, failed, passed, skipped, warned
from oomph.doctor.commands import describe, install, without_entry
from oomph.doctor.repairs import better_copy
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_BAD: dict[tuple[int, ...], str] = {
    (9, 10, 0): "it numbers operations in another order than adjacent releases",
}
"""Known bad releases. Source: the constraints that JAX checks (jax_plugins/cuda/__init__.py)."""


def _look(snapshot: Snapshot) -> Finding:
    tensorflow, library = snapshot.tensorflow, snapshot.library("libcudnn.so")
    if tensorflow is None or library is None or not tensorflow.cudnn_version or not snapshot.gpu_wanted:
        return skipped("no CUDA build of TensorFlow, or no NVIDIA GPU")
    winner = library.winner
    if winner is None:
        return skipped("no cuDNN is found")
    if not winner.version:
        return blind(f"{winner.path} does not report its version")
    found, built = _numbers(winner.version), tensorflow.cudnn_version
    wanted = ".".join(map(str, built))
    text = f"TensorFlow {tensorflow.version} is built with cuDNN {wanted} and will load {describe(library)}"
    if found[0] != built[0] or found[:2] < tuple(built[:2]):
        return failed(
            "cudnn-version-mismatch", f"{text}: it must be {wanted} or a later {built[0]}.x.", *_remedies(snapshot)
        )
    if found[:3] in _BAD:
        return warned("cudnn-version-mismatch", f"{text}: {_BAD[found[:3]]}.", _newer(snapshot, ">=9.10.1,<10"))
    return passed(f"cuDNN {winner.version}, built with {wanted}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit()) or (0,)


def _remedies(snapshot: Snapshot) -> tuple[Remedy, ...]:
    library = snapshot.library("libcudnn.so")
    assert library is not None
    winner, better = library.winner, better_copy(snapshot)
    assert winner is not None
    if winner.where != "LD_LIBRARY_PATH":
        return (_newer(snapshot),)
    take_out = without_entry(snapshot, winner.folder)
    if better is not None:
        text = f"Take {winner.folder} out of LD_LIBRARY_PATH: the wheel's own is {better.version}"
        return (Remedy(text, take_out, action="repair-environment"),)
    newer = _newer(snapshot)
    text = f"{newer.text}, and take {winner.folder} out of LD_LIBRARY_PATH, which comes before it"
    return (Remedy(text, f"{newer.command} && {take_out}"),)


def _newer(snapshot: Snapshot, versions: str = "") -> Remedy:
    assert snapshot.tensorflow is not None
    major, minor = snapshot.tensorflow.cudnn_version[:2]
    generation = snapshot.tensorflow.cuda_version[0] if snapshot.tensorflow.cuda_version else 12
    versions = versions or f">={major}.{minor},<{major + 1}"
    return Remedy("Install a cuDNN that it accepts", install(snapshot, f"nvidia-cudnn-cu{generation}{versions}"))


CHECK = Check(
    code="DOC303",
    name="cudnn-version",
    why=(
        "TensorFlow accepts a cuDNN of the same major and no older minor version. With any other it lists the GPU, but"
        ' the first convolution fails with "No DNN in stream executor".'
    ),
    look=_look,
    faults=("cudnn-version-mismatch",),
    needs=("libraries", "tensorflow"),
    source='cuda_dnn.cc of xla ("Loaded runtime CuDNN library")',
    shown="the rig's cuDNN 8.9.7 and 9.1.0: TensorFlow prints the mismatch and a convolution fails",
)
