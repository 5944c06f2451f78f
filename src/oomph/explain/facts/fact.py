"""The kinds of fact that a log can state, as frozen values, each with the line that states it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from oomph.explain.facts.at_hand import AtHand
from oomph.explain.facts.companions import Companion
from oomph.explain.facts.version_range import Version, VersionRange

Library = Literal[
    "tensorflow", "keras", "tf_keras", "python", "numpy", "protobuf", "cuda", "cudnn", "driver", "tensorflow-metal"
]
PackageManager = Literal["conda", "pip", "pipenv", "poetry", "uv"]
ProgramPhase = Literal["import", "data", "build", "compile", "fit", "validation", "predict", "save", "load"]
NodeKind = Literal["weight slot", "gradient", "loss", "metric", "embedding", "iterator", "normalisation"]
FileFormat = Literal["webp", "png", "jpeg", "gif", "html", "gzip", "zip", "hdf5", "git-lfs pointer"]
EndedData = Literal["validation data"]
KerasGeneration = Literal["Keras 2", "Keras 3"]
MissingPart = Literal["start of the traceback", "traceback", "error"]
FailedStep = Literal["modprobe", "save best model", "smaller batch", "memory growth", "pip install", "conda install"]

_FIRST_WITHOUT_KERAS_2: Version = (2, 16)
_KERAS_3: Version = (3,)


@dataclass(frozen=True)
class LibraryVersion:
    """The versions of a library that the log allows."""

    library: Library
    versions: VersionRange
    line: int | None


@dataclass(frozen=True)
class LoggedGpu:
    """A GPU that TensorFlow created a device for."""

    name: str
    compute_capability: Version
    line: int | None


@dataclass(frozen=True)
class InstalledBy:
    """A package manager that the environment was made with."""

    manager: PackageManager
    line: int | None


@dataclass(frozen=True)
class CodePlace:
    """A frame of the last traceback."""

    file: str
    code_line: int | None
    function: str
    line: int | None
    code: str = ""
    """The source line, as the traceback shows it."""


@dataclass(frozen=True)
class InvolvedPackage:
    """A package besides TensorFlow and Keras that the log speaks of."""

    package: str
    """Its name in the package index, or that of its folder if it is not one of the known companions."""
    companion: Companion | None
    versions: VersionRange
    line: int | None


@dataclass(frozen=True)
class RaisedError:
    """The exception that ended the program."""

    type_name: str
    message: Sequence[str]
    """All lines of its message that say something, without frames, nodes and arguments."""
    line: int | None


@dataclass(frozen=True)
class LogGap:
    """Something that the log lacks because it was cut."""

    missing: MissingPart
    line: int | None


@dataclass(frozen=True)
class InPhase:
    """The activity of the program when the last error was raised."""

    phase: ProgramPhase
    line: int | None


@dataclass(frozen=True)
class FailedNode:
    """The graph node in which the last error was raised."""

    name: str
    kind: NodeKind | None
    line: int | None


@dataclass(frozen=True)
class ShapePair:
    """Two shapes that do not go together."""

    first: tuple[int | None, ...]
    second: tuple[int | None, ...]
    line: int | None


@dataclass(frozen=True)
class FileHead:
    """The format of a file, by its first bytes."""

    format: FileFormat
    line: int | None


@dataclass(frozen=True)
class MissingModule:
    """A module that Python did not find."""

    name: str
    line: int | None


@dataclass(frozen=True)
class SetVariable:
    """A variable of the environment that the program itself sets."""

    name: str
    line: int | None


@dataclass(frozen=True)
class DataRanOut:
    """The end of data that came before the steps that were asked for."""

    batches: int
    """The number of batches that were asked for."""
    kind: EndedData | None
    """The data that ran out, if the progress bar shows it."""
    line: int | None


@dataclass(frozen=True)
class FailedAlready:
    """A step that was tried according to the log, and did not help."""

    step: FailedStep
    line: int | None


@dataclass(frozen=True)
class LogFacts:
    """All facts of a log."""

    versions: Sequence[LibraryVersion] = ()
    gpus: Sequence[LoggedGpu] = ()
    installed_by: Sequence[InstalledBy] = ()
    error: RaisedError | None = None
    phase: InPhase | None = None
    own_place: CodePlace | None = None
    """The innermost frame in the user's own code."""
    library_place: CodePlace | None = None
    """The innermost frame in an installed package."""
    failing_package: str = ""
    """The folder of the innermost package in the traceback that is neither Python, TensorFlow nor Keras; empty if that
    frame is in the user's own code."""
    packages: Sequence[InvolvedPackage] = ()
    missing_modules: Sequence[MissingModule] = ()
    set_variables: Sequence[SetVariable] = ()
    ran_out: DataRanOut | None = None
    node: FailedNode | None = None
    shapes: Sequence[ShapePair] = ()
    file_heads: Sequence[FileHead] = ()
    failed: Sequence[FailedAlready] = ()
    gaps: Sequence[LogGap] = ()
    at_hand: AtHand | None = None
    """The facts read besides the log, if there are any."""

    def version_of(self, library: Library) -> VersionRange:
        """Return the versions of a library that the log allows: all of them, if it says nothing."""
        return next((each.versions for each in self.versions if each.library == library), VersionRange())

    @property
    def keras_versions(self) -> VersionRange:
        """The versions of Keras that the log allows, also by that of TensorFlow, which brings its own."""
        stated, tensorflow = self.version_of("keras"), self.version_of("tensorflow")
        if stated != VersionRange() or self._has_tf_keras:
            return stated
        if tensorflow.is_from(_FIRST_WITHOUT_KERAS_2):
            return VersionRange(since=_KERAS_3)
        return tensorflow if tensorflow.is_before(_FIRST_WITHOUT_KERAS_2) else stated

    @property
    def uses(self) -> KerasGeneration | None:
        """The generation of Keras that the program trains with, if the log shows it."""
        if self._has_tf_keras or self.keras_versions.is_before(_KERAS_3):
            return "Keras 2"
        return "Keras 3" if self.keras_versions.is_from(_KERAS_3) else None

    @property
    def _has_tf_keras(self) -> bool:
        return any(each.library == "tf_keras" for each in self.versions)

    def as_document(self) -> dict[str, Any]:
        """Return the facts as JSON values, without those that the log does not state."""
        return {each.name: _document(value) for each in fields(self) if (value := getattr(self, each.name))}


def _document(value: Any) -> Any:
    if isinstance(value, VersionRange):
        return {"since": _written(value.since), "until": _written(value.until)}
    if isinstance(value, tuple | list) and not all(isinstance(each, int | str | None) for each in value):
        return [_document(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return dict(_entries(value))
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _entries(fact: Any) -> Iterator[tuple[str, Any]]:
    for each in fields(fact):
        yield each.name, _document(getattr(fact, each.name))


def _written(version: Version | None) -> str | None:
    return None if version is None else ".".join(map(str, version))
