"""A command that pip would refuse, or that TensorFlow's own wheel forbids, is not advised."""

from __future__ import annotations

import pytest

from oomph.explain.facts.fact import LibraryVersion, LogFacts
from oomph.explain.facts.version_range import VersionRange
from oomph.explain.matching.pins import is_installable


def _known(tensorflow: tuple[int, ...] | None, python: tuple[int, ...] | None = None) -> LogFacts:
    found = [
        LibraryVersion(library, VersionRange.exactly(version), 1)
        for library, version in (("tensorflow", tensorflow), ("python", python))
        if version is not None
    ]
    return LogFacts(versions=found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "tensorflow", "python", "installable"),
    [
        ('python -m pip install "protobuf==3.20.*"', (2, 21, 0), None, False),
        ('python -m pip install "protobuf==3.20.*"', (2, 10, 1), None, False),  # its wheel needs one below 3.20
        ('python -m pip install "protobuf==3.20.*"', (2, 12, 0), None, True),
        ('python -m pip install "protobuf==3.20.*"', None, None, True),
        ('python -m pip install "numpy<2"', (2, 15, 1), None, True),
        ('python -m pip install "tensorflow==2.15.*"', None, (3, 12), False),
        ('python -m pip install "tensorflow==2.15.*"', None, (3, 11), True),
        ('python -m pip install "tensorflow==2.15.*"', None, None, True),
        ('python -m pip install "tensorflow<2.11"', None, (3, 12), True),
        ("python -m pip install tf_keras", (2, 21, 0), (3, 12), True),
        ("nvidia-smi", (2, 21, 0), (3, 12), True),
    ],
)
def test_command(
    command: str, tensorflow: tuple[int, ...] | None, python: tuple[int, ...] | None, installable: bool
) -> None:
    assert is_installable(command, _known(tensorflow, python)) is installable
