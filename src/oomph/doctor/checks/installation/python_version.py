"""A Python for which this TensorFlow was not built."""

from oomph.doctor.check import Check, Finding, failed, passed, skipped
from oomph.doctor.commands import install
from oomph.doctor.releases import RELEASES, release_of
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    python, tensorflow = snapshot.python, snapshot.tensorflow
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    package = snapshot.packages.get(tensorflow.distribution)
    tags = package.tags if package else ()
    made_for = sorted({tag.split("-")[0] for tag in tags})
    if made_for and python.tag not in made_for and not any(tag.startswith("py") for tag in made_for):
        return failed(
            "binary-incompatibility",
            f"TensorFlow {tensorflow.version} was installed for {', '.join(made_for)}, but this is Python"
            f" {python.version_text} ({python.tag}).",
            Remedy("Reinstall it for this Python", install(snapshot, "--force-reinstall", _fitting(snapshot))),
        )
    return passed(f"Python {python.version_text} is the one that TensorFlow {tensorflow.version} was built for")


def _fitting(snapshot: Snapshot) -> str:
    """The installed version if it has a wheel for this Python, else the newest that does."""
    assert snapshot.tensorflow is not None
    minor = snapshot.python.version[1]
    own = release_of(snapshot.tensorflow.numbers)
    if own is None or own.pythons[0] <= minor <= own.pythons[1]:
        return f"tensorflow[and-cuda]=={snapshot.tensorflow.version}"
    fitting = [release for release in RELEASES if release.pythons[0] <= minor <= release.pythons[1]]
    return f"tensorflow[and-cuda]=={'.'.join(map(str, fitting[-1].series))}.*" if fitting else "tensorflow[and-cuda]"


CHECK = Check(
    code="DOC102",
    name="python-version",
    why=(
        "TensorFlow's extension modules load only in the minor version of CPython that they were compiled for; in any"
        " other, import tensorflow fails."
    ),
    look=_look,
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="PEP 425; the Tag lines of the wheel's WHEEL file",
)
