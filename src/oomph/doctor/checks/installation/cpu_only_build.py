"""A TensorFlow that was built without CUDA, on a machine with an NVIDIA GPU."""

from oomph.doctor.check import Check, Finding, failed, noted, passed, skipped
from oomph.doctor.commands import reinstall, tensorflow_with_cuda
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    tensorflow = snapshot.tensorflow
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    if tensorflow.rocm:
        return noted(f"{tensorflow.distribution} {tensorflow.version} is built for AMD's ROCm")
    if tensorflow.cuda is False:
        if not snapshot.gpu_wanted:
            return passed(f"{tensorflow.distribution} {tensorflow.version} is built for the CPU, and there is no GPU")
        return failed(
            "cpu-only-build",
            f"{tensorflow.distribution} {tensorflow.version} is built without CUDA: it cannot use this machine's GPU.",
            Remedy(
                "Replace it with the CUDA build",
                reinstall(snapshot, [tensorflow.distribution], tensorflow_with_cuda(snapshot)),
            ),
        )
    if tensorflow.cuda is None:
        return noted(f"it is unknown what TensorFlow {tensorflow.version} was built for: its wheel does not say")
    version = ".".join(map(str, tensorflow.cuda_version)) or "a version that its wheel does not name"
    return passed(f"TensorFlow {tensorflow.version} is built with CUDA {version} (by {tensorflow.source})")


CHECK = Check(
    code="DOC112",
    name="cpu-only-build",
    why="It silently trains on the CPU: nothing in its log says that a GPU was expected.",
    look=_look,
    faults=("cpu-only-build",),
    needs=("tensorflow",),
    source="tensorflow/python/platform/build_info.py in the wheel",
)
