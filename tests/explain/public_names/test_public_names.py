"""The table of names says which releases have what, and no remedy names what never was."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from oomph.explain.catalogue.catalogue import load
from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.fact import LogFacts
from oomph.explain.facts.version_range import VersionRange
from oomph.explain.matching.gone_names import public_names_in
from oomph.explain.matching.situations import SITUATIONS
from oomph.explain.public_names.table import (
    FILE,
    keras_names,
    names_of_tensorflow_1,
    pythons_of,
    requirements_of,
    tensorflow_names,
)

_GONE = (
    "keras.engine",
    "keras.objectives",
    "keras.src",
    "tensorflow.contrib",
    "tensorflow.python",
    "tf.contrib",
    "tf.python",
)
"""Names that remedies mention to get rid of them."""
_FILES = ("keras.json", "keras.py", "tensorflow.py")
_FIRST_IN_TABLE = (2, 4)


def test_file_is_small() -> None:
    assert FILE.stat().st_size < 1 << 20


@pytest.mark.parametrize(
    ("name", "parameter", "since", "until"),
    [
        ("keras.layers.LeakyReLU", "alpha", (2, 4), (2, 15)),
        ("keras.layers.LeakyReLU", "negative_slope", (3, 0), None),
        ("keras.Model.fit", "workers", (2, 4), (2, 15)),
        ("keras.optimizers.legacy.Adam", "", (2, 9), (2, 15)),  # in Keras 3 it only raises
        ("keras.ops", "", (3, 0), None),
        ("keras.backend.learning_phase", "", (2, 4), (2, 15)),
    ],
)
def test_lifetimes_of_keras_names(
    name: str, parameter: str, since: tuple[int, ...], until: tuple[int, ...] | None
) -> None:
    life = keras_names().lifetime(name, parameter)
    assert life is not None
    assert life.since == since
    assert life.goes_on if until is None else life.until == until


def test_names_of_tensorflow() -> None:
    estimator = tensorflow_names().lifetime("tf.estimator")
    assert estimator is not None
    assert estimator.until == (2, 15)
    assert estimator.excludes(VersionRange(since=(2, 16)))
    assert not estimator.excludes(VersionRange())
    assert tensorflow_names().lifetime("tf.Session") is None
    assert "tf.Session" in names_of_tensorflow_1()


def test_requirements_are_those_of_the_wheels() -> None:
    assert any(each.startswith("numpy") and "<2.0" in each for each in requirements_of((2, 15)))
    assert not any("\n" in each for each in requirements_of((2, 21)))
    assert 12 not in pythons_of((2, 15))
    assert 12 in pythons_of((2, 16))


def _remedies() -> Iterator[Remedy]:
    for fault in load():
        yield from fault.remedies
        yield from (remedy for signature in fault.signatures for remedy in signature.remedies)
    yield from (each.remedy for each in SITUATIONS)


def test_every_name_in_a_remedy_exists() -> None:
    unknown = set[str]()
    for remedy in _remedies():
        text = f"{remedy.text} {remedy.known} {remedy.command}"
        for name, life in public_names_in(text):
            if life is None and not _is_allowed(name, text):
                unknown.add(name)
    assert not unknown


def _is_allowed(name: str, text: str) -> bool:
    parent, _, _ = name.rpartition(".")
    of_class = parent.rpartition(".")[2][:1].isupper() and any(life for _, life in public_names_in(parent))
    of_1 = not names_of_tensorflow_1().isdisjoint((name, parent, parent.rpartition(".")[0])) or name.startswith(
        ("tf.compat.", "tensorflow.compat.")
    )
    plural = any(life for _, life in public_names_in(name.removesuffix("s")))
    replaced = f"in place of {name}" in text
    return of_class or of_1 or plural or replaced or name.startswith(_GONE) or name in _FILES


_INSTALLED = re.compile(r"pip install (?P<words>[^&|;${]+)")
_PINNED = re.compile(r"\A(?P<name>keras|tensorflow)(?:\[[a-z-]+\])?(?P<bounds>[<>=!~]+\d.*)")


def test_every_pip_command_names_releases_that_exist() -> None:
    for remedy in _remedies():
        for command in _INSTALLED.finditer(remedy.command):
            words = (each.strip("\"'") for each in command["words"].split())
            for pinned in filter(None, map(_PINNED.match, words)):
                _check(Requirement(pinned[0]), remedy)


def _check(requirement: Requirement, remedy: Remedy) -> None:
    releases = {"keras": keras_names().releases, "tensorflow": tensorflow_names().releases}.get(requirement.name)
    for specifier in requirement.specifier if releases else ():
        version = tuple(int(each) for each in specifier.version.split(".")[:2] if each.isdigit())
        if len(version) == 2 and version >= _FIRST_IN_TABLE:
            assert version in (releases or ()), remedy


@pytest.mark.parametrize("name", ["tf.keras.layers.Dense", "tensorflow.keras.layers.Dense", "keras.layers.Dense"])
def test_spellings_of_one_name(name: str) -> None:
    ((_, life),) = public_names_in(f"use {name}(3)")
    assert life is not None
    assert life.goes_on


def test_nothing_is_known_of_an_empty_log() -> None:
    assert LogFacts().version_of("keras") == VersionRange()
