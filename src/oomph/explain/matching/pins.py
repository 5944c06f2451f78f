"""Checks if pip can install what a command asks for, by the requirements of TensorFlow's wheels. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.explain.facts.fact import LogFacts
from oomph.explain.facts.version_range import Version, VersionRange, version
from oomph.explain.public_names.table import pythons_of, requirements_of
from oomph.files.patterns import lazy_pattern

_PIN = lazy_pattern(
    r"(?<![\w-])(?P<name>tensorflow|numpy|protobuf|keras|h5py)(?:\[[a-z-]+\])?(?P<sign>==|<)(?P<version>\d[\d.]*)"
)
_BOUND = lazy_pattern(r"(?P<sign>>=|<|~=|==)(?P<version>\d[\d.]*)")
_LEAST_PARTS = 2
_TENSORFLOW_2: Version = (2,)
_ALONE = lazy_pattern(r"pip install keras(?=\Z| &&)")
_FIRST_WITH_KERAS: Version = (2, 6)
_FIRST_WITHOUT_KERAS_2 = (2, 16)
_FIRST_PYTHON_WITH_CUDA: Version = (3, 9)


def is_installable(command: str, facts: LogFacts) -> bool:
    """False if a pip command asks for a version that the known Python or TensorFlow cannot have."""
    return "pip install" not in command or not any(_conflicts(command, facts))


def pinned(command: str, facts: LogFacts) -> str:
    """Name the Keras that belongs to the installed TensorFlow, since another one would replace TensorFlow."""
    known = facts.version_of("tensorflow")
    if known.since is None or known.since != known.until or len(known.since) < _LEAST_PARTS:
        return command
    major, minor = known.since[:_LEAST_PARTS]
    if (major, minor) < _FIRST_WITHOUT_KERAS_2:
        return _ALONE.sub(f'pip install "{keras_of(known.since)}"', command)
    return command.replace("pip install tf_keras", f'pip install "tf_keras=={major}.{minor}.*"')


def keras_of(tensorflow: Version) -> str:
    """Return the requirement for the Keras 2 of a release of TensorFlow, whose number it has from 2.6 on."""
    if tensorflow < _FIRST_WITH_KERAS:
        return "keras<2.4"
    return f"keras=={tensorflow[0]}.{tensorflow[1]}.*"


def _conflicts(command: str, facts: LogFacts) -> Iterator[bool]:
    pins = [(found["name"], found["sign"], version(found["version"].rstrip("."))) for found in _PIN.finditer(command)]
    if "[and-cuda]" in command and facts.version_of("python").is_before(_FIRST_PYTHON_WITH_CUDA):
        yield True  # TensorFlow has this extra from 2.14 on
    installs_tensorflow = any(name == "tensorflow" for name, _, _ in pins)
    for name, sign, wanted in pins:
        if name == "tensorflow":
            yield sign == "==" and _has_no_wheel(wanted, facts)
        elif not installs_tensorflow and "tensorflow" not in command:
            yield _is_refused(name, sign, wanted, facts)


def _has_no_wheel(release: Version, facts: LogFacts) -> bool:
    python, pythons = facts.version_of("python").since, pythons_of(release)
    if python is None and release >= _TENSORFLOW_2 and facts.version_of("tensorflow").is_before(_TENSORFLOW_2):
        return 7 not in pythons and bool(pythons)  # Python 3.7 is the last one that TensorFlow 1 has wheels for
    return bool(pythons) and python is not None and len(python) >= _LEAST_PARTS and python[1] not in pythons


def _is_refused(name: str, sign: str, wanted: Version, facts: LogFacts) -> bool:
    """True if the wheel of the installed TensorFlow excludes this version of a package."""
    known = facts.version_of("tensorflow")
    if known.since is None or known.since != known.until:
        return False
    asked = VersionRange.exactly(wanted)
    for bound, limit in _bounds(name, known.since):
        if bound == ">=" and (asked.is_before(limit) or (sign == "<" and wanted == limit)):
            return True
        if bound == "<" and sign == "==" and asked.is_from(limit):
            return True
    return False


def _bounds(name: str, release: Version) -> Iterator[tuple[str, Version]]:
    for requirement in requirements_of(release):
        if requirement.startswith(name):
            for found in _BOUND.finditer(requirement):
                sign = "<" if found["sign"] == "<" else ">="
                yield sign, version(found["version"])
