"""Reads versions from what a log prints, and from paths and prefixes that only some versions have. Pure.

A version that the program prints counts more than one that a path implies. Requirements and commands to type say which
version somebody wants, not which one is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from oomph.explain.facts import companions
from oomph.explain.facts.companions import NAMES, companion
from oomph.explain.facts.fact import InvolvedPackage, Library, LibraryVersion, LoggedGpu
from oomph.explain.facts.version_range import Version, VersionRange, version
from oomph.files.patterns import lazy_pattern

WORDS = companions.WORDS | frozenset(
    {"Driver", "nvcc", "Cuda", "compute", "capability", "cuDNN", "CuDNN", "libcuda", "kernel", "Python", "py", "cp"}
)
"""Words in lines that state versions but match no signature; see `oomph.explain.reading.log.Words`."""


class _Printed(NamedTuple):
    """A line that prints a version, and the word without which it cannot match."""

    library: Library
    word: str
    pattern: re.Pattern[str]


class _Implied(NamedTuple):
    """A path or prefix that only some versions print."""

    library: Library
    text: str
    versions: VersionRange


_V = r"v?(?P<version>\d{1,4}(?:\.\d{1,6}){1,3}(?:\.dev\d{1,12}|\w{0,6}))"
# The prompt "(py38) $", or the folder of such an environment. Its name is digits without a dot.
_OF_ENVIRONMENT = lazy_pattern(r"(?:\A\s{0,4}\(|[/\\]envs[/\\])(?P<digits>py(?:thon)?3\d{1,2})[)/\\]")
_PRINTED = (
    _Printed(
        "tensorflow", "ensor", lazy_pattern(rf"(?i)\btensor ?flow(?:[ -](?:gpu|cpu))? version\b[^\w<>~!]{{0,6}}{_V}")
    ),
    _Printed("tensorflow", "TF", lazy_pattern(rf"\bTF(?:[ _-]?version| ver)\b\W{{0,6}}{_V}", re.IGNORECASE)),
    _Printed("tensorflow", "__version__", lazy_pattern(rf"\b(?:tf|tensorflow)\.__version__\W{{1,6}}{_V}")),
    _Printed("tensorflow", "Detected an", lazy_pattern(rf"Detected an installation of version {_V}")),
    _Printed("tensorflow", "TFLite", lazy_pattern(rf"\bTFLite {_V}")),
    _Printed("keras", "eras", lazy_pattern(rf"(?i)(?<![\w-])keras version\b\W{{0,6}}{_V}")),
    _Printed("keras", "__version__", lazy_pattern(rf"(?<![\w.])keras\.__version__\W{{1,6}}{_V}")),
    _Printed("python", "Python", lazy_pattern(rf"\bPython(?: version)?\b[ :]{{1,3}}{_V}")),
    _Printed("python", "ython", lazy_pattern(r"[/\\]python(?P<version>[23]\.\d{1,2})[/\\]")),
    _Printed("python", "py", _OF_ENVIRONMENT),
    _Printed("python", "-cp", lazy_pattern(r"-(?P<digits>cp[23]\d{1,2})-[a-z]\w{1,60}-[\w.]{1,60}\.whl")),
    _Printed("python", "ython3", lazy_pattern(r"(?P<digits>[Pp]ython3\d{1,2})[/\\](?:[Ll]ib|python\.exe)")),
    _Printed("tensorflow", "ensorflow:", lazy_pattern(rf"\btensorflow/tensorflow:{_V}")),
    _Printed("driver", "Driver Version", lazy_pattern(rf"\bDriver Version: {{1,8}}{_V}")),
    _Printed("driver", "kernel reported", lazy_pattern(rf"kernel reported version is: {_V}")),
    _Printed("cuda", "release", lazy_pattern(rf"Cuda compilation tools, release {_V}")),
    _Printed("cudnn", "uDNN", lazy_pattern(rf"Loaded runtime CuDNN library: {_V}")),
    _Printed("numpy", "NumPy", lazy_pattern(rf"cannot be run in NumPy {_V}")),
)
# "Loaded cuDNN version 8906" prints the three numbers as one: 8.9.6; from cuDNN 9 on, it is 90100 for 9.1.0.
_CUDNN_NUMBER = lazy_pattern(r"Loaded cuDNN version (?P<number>\d{4,6})\b")
_PACKAGES: dict[str, Library] = {
    "tensorflow": "tensorflow",
    "tf": "tensorflow",
    "python": "python",
    "tensorflow-gpu": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-intel": "tensorflow",
    "tensorflow-macos": "tensorflow",
    "tensorflow-metal": "tensorflow-metal",
    "keras": "keras",
    "tf-keras": "tf_keras",
    "tf_keras": "tf_keras",
    "numpy": "numpy",
    "protobuf": "protobuf",
}
_OURS = r"tensorflow(?:[-_](?:gpu|cpu|intel|macos|metal))?|keras|tf[-_]keras|numpy|protobuf"
_NIGHTLY = {"tf-nightly": "tensorflow", "keras-nightly": "keras"}
_PACKAGE = rf"(?P<package>{_OURS}|{'|'.join(_NIGHTLY)}|{NAMES})"
# The lines of `pip list`, `pip freeze`, `conda list` and "Successfully installed".
_LISTED = lazy_pattern(rf"{_PACKAGE}(?:==| {{1,60}}){_V}(?=\s|\Z)", re.IGNORECASE)
_INSTALLED = lazy_pattern(rf"(?<![\w-]){_PACKAGE}-{_V}(?=\s|\Z)")
_SATISFIED = lazy_pattern(rf"Requirement already satisfied: {_PACKAGE}(?![\w-])[^\n]{{0,300}}\({_V}\)\s*\Z")
# A person's list of what is installed: "- **TensorFlow version**: 2.16.1", "2. Horovod version: 0.28.1".
_STATED = lazy_pattern(
    rf"[\W\d_]{{0,8}}(?:framework version: |pip3? show )?(?P<package>tf|python|{_PACKAGE.removeprefix('(?P<package>')}"
    rf"(?:[-_ ](?:gpu|cpu))?\W{{0,4}}(?:versio[nm])?[\s:=#*|`'\"]{{1,12}}(?:version:? )?{_V}"
    r"(?=[\s*]{0,4}(?:[,;)(`'\"|]|\Z|: \w{1,40}Error))",
    re.IGNORECASE,
)
_SHOWN = lazy_pattern(rf"Name: {_PACKAGE}\s*\Z", re.IGNORECASE)
# What a person asks Python, with the answer on the next line.
_ASKED = lazy_pattern(r"(?:>>> ?)?(?:print\()?(?P<package>tf|tensorflow|keras)\.__version__\)?\s*\Z")
_ANSWERED = lazy_pattern(rf"['\"]?{_V}['\"]?\s*\Z")
_SHOWN_VERSION = lazy_pattern(rf"Version: {_V}\s*\Z")
_IMPLIED = (
    _Implied("keras", "-packages/keras/engine/", VersionRange(until=(2, 12))),
    _Implied("tf_keras", "/tf_keras/", VersionRange(since=(2, 15))),
    _Implied("tensorflow", "external/local_xla", VersionRange(since=(2, 15))),
    _Implied("tensorflow", "tensorflow/stream_executor/", VersionRange(until=(2, 11))),
    _Implied("tensorflow", "-packages/tensorflow_core/", VersionRange(until=(2, 1))),
    _Implied("tensorflow", "/tensorflow/python/keras/engine/", VersionRange(until=(2, 15))),
)
# Folders and files that only one generation of Keras has (compared: the wheels of 2.13 to 2.15, and 3.0 to 3.10).
_KERAS_3 = lazy_pattern(
    r"/keras/src/(?:(?:activations|backend|callbacks|constraints|dtype_policies|legacy|losses|ops|quantizers|random"
    r"|regularizers|trainers)/|(?:models/(?:functional|model|sequential)|layers/layer|optimizers/base_optimizer)\.py)"
)
_KERAS_2 = lazy_pattern(
    r"/keras/src/(?:engine|distribute|dtensor|estimator|feature_column|mixed_precision|premade_models|preprocessing)/"
)
# Lines of Abseil's logging, "I0000 00:00:1712345678.123456": TensorFlow 2.17 and later, before the log is set up.
_ABSEIL = lazy_pattern(r"[IWEF]0000 00:00:\d{10}\.")
_GPU = lazy_pattern(
    r"name: (?P<name>[^,\n]{1,80}), pci bus id: [^,]{1,30}, compute capability: (?P<capability>\d+\.\d+)"
)


class VersionReader:
    """Reads the lines of a log in order, and narrows the versions that they allow."""

    def __init__(self) -> None:
        self._printed: dict[Library, LibraryVersion] = {}
        self._implied: dict[Library, LibraryVersion] = {}
        self._gpus: dict[str, LoggedGpu] = {}
        self._involved: dict[str, InvolvedPackage] = {}
        self._asked = ""
        """The library whose version is asked for on the line before; empty if none is."""
        self._shown = ""
        """The package whose `pip show` is being read; empty if none is."""

    def see(self, text: str, line: int | None) -> None:
        """Process the next line."""
        for library, known in _printed(text):
            self._keep(library, known, line)
        for package, known in self._listed(text):
            self._keep_package(package, known, line)
        for each in companions.mentioned_in(text):
            self._involved.setdefault(each.package, InvolvedPackage(each.package, each, VersionRange(), line))
        for library, versions in _implied(text):
            self._narrow(LibraryVersion(library, versions, line))
        if "compute capability" in text and (gpu := _GPU.search(text)) is not None:
            self._gpus.setdefault(gpu["name"], LoggedGpu(gpu["name"], version(gpu["capability"]), line))

    def _keep(self, library: Library, known: Version, line: int | None) -> None:
        self._printed[library] = LibraryVersion(library, VersionRange.exactly(known), line)  # the last one is in force

    def _keep_package(self, name: str, known: Version, line: int | None) -> None:
        written = name.lower()
        written = _NIGHTLY.get(written, written)
        library: Library | None = _PACKAGES.get(written)
        if library is not None:
            self._keep(library, known, line)
        elif (known_companion := companion(written)) is not None:
            found = InvolvedPackage(known_companion.package, known_companion, VersionRange.exactly(known), line)
            self._involved[found.package] = found

    def _listed(self, text: str) -> Iterator[tuple[str, Version]]:
        """Yield the packages and versions that a line lists."""
        if (stated := _LISTED.match(text) or _STATED.match(text)) is not None:
            yield stated["package"], version(stated["version"])
        if "Successfully installed" in text:
            for each in _INSTALLED.finditer(text):
                yield each["package"], version(each["version"])
        if "already satisfied" in text and (found := _SATISFIED.match(text)) is not None:
            yield found["package"], version(found["version"])
        if (asked := _ASKED.match(text)) is not None:
            self._asked = asked["package"]
        elif self._asked:
            if (found := _ANSWERED.match(text)) is not None:
                yield self._asked, version(found["version"])
            self._asked = ""
        if text.startswith("Name: "):
            self._shown = found["package"] if (found := _SHOWN.match(text)) is not None else ""
        elif self._shown and (found := _SHOWN_VERSION.match(text)) is not None:
            yield self._shown, version(found["version"])

    def _narrow(self, fact: LibraryVersion) -> None:
        before = self._implied.get(fact.library)
        common = fact.versions if before is None else before.versions.common(fact.versions)
        if common is not None and (before is None or common != before.versions):
            self._implied[fact.library] = LibraryVersion(fact.library, common, fact.line)

    @property
    def found(self) -> tuple[LibraryVersion, ...]:
        """The versions that the lines allow, by library."""
        known = {**self._implied, **self._printed}
        return tuple(known[library] for library in sorted(known))

    @property
    def involved(self) -> tuple[InvolvedPackage, ...]:
        """The packages that build on TensorFlow and Keras, in the order in which they are first named."""
        return tuple(self._involved.values())

    @property
    def gpus(self) -> tuple[LoggedGpu, ...]:
        """The GPUs that TensorFlow created devices for."""
        return tuple(self._gpus.values())


def _printed(text: str) -> Iterator[tuple[Library, Version]]:
    for sign in _PRINTED:
        if sign.word in text and (found := sign.pattern.search(text)) is not None:
            groups = found.groupdict()
            yield sign.library, version(groups["version"]) if "version" in groups else _of_digits(groups["digits"])
    if "Loaded cuDNN" in text and (found := _CUDNN_NUMBER.search(text)) is not None:
        yield "cudnn", _of_cudnn(int(found["number"]))


def _of_digits(name: str) -> Version:
    """Return the version in "py38" or "cp311"."""
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyzP")
    return int(digits[0]), int(digits[1:])


def _of_cudnn(number: int) -> Version:
    major = 10_000 if number >= 90_000 else 1000
    return number // major, number % major // 100, number % 100


def _implied(text: str) -> Iterator[tuple[Library, VersionRange]]:
    path = text.replace("\\", "/") if "\\" in text else text
    for sign in _IMPLIED:
        if sign.text in path:
            yield sign.library, sign.versions
    if "/keras/src/" in path:
        if _KERAS_3.search(path):
            yield "keras", VersionRange(since=(3,))
        elif _KERAS_2.search(path):
            yield "keras", VersionRange((2, 13), (2, 15))
    if text[1:5] == "0000" and _ABSEIL.match(text):
        yield "tensorflow", VersionRange(since=(2, 17))
