"""Reads how the environment was installed, and which steps failed already. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from oomph.explain.facts.fact import FailedAlready, FailedStep, InstalledBy, PackageManager, SetVariable
from oomph.files.patterns import lazy_pattern

WORDS = frozenset(
    {"modprobe", "conda", "miniconda", "anaconda", "mamba", "poetry", "pipenv", "Pipfile", "skipping", "environ"}
)
"""Words in lines that state these facts but match no signature; see `oomph.explain.reading.log.Words`."""


class _Manager(NamedTuple):
    manager: PackageManager
    words: tuple[str, ...]
    pattern: re.Pattern[str]


class _Failure(NamedTuple):
    step: FailedStep
    words: tuple[str, ...]
    pattern: re.Pattern[str]


_MANAGERS = (
    _Manager(
        "conda",
        ("conda", "mamba", "miniforge"),
        lazy_pattern(
            r"(?i)[/\\]\.?(?:ana|mini)?conda\d?[/\\]|[/\\](?:mini|mamba)forge\d?[/\\]|\bconda-forge\b|\$CONDA_PREFIX"
        ),
    ),
    _Manager("poetry", ("poetry",), lazy_pattern(r"[/\\]pypoetry[/\\]|\bpoetry\.lock\b")),
    _Manager(
        "pipenv",
        ("pipenv", "Pipfile"),
        lazy_pattern(r"\bpipenv[/\\.]|\bPipfile(?:\.lock)?\b|\bpipenv (?:install|lock|run)\b"),
    ),
    _Manager("uv", ("uv",), lazy_pattern(r"[/\\]uv[/\\](?:python|tools|cache|archive)|\buv pip\b|\buv\.lock\b")),
    _Manager(
        "pip",
        ("Successfully installed", "-packages/", "-packages\\"),
        lazy_pattern(r"Successfully installed |\.venv[/\\]"),
    ),
)
_FAILURES = (
    _Failure("modprobe", ("modprobe",), lazy_pattern(r"modprobe: (?:ERROR|FATAL)|could not insert 'nvidia")),
    _Failure(
        "pip install",
        ("No matching distribution", "ResolutionImpossible"),
        lazy_pattern(r"No matching distribution found|ResolutionImpossible"),
    ),
    _Failure(
        "conda install",
        ("PackagesNotFoundError", "UnsatisfiableError", "LibMambaUnsatisfiableError"),
        lazy_pattern(r"PackagesNotFoundError|UnsatisfiableError"),
    ),
    _Failure("save best model", ("best model only",), lazy_pattern(r"Can save best model only with \S+ available")),
    _Failure(
        "smaller batch",
        ("batch",),
        lazy_pattern(r"(?i)\b(?:batch[ _]size(?: of)?|batch[ _]size ?=) ?1\b(?![\d.])"),
    ),
    _Failure(
        "memory growth",
        ("GROWTH", "growth"),
        lazy_pattern(r"TF_FORCE_GPU_ALLOW_GROWTH=true|set_memory_growth\(|allow_growth ?= ?True"),
    ),
)

_SET = lazy_pattern(r"os\.environ\[['\"](?P<name>[A-Z][A-Z\d_]{2,60})['\"]\] ?=(?!=)")


class MachineReader:
    """Reads the lines of a log in order, and keeps the first that states each fact."""

    def __init__(self) -> None:
        self._managers: dict[PackageManager, InstalledBy] = {}
        self._failed: dict[FailedStep, FailedAlready] = {}
        self._set: dict[str, SetVariable] = {}

    def see(self, text: str, line: int | None) -> None:
        """Process the next line."""
        for sign in _MANAGERS:
            if sign.manager not in self._managers and _stands_in(text, sign):
                self._managers[sign.manager] = InstalledBy(sign.manager, line)
        if "os.environ[" in text and (found := _SET.search(text)) is not None:
            self._set.setdefault(found["name"], SetVariable(found["name"], line))
        for failure in _FAILURES:
            if failure.step not in self._failed and _stands_in(text, failure):
                self._failed[failure.step] = FailedAlready(failure.step, line)

    @property
    def managers(self) -> tuple[InstalledBy, ...]:
        """The package managers, in the order of their first signs."""
        return tuple(self._managers.values())

    @property
    def set_variables(self) -> tuple[SetVariable, ...]:
        """The variables of the environment that the program sets, in order."""
        return tuple(self._set.values())

    @property
    def failed(self) -> tuple[FailedAlready, ...]:
        """The steps that did not help, in order."""
        return tuple(self._failed.values())


def _stands_in(text: str, sign: _Manager | _Failure) -> bool:
    return any(word in text for word in sign.words) and sign.pattern.search(text) is not None
