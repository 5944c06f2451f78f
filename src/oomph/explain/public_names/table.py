"""Reads the table of public names: which release of Keras or TensorFlow has which name, and which parameters. Pure.

`benchmarks/public_names.py` makes the table from the wheels themselves. It is read only when an error or a remedy
concerns a name.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oomph.explain.facts.version_range import Version, VersionRange, version

FILE = Path(__file__).with_name("names.json.z")


class NameLifetime(NamedTuple):
    """The releases that have a name."""

    since: Version
    until: Version
    """The last release that has it."""
    goes_on: bool
    """True if that is the last release in the table, so that later ones may have it too."""

    def excludes(self, versions: VersionRange) -> bool:
        """True if none of these versions has the name."""
        after = (*self.until[:-1], self.until[-1] + 1)
        return versions.is_before(self.since) or (not self.goes_on and versions.is_from(after))


class PublicNames:
    """The names of one library.

    Args:
        document: its part of the table.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.releases: Sequence[Version] = [version(each) for each in document["releases"]]
        self._names: Mapping[str, Mapping[str, list[int]]] = document["names"]

    def lifetime(self, name: str, parameter: str = "") -> NameLifetime | None:
        """Return the releases that have a name, or a parameter of it; None if none has."""
        found = self._names.get(name, {}).get(parameter)
        if found is None:
            return None
        since, until = found
        return NameLifetime(self.releases[since], self.releases[until], until == len(self.releases) - 1)

    def ending_in(self, last: str) -> Iterator[str]:
        """Yield the names whose last part, or last parts, these are."""
        return (name for name in self._names if name.endswith(f".{last}"))

    def within(self, module: str) -> Iterator[str]:
        """Yield the names in a module."""
        return (name for name in self._names if name.startswith(f"{module}."))

    def parameters(self, name: str, versions: VersionRange) -> list[str]:
        """Return the parameters that a name has in some of these versions, without `**kwargs`."""
        lives = ((each, self.lifetime(name, each)) for each in self._names.get(name, {}) if each.isidentifier())
        return [each for each, life in lives if life is not None and not life.excludes(versions)]


@cache
def _document() -> Mapping[str, Any]:
    """Return the whole table; an empty one if the file is missing or damaged."""
    try:
        document: Mapping[str, Any] = json.loads(zlib.decompress(FILE.read_bytes()))
    except (OSError, ValueError, zlib.error):
        nothing: Mapping[str, Any] = {"releases": [], "names": {}}
        return {"keras": nothing, "tf": nothing, "needs": {}, "pythons": {}, "v1": ()}
    return document


@cache
def keras_names() -> PublicNames:
    """Return the names of Keras, from "keras."; those of `tf.keras` up to 2.15 are the same."""
    return PublicNames(_document()["keras"])


@cache
def tensorflow_names() -> PublicNames:
    """Return the names of TensorFlow, from "tf.", without Keras and compat."""
    return PublicNames(_document()["tf"])


@cache
def names_of_tensorflow_1() -> frozenset[str]:
    """Return the names of TensorFlow 1, from "tf.", that TensorFlow 2 still has under tf.compat.v1."""
    return frozenset(_document()["v1"])


def requirements_of(release: Version) -> Sequence[str]:
    """Return what a minor release of TensorFlow requires of Keras, NumPy, protobuf and h5py, as its wheel says."""
    needs: Mapping[str, Sequence[str]] = _document()["needs"]
    return needs.get(".".join(map(str, release[:2])), ())


def pythons_of(release: Version) -> Sequence[int]:
    """Return the minor versions of Python 3 that a minor release of TensorFlow has wheels for."""
    pythons: Mapping[str, Sequence[int]] = _document()["pythons"]
    return pythons.get(".".join(map(str, release[:2])), ())
