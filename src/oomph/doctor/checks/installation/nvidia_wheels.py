"""CUDA library wheels in versions that the installed TensorFlow rules out, or of two generations."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.checks.installation.requirements import demands, met
from oomph.doctor.commands import install, reinstall, tensorflow_with_cuda
from oomph.doctor.snapshot import Package, Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    tensorflow = snapshot.tensorflow
    wheels = [package for package in snapshot.packages.found if _generation(package)]
    if tensorflow is None or not wheels:
        return skipped("no wheels of CUDA libraries are installed")
    wrong = [(p, need) for p, need in demands(snapshot) if p.name.startswith("nvidia-") and not met(p, need)]
    if wrong:
        named = ", ".join(f"{package.name} {package.version} (it requires {need.specifier})" for package, need in wrong)
        wanted = [f"{package.name}{need.specifier}" for package, need in wrong]
        text = f"TensorFlow {tensorflow.version} does not allow {named}."
        return warned(
            "cuda-library-missing", text, Remedy("Install versions that it allows", install(snapshot, *wanted))
        )
    wanted_generation = f"cu{tensorflow.cuda_version[0]}" if tensorflow.cuda_version else ""
    if wanted_generation and not any(_generation(package) == wanted_generation for package in wheels):
        found = sorted({_generation(package) for package in wheels})
        return warned(
            "cuda-library-missing",
            f"The installed CUDA libraries are for {', '.join(found)}, but TensorFlow {tensorflow.version} loads those"
            f" for {wanted_generation}.",
            Remedy("Install the ones that it needs", install(snapshot, tensorflow_with_cuda(snapshot))),
        )
    double = _double(wheels)
    if double:
        again = reinstall(snapshot, double, tensorflow_with_cuda(snapshot))
        text = f"Two generations of one library share a folder: {', '.join(double)}."
        return warned("cudnn-version-mismatch", text, Remedy("Uninstall both, then install the right one", again))
    return passed(f"{len(wheels)} wheels of CUDA libraries, in versions that TensorFlow {tensorflow.version} allows")


def _generation(package: Package) -> str:
    """ "cu12" of nvidia-cudnn-cu12."""
    name, _, generation = package.name.rpartition("-")
    return generation if name.startswith("nvidia-") and generation.startswith("cu") and generation[2:].isdigit() else ""


def _double(wheels: list[Package]) -> list[str]:
    """Wheels that share a stem, and hence the folder nvidia/<stem>/lib."""
    stems = [package.name.rpartition("-")[0] for package in wheels]
    return sorted(package.name for package in wheels if stems.count(package.name.rpartition("-")[0]) > 1)


CHECK = Check(
    code="DOC115",
    name="nvidia-wheels",
    why=(
        "PyTorch, JAX and TensorFlow share these wheels: installing one can replace the versions that another was"
        " built with."
    ),
    look=_look,
    faults=("cuda-library-missing", "cudnn-version-mismatch"),
    needs=("packages",),
    source=(
        "the extra and-cuda in the installed wheel's METADATA; https://github.com/tensorflow/tensorflow/issues/60913"
    ),
)
