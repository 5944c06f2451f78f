"""TF_CPP_MIN_LOG_LEVEL hides the one line that TensorFlow prints about a GPU that it does not use."""

from oomph.doctor.check import Check, Finding, noted, passed, skipped
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_NAME = "TF_CPP_MIN_LOG_LEVEL"


def _look(snapshot: Snapshot) -> Finding:
    value = snapshot.environment.get(_NAME, "")
    if not snapshot.gpu_wanted:
        return skipped("no NVIDIA GPU")
    if value in ("2", "3"):
        text = f"{_NAME}={value} hides TensorFlow's warnings, also the one about a GPU that it skips"
        return noted(text, Remedy("Show them", f"unset {_NAME}"))
    return passed(f"{_NAME} is {value or 'not set'}")


CHECK = Check(
    code="DOC406",
    name="log-level",
    why='"Cannot dlopen some GPU libraries" is a warning: at level 2, training silently continues on the CPU.',
    look=_look,
    source="gpu_device.cc",
)
