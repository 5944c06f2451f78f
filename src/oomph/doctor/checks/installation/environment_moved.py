"""A virtual environment that was moved or copied by hand."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy


def _look(snapshot: Snapshot) -> Finding:
    python = snapshot.python
    if not python.prefix or python.prefix == python.base_prefix:
        return skipped("no virtual environment")
    if python.moved_from:
        return warned(
            "binary-incompatibility",
            f"The virtual environment {python.prefix} was created in {python.moved_from}: `pip` and other commands in"
            " its bin/ still use that place.",
            Remedy(
                "Recreate it where it should stay",
                f"python{python.version[0]}.{python.version[1]} -m venv --clear {python.prefix}",
            ),
            Remedy("Until then, call pip through its Python", f"{python.executable} -m pip list"),
        )
    return passed("the virtual environment is where it was created")


CHECK = Check(
    code="DOC103",
    name="environment-moved",
    why=(
        "Scripts in bin/ name their Python by its full path: after a move, pip installs into the old place, and the"
        " script does not see it."
    ),
    look=_look,
    faults=("binary-incompatibility",),
    source="https://docs.python.org/3/library/venv.html, on moving environments",
)
