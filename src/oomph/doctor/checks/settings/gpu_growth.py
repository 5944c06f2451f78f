"""TF_FORCE_GPU_ALLOW_GROWTH has a value that TensorFlow does not know."""

from oomph.doctor.check import Check, Finding, passed, warned
from oomph.doctor.commands import export
from oomph.doctor.repairs import GROWTH_WORDS, repairs
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_NAME = "TF_FORCE_GPU_ALLOW_GROWTH"


def _look(snapshot: Snapshot) -> Finding:
    value = snapshot.environment.get(_NAME)
    if value is None or value in GROWTH_WORDS:
        return passed(f"{_NAME} is {value or 'not set'}")
    meant = next(repair.value for repair in repairs(snapshot) if repair.variable == _NAME)
    remedy = Remedy("Write it as TensorFlow reads it", export(_NAME, meant or "false"), action="repair-environment")
    text = f"{_NAME}={value}: TensorFlow knows only {' and '.join(GROWTH_WORDS)}, and takes this for false."
    return warned("device-oom-other-process", text, remedy)


CHECK = Check(
    code="DOC402",
    name="gpu-growth",
    why="TensorFlow then takes nearly all of the GPU's memory at once, which the variable was meant to prevent.",
    look=_look,
    faults=("device-oom-other-process",),
    source="gpu_bfc_allocator.cc",
    shown='with yes, 1 and True TensorFlow on the rig prints "could not be parsed" and takes all of the memory',
)
