"""Two distributions that both contain the package `tensorflow`."""

from oomph.doctor.check import Check, Finding, failed, noted, passed, skipped
from oomph.doctor.commands import reinstall
from oomph.doctor.observe.tensorflow import DISTRIBUTIONS
from oomph.doctor.snapshot import Package, Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    if snapshot.tensorflow is None:
        return skipped("TensorFlow is not installed")
    everywhere = [package for package in snapshot.packages.found if package.name in DISTRIBUTIONS]
    folder = snapshot.packages.get(snapshot.tensorflow.distribution)
    found = [package for package in everywhere if folder is not None and package.folder == folder.folder]
    if len(found) < 2 or _is_shim(found):
        if len(everywhere) > len(found):
            others = ", ".join(f"{p.name} {p.version} in {p.folder}" for p in everywhere if p not in found)
            return noted(f"the first on sys.path counts, {found[0].name} {found[0].version}; there is also {others}")
        return passed("one distribution contains TensorFlow")
    named = ", ".join(f"{package.name} {package.version}" for package in found)
    newest = f"tensorflow[and-cuda]=={max((p for p in found), key=_numbers).version}"
    names = list(dict.fromkeys(package.name for package in found))
    return failed(
        "binary-incompatibility",
        f"{len(found)} distributions put the package tensorflow into {found[0].folder}: {named}.",
        Remedy("Uninstall all of them, then install one", reinstall(snapshot, names, newest)),
    )


def _is_shim(found: list[Package]) -> bool:
    """On Windows and ARM, `tensorflow` is an empty wheel that requires another one of the same version."""
    return len({package.version for package in found}) == 1 and {"tensorflow", "tensorflow-intel"} == {
        p.name for p in found
    }


def _numbers(package: Package) -> tuple[int, ...]:
    return tuple(int(part) for part in package.version.split(".") if part.isdigit())


CHECK = Check(
    code="DOC111",
    name="tensorflow-twice",
    why=(
        "They overwrite each other's files: what is imported is a mixture of both, and uninstalling one breaks the"
        " other."
    ),
    look=_look,
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="https://github.com/pypa/pip/issues/4625",
)
