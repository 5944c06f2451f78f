"""Variables left over from debugging, which slow training or make it fail."""

from oomph.doctor.check import Check, Finding, passed, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_LEFT = {
    "CUDA_LAUNCH_BLOCKING": (("1",), "every kernel launch blocks: training is slow", "kernel-launch-failure"),
    "CUDA_FORCE_PTX_JIT": (
        ("1",),
        "machine code is ignored, and kernels without PTX for this GPU fail",
        "no-kernel-image",
    ),
}
"""Variable → values that matter, what they do, the fault they lead to."""


def _look(snapshot: Snapshot) -> Finding:
    if not snapshot.gpu_wanted:
        return passed("they matter on a GPU only")
    found = [name for name in _LEFT if snapshot.environment.get(name) in _LEFT[name][0]]
    if not found:
        return passed("none is set")
    named = "; ".join(f"{name}={snapshot.environment[name]}: {_LEFT[name][1]}" for name in found)
    return warned(_LEFT[found[0]][2], f"{named}.", Remedy("Unset what debugging left", f"unset {' '.join(found)}"))


CHECK = Check(
    code="DOC405",
    name="debug-variables",
    why="They are set to find one error, and then stay in a shell's start-up file.",
    look=_look,
    faults=("kernel-launch-failure", "no-kernel-image"),
    source="CUDA C++ Programming Guide, environment variables",
)
