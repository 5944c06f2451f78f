"""A system for which there is no TensorFlow with CUDA."""

from oomph.doctor.check import Check, Finding, failed, passed, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_WSL = Remedy("Run the script in WSL2, where the Linux wheels find the GPU", "wsl --install -d Ubuntu")


def _look(snapshot: Snapshot) -> Finding:
    host, tensorflow = snapshot.host, snapshot.tensorflow
    where = f"{host.system} {host.machine}, {host.libc or 'no glibc'}"
    if host.system == "Windows" and (tensorflow is None or tensorflow.numbers > (2, 10, 1)):
        return failed("cpu-only-build", "Native Windows: TensorFlow after 2.10 has no CUDA there.", _WSL)
    if host.system == "Darwin":
        rent = Remedy("Train on a Linux machine with an NVIDIA GPU")
        return warned(
            "cpu-only-build", "macOS: TensorFlow has no CUDA there, and no current Mac has an NVIDIA GPU.", rent
        )
    if host.libc.startswith("musl"):
        image = Remedy("Use an image with glibc", "docker run --gpus all tensorflow/tensorflow:latest-gpu ...")
        return failed("binary-incompatibility", f"{where}: TensorFlow's wheels are built for glibc.", image)
    if host.machine in ("aarch64", "arm64") and tensorflow is not None and tensorflow.cuda is False:
        ngc = Remedy(
            "Use NVIDIA's container, which is built with CUDA for this processor",
            "docker pull nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
        )
        return warned("cpu-only-build", f"{where}: the wheels on PyPI are built without CUDA.", ngc)
    return passed(where)


CHECK = Check(
    code="DOC101",
    name="platform",
    why=(
        "Wheels with CUDA exist only for Linux on x86-64 with glibc; on other systems the same pip install gives"
        " TensorFlow for the CPU."
    ),
    look=_look,
    faults=("cpu-only-build", "binary-incompatibility"),
    needs=("host",),
    source="https://www.tensorflow.org/install/pip",
)
