"""No TensorFlow, or half of one."""

from oomph.doctor.check import Check, Finding, failed, passed, warned
from oomph.doctor.commands import install, reinstall, tensorflow_with_cuda
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    tensorflow = snapshot.tensorflow
    if tensorflow is None:
        return failed(
            "binary-incompatibility",
            f"{snapshot.python.executable} has no TensorFlow.",
            Remedy("Install it, with its CUDA libraries", install(snapshot, "tensorflow[and-cuda]")),
            Remedy("Or name the Python that has it", "oomph doctor --python path/to/python"),
        )
    broken = [package for package in snapshot.packages.found if package.problem]
    if broken:
        named = "; ".join(f"{package.name} {package.version}: {package.problem}" for package in broken)
        wanted = tensorflow_with_cuda(snapshot) if any("tensorflow" in p.name for p in broken) else broken[0].name
        add = Remedy("Uninstall and reinstall them", reinstall(snapshot, [p.name for p in broken], wanted))
        fail = any(package.problem.endswith("is gone") for package in broken)
        text = f"Half-installed packages: {named}."
        return (failed if fail else warned)("binary-incompatibility", text, add)
    if snapshot.packages.leftovers:
        folders = " ".join(snapshot.packages.leftovers)
        remove = Remedy("Remove what an interrupted pip has left behind", f"rm -r {folders}")
        return warned("binary-incompatibility", f"An interrupted pip has left {folders} behind.", remove)
    return passed(f"TensorFlow {tensorflow.version}")


CHECK = Check(
    code="DOC110",
    name="tensorflow-installed",
    why=(
        "Nothing trains without it. An interrupted pip leaves metadata without files, or files without metadata; what"
        " is imported then is a mixture."
    ),
    look=_look,
    faults=("binary-incompatibility",),
    needs=("packages", "tensorflow"),
    source="https://packaging.python.org/en/latest/specifications/recording-installed-packages/",
)
