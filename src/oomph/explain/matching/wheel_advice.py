"""Reckons from a release that pip did not find which Python has wheels for it, or that pip is too old. Pure."""

from __future__ import annotations

from collections.abc import Collection

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.fact import LogFacts
from oomph.explain.facts.version_range import Version, version
from oomph.explain.public_names.table import pythons_of
from oomph.files.patterns import lazy_pattern

_WANTED = lazy_pattern(
    r"(?:found for|requirement) "
    r"(?P<package>tensorflow(?:-(?:gpu|cpu|intel|macos))?(?:\[[\w,-]{1,20}\])?[=~]=(?P<version>\d[\d.]*))"
)
_OFFERED = lazy_pattern(r"\(from versions: (?P<versions>[^)\n]{1,4000})")
_BEFORE_THE_TABLE = (((2, 2), (5, 8)), ((1, 13), (5, 7)), ((1, 6), (4, 6)))
"""The first of several releases before 2.4, and the first and last minor version of Python 3 with wheels."""


def wheel_remedies(fault: str, texts: Collection[str], systems: Collection[str], facts: LogFacts) -> list[Remedy]:
    """Return what to do about a release of TensorFlow that pip did not find, if its number tells."""
    found = next((match for text in texts if (match := _WANTED.search(text)) is not None), None)
    if fault != "no-matching-package" or found is None:
        return []
    pythons, package = _pythons(version(found["version"].rstrip("."))), found["package"].rstrip(".")
    if not pythons or any("(from versions: none)" in text for text in texts):
        return []  # there is none for this system either
    if _others_for(pythons, texts):
        text = f"Update pip: it offers other releases for this Python, and is too old to see the wheels of {package}"
        return [Remedy(text, "python -m pip install --upgrade pip", kind="environment")]
    python = facts.version_of("python").since
    if python is not None and len(python) > 1 and python[1] in pythons:
        return []
    first, last = min(pythons), max(pythons)
    return [
        Remedy(
            f"{package} has wheels for Python 3.{first} to 3.{last}, and this Python is a different one: use one of "
            f"these",
            _new_environment(last, package, systems),
            changes="the version of Python",
            kind="pin",
        )
    ]


def _new_environment(minor: int, package: str, systems: Collection[str]) -> str:
    if "windows" in systems:
        return f'py -3.{minor} -m venv tf && tf\\Scripts\\pip install "{package}"'
    return f'conda create -n tf python=3.{minor} && conda activate tf && python -m pip install "{package}"'


def _pythons(release: Version) -> Collection[int]:
    if found := pythons_of(release):
        return found
    ranges = (pythons for since, pythons in _BEFORE_THE_TABLE if since <= release[:2] < (2, 4))
    first, last = next(ranges, (0, -1))
    return range(first, last + 1)


def _others_for(pythons: Collection[int], texts: Collection[str]) -> bool:
    """True if the index offers finished releases that only these versions of Python have."""
    offered = next((match["versions"] for text in texts if (match := _OFFERED.search(text)) is not None), "")
    releases = [version(each) for each in offered.split(", ") if each.replace(".", "").isdigit()]
    return bool(releases) and tuple(_pythons(max(releases))) == tuple(pythons)
