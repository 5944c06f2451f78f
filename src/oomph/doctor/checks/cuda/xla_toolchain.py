"""ptxas and libdevice, which XLA needs to compile for a GPU."""

from oomph.doctor.check import Check, Finding, failed, noted, passed, skipped, warned
from oomph.doctor.commands import install
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_OWN_COMPILER = (2, 21)
"""This wheel compiles without either: it contains its own compiler and libdevice. Earlier ones were not tested."""


def _look(snapshot: Snapshot) -> Finding:
    tools, tensorflow = snapshot.toolchain, snapshot.tensorflow
    if tensorflow is None or not snapshot.gpu_wanted or not tensorflow.cuda_version:
        return skipped("no CUDA build of TensorFlow, or no NVIDIA GPU")
    if not tools.data_dir_exists:
        text = f"XLA_FLAGS names --xla_gpu_cuda_data_dir={tools.data_dir}, but there is no such folder."
        return failed(
            "cuda-toolchain-missing", text, Remedy("Name one that has nvvm/libdevice, or none", "unset XLA_FLAGS")
        )
    missing = [name for name, path in (("ptxas", tools.ptxas), ("libdevice", tools.libdevice)) if not path]
    if not missing:
        return passed(f"ptxas {tools.ptxas}, libdevice {tools.libdevice}")
    if tensorflow.numbers[:2] >= _OWN_COMPILER:
        return passed(f"no {' and no '.join(missing)}; TensorFlow {tensorflow.version} brings its own")
    generation = tensorflow.cuda_version[0]
    get = Remedy("Install them", install(snapshot, f"nvidia-cuda-nvcc-cu{generation}"))
    text = f"No {' and no '.join(missing)}: jit_compile=True, which Keras 3 sets by default on a GPU, may fail."
    return warned("cuda-toolchain-missing", text, get) if "libdevice" in missing else noted(text, get)


CHECK = Check(
    code="DOC306",
    name="xla-toolchain",
    why=(
        "Keras 3 compiles with XLA on a GPU by default; XLA needs libdevice for functions such as exp, and an"
        " assembler."
    ),
    look=_look,
    faults=("cuda-toolchain-missing",),
    needs=("toolchain",),
    source="cuda_root_path.cc and gpu_backend_lib.cc of xla; https://github.com/tensorflow/tensorflow/issues/58681",
    shown="TensorFlow 2.21 compiles on the rig with neither of them on the machine",
)
