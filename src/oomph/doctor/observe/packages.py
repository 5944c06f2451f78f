"""Reads the metadata of the distributions that matter for TensorFlow on a GPU, even broken ones. Imports nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution
from os import PathLike
from pathlib import Path

from oomph.doctor.snapshot import Package, Packages
from oomph.files.opening import read_regular

_FOLDER = re.compile(r"(?P<name>[^-]+)(?:-(?P<version>[^-]+))?(?:-.*)?\.(?:dist|egg)-info\Z")
_WANTED = re.compile(
    r"(?:tensorflow|tf|keras|intel-tensorflow|nvidia|tensorrt|torch|jax|jaxlib|numpy|protobuf|ml-dtypes|h5py|typing-extensions|"
    r"setuptools|pip|oomph)(?:-.*)?\Z"
)
_MODULES = {
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-intel": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "tf-nightly": "tensorflow",
    "tensorflow-rocm": "tensorflow",
    "keras": "keras",
    "tf-keras": "tf_keras",
    "numpy": "numpy",
}
"""Maps each distribution that may be half uninstalled to the package that it installs."""
_MOST_BYTES = 1 << 22
_ALIAS = re.compile(r"[-_.]+")


class _OnDisk(Distribution):
    """A distribution whose metadata is read only from regular files."""

    def __init__(self, info: Path) -> None:
        self._info = info

    def read_text(self, filename: str) -> str | None:
        """Return the contents of a metadata file, or None if unreadable. For an old egg-info, the name is empty."""
        try:
            return read_regular(self._info / filename, _MOST_BYTES).decode(errors="replace")
        except OSError:
            return None

    def locate_file(self, path: str | PathLike[str]) -> Path:
        """Return the path of a file that the distribution installed."""
        return self._info.parent / path


def observe_packages(path: Sequence[str]) -> Packages:
    """Return every relevant distribution on this sys.path, in order."""
    found: list[Package] = []
    leftovers: list[str] = []
    folders = dict.fromkeys(str(Path(entry)) for entry in path if entry)
    for folder in map(Path, folders):
        for name in _names(folder):
            if name.startswith("~"):
                leftovers.append(str(folder / name))
            elif (match := _FOLDER.match(name)) and _WANTED.match(normal(match["name"])):
                found.append(_package(folder, name, match["name"], match["version"] or ""))
    return Packages(tuple(found), tuple(leftovers))


def normal(name: str) -> str:
    """Normalize the name of a distribution for comparison (PEP 503)."""
    return _ALIAS.sub("-", name).lower()


def requirements(package: str, path: Sequence[str]) -> Iterator[str]:
    """Yield the Requires-Dist lines of a distribution."""
    for entry in path:
        for name in _names(Path(entry)):
            match = _FOLDER.match(name)
            if match and normal(match["name"]) == package:
                yield from _OnDisk(Path(entry) / name).requires or ()
                return


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.name.endswith("-info") or entry.name[0] == "~")
    except OSError:
        return []


def _package(folder: Path, info: str, name: str, version: str) -> Package:
    """Read one distribution. Broken metadata becomes its `problem` instead of an exception."""
    name = normal(name)
    try:
        distribution = _OnDisk(folder / info)
        named = distribution.metadata["Name"]
        version = distribution.metadata["Version"] or version
        requires = tuple(distribution.requires or ()) if _MODULES.get(name) == "tensorflow" else ()
        tags = tuple(_tags(distribution)) if _MODULES.get(name) == "tensorflow" else ()
    except Exception as error:
        return Package(name, version, str(folder), f"metadata cannot be read: {type(error).__name__}")
    problem = "" if named else "no METADATA"
    return Package(name, version, str(folder), problem or _missing(folder, info, name), requires, tags)


def _missing(folder: Path, info: str, name: str) -> str:
    """Describe what is missing from a half-uninstalled distribution; empty if nothing is."""
    module = _MODULES.get(name)
    if module is None or not info.endswith(".dist-info") or _is_editable(folder / info):
        return ""
    if not (folder / module / "__init__.py").is_file():
        return f"{module}/__init__.py is gone"
    return ""


def _is_editable(info: Path) -> bool:
    return (info / "direct_url.json").is_file()


def _tags(distribution: Distribution) -> Iterator[str]:
    for line in (distribution.read_text("WHEEL") or "").splitlines():
        if line.startswith("Tag: "):
            yield line[5:].strip()
