"""Conditions on facts, as the pages write them: "keras >= 3", "phase load", "tried modprobe". Pure.

A condition is met if the log states it. What the log does not say neither meets a condition nor contradicts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple, get_args

from oomph.explain.facts.fact import (
    EndedData,
    FailedStep,
    FileFormat,
    KerasGeneration,
    Library,
    LogFacts,
    NodeKind,
    ProgramPhase,
)
from oomph.explain.facts.version_range import Version, VersionRange, version

_VERSION = re.compile(r"(?P<library>[a-z][a-z_-]{1,30}) (?P<sign><|>=) (?P<version>\d+(?:\.\d+){0,3})")
_SIGNS: Mapping[str, Callable[[VersionRange, Version], bool]] = {
    ">=": VersionRange.is_from,
    "<": VersionRange.is_before,
}
_VALUES: Mapping[str, tuple[object, Callable[[LogFacts], list[str]]]] = {
    "phase": (ProgramPhase, lambda facts: [facts.phase.phase] if facts.phase else []),
    "node": (NodeKind, lambda facts: [facts.node.kind] if facts.node and facts.node.kind else []),
    "file": (FileFormat, lambda facts: [each.format for each in facts.file_heads]),
    "uses": (KerasGeneration, lambda facts: [facts.uses] if facts.uses else []),
    "ended": (EndedData, lambda facts: [facts.ran_out.kind] if facts.ran_out and facts.ran_out.kind else []),
    "tried": (FailedStep, lambda facts: [each.step for each in facts.failed]),
}


_COMMANDS: Mapping[str, str] = {
    "python": "python --version",
    "cuda": "nvcc --version",
    "driver": "nvidia-smi",
    "cudnn": "python -m pip show nvidia-cudnn-cu12",
}
_OF_PACKAGE = "python -m pip show {library}"


class Condition(NamedTuple):
    """Something that a log may state."""

    text: str
    is_met: Callable[[LogFacts], bool]
    is_open: Callable[[LogFacts], bool] = lambda _: False
    """True if the log neither states nor excludes it, where a command can tell."""
    command: str = ""
    """The command that tells."""


@cache
def condition(text: str) -> Condition:
    """Read a condition. Raises ValueError if it is none."""
    if (found := _VERSION.fullmatch(text)) is not None and found["library"] in get_args(Library):
        sign, bound = _SIGNS[found["sign"]], version(found["version"])
        library: Library = found["library"]  # type: ignore[assignment]
        command = _COMMANDS.get(library) or _OF_PACKAGE.format(library=library)
        return Condition(
            text,
            lambda facts: sign(facts.version_of(library), bound),
            lambda facts: not any(each(facts.version_of(library), bound) for each in _SIGNS.values()),
            command,
        )
    kind, _, value = text.partition(" ")
    if kind in _VALUES and value in get_args(_VALUES[kind][0]):
        stated = _VALUES[kind][1]
        return Condition(text, lambda facts: value in stated(facts))
    raise ValueError(f"unknown condition: {text!r}")
