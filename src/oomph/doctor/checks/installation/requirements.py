"""Packages whose versions TensorFlow's own metadata rules out: NumPy, protobuf, Keras, h5py, ..."""

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from oomph.doctor.check import Check, Finding, failed, passed, skipped
from oomph.doctor.commands import install
from oomph.doctor.observe.packages import normal
from oomph.doctor.snapshot import Package, Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    tensorflow = snapshot.tensorflow
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    wrong = [
        (package, need)
        for package, need in demands(snapshot)
        if not package.name.startswith("nvidia-") and not met(package, need)
    ]
    if not wrong:
        return passed(f"what TensorFlow {tensorflow.version} requires is installed, in versions that it allows")
    named = ", ".join(f"{package.name} {package.version} (it requires {need.specifier})" for package, need in wrong)
    wanted = [f"{package.name}{need.specifier}" for package, need in wrong]
    return failed(
        "binary-incompatibility",
        f"TensorFlow {tensorflow.version} does not allow {named}.",
        Remedy("Install versions that it allows", install(snapshot, *wanted)),
    )


def demands(snapshot: Snapshot) -> Iterator[tuple[Package, Requirement]]:
    """Each installed package that TensorFlow's metadata names, also in the extra and-cuda, with its requirement."""
    tensorflow = snapshot.packages.get(snapshot.tensorflow.distribution) if snapshot.tensorflow else None
    marks = {"extra": "and-cuda", "python_version": "{}.{}".format(*snapshot.python.version[:2])}
    for line in tensorflow.requires if tensorflow else ():
        try:
            need = Requirement(line)
        except InvalidRequirement:
            continue  # metadata from before 2.13 has a form that no longer parses
        package = snapshot.packages.get(normal(need.name))
        if package is not None and (need.marker is None or need.marker.evaluate(marks)):
            yield package, need


def met(package: Package, need: Requirement) -> bool:
    """Whether the installed version is allowed. A string that is no version passes."""
    try:
        return need.specifier.contains(package.version, prereleases=True)
    except ValueError:
        return True


CHECK = Check(
    code="DOC114",
    name="requirements",
    why=(
        "Another package has replaced what TensorFlow was built against: imports fail with a missing symbol or"
        " attribute, or crash."
    ),
    look=_look,
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="Requires-Dist in the installed wheel's METADATA",
)
