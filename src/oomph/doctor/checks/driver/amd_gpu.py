"""An AMD GPU, which TensorFlow's CUDA wheel cannot use."""

from oomph.doctor.check import Check, Finding, noted, passed, skipped, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_ROCM = Remedy(
    "Use AMD's build of TensorFlow; oomph explains its errors, but repairs nothing there",
    "docker run --device=/dev/kfd --device=/dev/dri rocm/tensorflow:latest ...",
)


def _look(snapshot: Snapshot) -> Finding:
    found = [device.address for device in snapshot.host.pci if device.vendor == "1002"]
    if not found:
        return skipped("no AMD GPU")
    where = f"AMD GPU at PCI {', '.join(found)}"
    if snapshot.tensorflow is not None and snapshot.tensorflow.rocm:
        return noted(
            f"{where}, and a TensorFlow for ROCm: oomph recognises its errors, but is neither made for it nor tested"
            " on it"
        )
    if snapshot.gpu_wanted:
        return passed(f"{where}, beside an NVIDIA GPU")
    return warned("cpu-only-build", f"{where}: this TensorFlow cannot use it: it is built for NVIDIA GPUs.", _ROCM)


CHECK = Check(
    code="DOC206",
    name="amd-gpu",
    why="The wheels on PyPI hold code for NVIDIA GPUs only.",
    look=_look,
    faults=("cpu-only-build",),
    needs=("host",),
    source="https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/3rd-party/tensorflow-install.html",
)
