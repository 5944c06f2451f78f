"""Conditions are met by what a log states, and by nothing else."""

from __future__ import annotations

import pytest

from oomph.explain.facts.condition import condition
from oomph.explain.facts.fact import (
    FailedAlready,
    FailedNode,
    FileHead,
    InPhase,
    LibraryVersion,
    LogFacts,
)
from oomph.explain.facts.version_range import VersionRange

_STATED = LogFacts(
    versions=(
        LibraryVersion("keras", VersionRange(since=(3,)), 1),
        LibraryVersion("python", VersionRange((3, 9), (3, 9)), 2),
    ),
    phase=InPhase("load", 5),
    node=FailedNode("Adam/mul", "weight slot", 6),
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
        "tried modprobe",
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
