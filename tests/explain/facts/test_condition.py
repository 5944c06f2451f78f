"""Conditions are met by what a log states, and by nothing else."""

from __future__ import annotations

import pytest

from oomph.explain.facts.condition import condition
from oomph.explain.facts.fact import (
    FailedAlready,
    FileHead,
    Gpu,
    InPhase,
    InstalledBy,
    LibraryVersion,
    LogFacts,
    Node,
    ShapePair,
)
from oomph.explain.facts.version_range import VersionRange

_STATED = LogFacts(
    versions=(
        LibraryVersion("keras", VersionRange(since=(3,)), 1),
        LibraryVersion("python", VersionRange((3, 9), (3, 9)), 2),
    ),
    gpus=(Gpu("Tesla T4", (7, 5), 3),),
    installed_by=(InstalledBy("conda", 4),),
    phase=InPhase("load", 5),
    node=Node("Adam/mul", "weight slot", 6),
    shapes=(ShapePair((None, 8, 8, 1), (None, 8, 8, 3), 7),),
    file_heads=(FileHead("webp", 8),),
    failed=(FailedAlready("modprobe", 9),),
)


@pytest.mark.parametrize(
    "text",
    [
        "keras >= 3",
        "keras >= 2.16",
        "python < 3.10",
        "phase load",
        "node weight slot",
        "file webp",
        "manager conda",
        "tried modprobe",
        "gpu at work",
        "channels differ",
    ],
)
def test_stated_condition_is_met_and_needs_the_fact(text: str) -> None:
    assert condition(text).is_met(_STATED)
    assert not condition(text).is_met(LogFacts()), "a log that says nothing meets nothing"


@pytest.mark.parametrize(
    "text", ["keras < 3", "keras >= 4", "python >= 3.10", "phase fit", "node loss", "tried smaller batch"]
)
def test_other_condition_is_not_met(text: str) -> None:
    assert not condition(text).is_met(_STATED)


@pytest.mark.parametrize("text", ["", "keras", "keras > 3", "kears >= 3", "phase lunch", "file", "gpu"])
def test_unknown_condition_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="unknown condition"):
        condition(text)
